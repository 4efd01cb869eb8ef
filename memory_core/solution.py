"""A store and an index in step: the store is written, the index follows its change feed before every read."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

from memory_core.clock import SystemClock
from memory_core.contracts import (
    REFUSALS,
    UNSTORABLE,
    Clock,
    Consolidated,
    MemorySearcher,
    MemorySolution,
    MemoryStorer,
    Problem,
    Progress,
    Remembered,
    Stored,
)
from memory_core.errors import (
    CorruptEntryError,
    InvalidEntryError,
    InvalidKeyError,
    StorerError,
    UnknownScopeError,
    did_you_mean,
)
from memory_core.feed import after, reported
from memory_core.forking import MIDDLE, ForkLock
from memory_core.hooks import Hooks
from memory_core.model import (
    HOT_IMPORTANCE,
    MAX_IMPORTANCE,
    MAX_NAME_CHARS,
    SHARED_USER_ID,
    MemoryEntry,
    MemoryId,
    SearchHit,
    SearchQuery,
    clean_name,
)
from memory_core.policy import DEFAULT_TTL, FOREVER, expiry, ttl_by_importance
from memory_core.tracing import span

log = logging.getLogger(__name__)

PURGE_GAP = timedelta(hours=1)
INSIGHT_PREFIX = "[Evolved Insight] "
_LOCK_STRIPES = 64
T = TypeVar("T")


class StandardSolution(MemorySolution):
    """The solution that the built-in providers hand out; it works with any store and any index.

    Expired entries are purged with the first write and then hourly, never by a read. All methods may be called from
    several threads; followers of different users advance side by side.
    """

    def __init__(
        self,
        storer: MemoryStorer,
        searcher: MemorySearcher,
        scopes: Sequence[str],
        *,
        default_scope: str | None = None,
        clock: Clock | None = None,
        ttl: Mapping[int, int] = DEFAULT_TTL,
        hooks: Hooks | None = None,
    ) -> None:
        self.storer = storer
        self.searcher = searcher
        self.scopes = tuple(scopes)
        self.default_scope = default_scope or self.scopes[-1]
        self._clock = clock or SystemClock()
        self._ttl = ttl
        self._hooks = hooks or Hooks()
        self._locks = tuple(ForkLock(MIDDLE) for _ in range(_LOCK_STRIPES))
        self._purged_at: datetime | None = None

    def compute_ttl(self, importance: int) -> int:  # noqa: D102 - the contract says it
        ttl_s = self._hooks.compute_ttl(importance)
        return ttl_by_importance(importance, self._ttl) if ttl_s is None else ttl_s

    # --- writing ---------------------------------------------------------------------------------------------------

    def remember(  # noqa: D102 - the contract says it
        self,
        key: str,
        content: str,
        importance: int = HOT_IMPORTANCE,
        *,
        user_id: str = SHARED_USER_ID,
        scope: str | None = None,
        source: str = "tool",
        metadata: Mapping[str, Any] | None = None,
        ttl_s: int | None = None,
    ) -> Remembered:
        id = MemoryId(self._scope(scope), user_id, key)
        now = self._clock.now()
        draft = MemoryEntry.checked(
            id=id,
            content=content,
            importance=importance,
            created_at=now,
            updated_at=now,
            source=source,
            metadata=dict(metadata or {}),
        )
        expires = expiry(now, self.compute_ttl(draft.importance) if ttl_s is None else ttl_s)
        previous = self._readable(id)
        created = previous.created_at if previous is not None else now
        entry = self.store(draft.model_copy(update={"expires_at": expires, "created_at": created}))
        return Remembered(entry, previous)

    def store(self, entry: MemoryEntry) -> MemoryEntry:  # noqa: D102 - the contract says it
        self._scope(entry.id.scope)
        with span("memory.store", scope=entry.id.scope, importance=entry.importance):
            entry = self._hooks.before_store(entry)
            self.storer.put(entry)
            self._purge_if_due()
        return entry

    def store_many(self, entries: Sequence[MemoryEntry]) -> list[Stored]:  # noqa: D102 - the contract says it
        with span("memory.store_many", entries=len(entries)):
            answers: list[Stored] = []
            for entry in entries:
                try:
                    self._scope(entry.id.scope)
                    answers.append(Stored(self._hooks.before_store(entry)))
                except REFUSALS as error:
                    answers.append(Stored(entry, error))
            passed = [answer.entry for answer in answers if answer.error is None]
            try:
                self.storer.put_many(passed)
            except UNSTORABLE:  # the store refuses one of them and does not say which: ask for each
                answers = [self._put(answer) for answer in answers]
            if passed:
                self._purge_if_due()
        return answers

    def _put(self, answer: Stored) -> Stored:
        if answer.error is None:
            try:
                self.storer.put(answer.entry)
            except UNSTORABLE as error:
                return Stored(answer.entry, error)
        return answer

    def forget(self, key: str, *, user_id: str = SHARED_USER_ID, scope: str | None = None) -> tuple[str, ...]:  # noqa: D102
        removed: list[str] = []
        for name in self._selected(scope):
            try:
                if self.storer.remove(MemoryId(name, user_id, key)):
                    removed.append(name)
            except StorerError as error:
                if not removed:
                    raise
                gone = ", ".join(removed)
                raise StorerError(f"{key!r} was removed from {gone}, but not from {name}: {error}") from error
        self._purge_if_due()
        return tuple(removed)

    def consolidate(  # noqa: D102 - the contract says it
        self,
        keys: Sequence[str],
        new_key: str,
        insight: str,
        *,
        user_id: str = SHARED_USER_ID,
        scope: str | None = None,
        source: str = "tool",
    ) -> Consolidated:
        target = MemoryId(self._scope(scope), user_id, new_key)
        merged = list(dict.fromkeys(clean_name(key) for key in keys))
        if not insight.removeprefix(INSIGHT_PREFIX.strip()).strip():
            raise InvalidEntryError("The insight is blank; nothing was changed.")
        content = insight if insight.startswith(INSIGHT_PREFIX) else INSIGHT_PREFIX + insight
        entry = self.remember(
            target.key, content, MAX_IMPORTANCE, user_id=user_id, scope=target.scope, source=source, ttl_s=FOREVER
        ).entry
        if self.storer.get(target) != entry:
            raise StorerError(f"The insight {target.key!r} could not be read back; no merged memory was removed.")
        removed: list[MemoryId] = []
        missing: list[str] = []
        left: list[tuple[MemoryId, str]] = []
        for key in merged:
            found = key == target.key
            for name in self.scopes:
                id = MemoryId(name, user_id, key)
                if id == target:
                    continue
                try:
                    if self.storer.remove(id):
                        removed.append(id)
                        found = True
                except StorerError as error:
                    left.append((id, str(error)))
                    found = True
            if not found:
                missing.append(key)
        return Consolidated(entry, tuple(removed), tuple(missing), tuple(left))

    def _purge_if_due(self) -> None:
        """Purge at the first write and hourly; what fails here is housekeeping and must not fail the write."""
        now = self._clock.now()
        # A clock that was set back is no reason to wait until it has caught up.
        if self._purged_at is not None and timedelta(0) <= now - self._purged_at < PURGE_GAP:
            return
        self._purged_at = now
        try:
            count = self.storer.purge_expired(now)
        except Exception as error:  # noqa: BLE001 - the write is durable by now, whatever a store raises here
            log.warning("Expired memories could not be purged: %s", error)
            return
        if count:
            log.info("Purged %d expired memories", count)

    # --- reading ---------------------------------------------------------------------------------------------------

    def recall(self, key: str, *, user_id: str = SHARED_USER_ID, scope: str | None = None) -> MemoryEntry | None:  # noqa: D102
        for name in reversed(self._selected(scope)):
            entry = self.storer.get(MemoryId(name, user_id, key))
            if entry is not None:
                return entry
        return None

    def search(  # noqa: D102 - the contract says it
        self,
        text: str,
        *,
        user_id: str = SHARED_USER_ID,
        top_k: int = 5,
        scopes: Sequence[str] | None = None,
        min_importance: int | None = None,
    ) -> list[SearchHit]:
        user_id = clean_name(user_id, "user id")
        selected = self._checked(scopes)
        if top_k < 1 or not text.strip():
            return []
        with span("memory.search", top_k=top_k, scopes=len(selected)) as recorded:
            self.sync(user_id)
            limited = None if scopes is None else selected
            query = SearchQuery(user_id, text, top_k, self._clock.now(), limited, min_importance)

            def found(count: int) -> list[SearchHit]:
                return self.searcher.search(replace(query, top_k=count))

            hits = self._visible(found, top_k, selected, lambda hit: hit.entry)
            hits = self._hooks.after_search(query, self._with_exact_key(hits, query, selected))
            recorded.set("memory.hits", len(hits[:top_k]))
        return hits[:top_k]

    def hot(  # noqa: D102 - the contract says it
        self, *, user_id: str = SHARED_USER_ID, limit: int = 5, scopes: Sequence[str] | None = None
    ) -> list[MemoryEntry]:
        return self._listed(self.searcher.hot, user_id, limit, scopes)

    def list_all(  # noqa: D102 - the contract says it
        self, *, user_id: str = SHARED_USER_ID, limit: int = 100, scopes: Sequence[str] | None = None
    ) -> list[MemoryEntry]:
        return self._listed(self.searcher.list_all, user_id, limit, scopes)

    def count(self, *, user_id: str = SHARED_USER_ID, below: int | None = None) -> int:  # noqa: D102
        user_id = clean_name(user_id, "user id")
        self.sync(user_id)
        return self.searcher.count(user_id, now=self._clock.now(), below=below)

    def _listed(
        self, listing: Callable[..., list[MemoryEntry]], user_id: str, limit: int, scopes: Sequence[str] | None
    ) -> list[MemoryEntry]:
        user_id = clean_name(user_id, "user id")
        selected = self._checked(scopes)
        if limit < 1:
            return []
        self.sync(user_id)
        now, limited = self._clock.now(), None if scopes is None else selected

        def found(count: int) -> list[MemoryEntry]:
            return listing(user_id, count, now=now, scopes=limited)

        return self._visible(found, limit, selected, lambda entry: entry)

    def _visible(
        self, found: Callable[[int], list[T]], limit: int, scopes: Sequence[str], entry_of: Callable[[T], MemoryEntry]
    ) -> list[T]:
        """Return the first `limit` results that no higher scope shadows, asking for more while some are."""
        count = limit
        while True:
            results = found(count)
            shadowed = self._shadowed((entry_of(result).id for result in results), scopes)
            kept = [result for result in results if entry_of(result).id not in shadowed]
            if len(kept) >= limit or len(results) < count:
                return kept[:limit]
            count = count * 2 + len(shadowed)

    def _shadowed(self, ids: Iterable[MemoryId], scopes: Sequence[str]) -> set[MemoryId]:
        """Return those ids for whose key a higher one of `scopes` has a live entry too."""
        rank = {name: place for place, name in enumerate(scopes)}
        above = {
            id: [MemoryId(name, id.user_id, id.key) for name in scopes[rank[id.scope] + 1 :]]
            for id in ids
            if id.scope in rank and rank[id.scope] + 1 < len(scopes)
        }
        if not above:
            return set()
        living = self.storer.get_many([other for others in above.values() for other in others])
        return {id for id, others in above.items() if any(other in living for other in others)}

    def _with_exact_key(self, hits: list[SearchHit], query: SearchQuery, scopes: Sequence[str]) -> list[SearchHit]:
        """Put the entry whose key is exactly the query's text first."""
        if len(query.text) > 2 * MAX_NAME_CHARS:
            return hits
        try:
            key = clean_name(query.text)
        except InvalidKeyError:
            return hits
        for name in reversed(scopes):
            entry = self._readable(MemoryId(name, query.user_id, key))
            if entry is None:
                continue
            if not query.admits(entry):
                return hits
            known = next((hit for hit in hits if hit.entry.id == entry.id), SearchHit(entry, 0.0))
            exact = SearchHit(entry, 1.0, {**known.explain, "exact_key": 1.0})
            return [exact, *(hit for hit in hits if hit.entry.id != entry.id)]
        return hits

    def _readable(self, id: MemoryId) -> MemoryEntry | None:
        """Return the live entry; None also for one that cannot be read, which `problems` reports and `put` replaces."""
        try:
            return self.storer.get(id)
        except CorruptEntryError as error:
            log.warning("%s", error)
            return None

    # --- following -------------------------------------------------------------------------------------------------

    def sync(self, user_id: str = SHARED_USER_ID, progress: Progress | None = None) -> int:  # noqa: D102
        changes = self.storer.changes if progress is None else reported(self.storer.changes, progress)
        with self._lock(user_id):
            return self.searcher.follow(changes, user_id)

    def _lock(self, user_id: str) -> ForkLock:
        return self._locks[hash(user_id) % _LOCK_STRIPES]

    def reindex(self, user_id: str | None = None, progress: Progress | None = None) -> int:  # noqa: D102
        if user_id is None:
            with ExitStack() as held:  # nobody may be between asking for changes and taking them over
                for lock in self._locks:
                    held.enter_context(lock)
                self.searcher.clear()
            total = 0
            for user in self.storer.users():
                total += self.sync(user, progress and after(total, progress))
            return total
        user_id = clean_name(user_id, "user id")
        with self._lock(user_id):
            self.searcher.clear(user_id)
            return self.sync(user_id, progress)

    def problems(self) -> list[Problem]:  # noqa: D102 - the contract says it
        return [*self.storer.problems(), *self.searcher.problems()]

    def close(self) -> None:  # noqa: D102 - the contract says it
        self.searcher.close()
        self.storer.close()

    # --- scopes ----------------------------------------------------------------------------------------------------

    def _scope(self, scope: str | None) -> str:
        if scope is None:
            return self.default_scope
        if scope in self.scopes:
            return scope
        raise UnknownScopeError(
            f"There is no scope {scope!r}.{did_you_mean(scope, self.scopes)} There are: {', '.join(self.scopes)}."
        )

    def _selected(self, scope: str | None) -> tuple[str, ...]:
        return self.scopes if scope is None else (self._scope(scope),)

    def _checked(self, scopes: Sequence[str] | None) -> tuple[str, ...]:
        if scopes is None:
            return self.scopes
        wanted = {self._scope(name) for name in scopes}
        return tuple(name for name in self.scopes if name in wanted)
