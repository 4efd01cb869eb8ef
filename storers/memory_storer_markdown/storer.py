"""The storer over all scopes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from memory_core.clock import SystemClock
from memory_core.contracts import FEED_PAGE, Clock, MemoryStorer, Problem
from memory_core.errors import UnknownScopeError
from memory_core.feed import Change, LogState, merge_changes
from memory_core.model import ChangeBatch, MemoryEntry, MemoryId
from memory_storer_markdown.scope import ScopeDirectory

_BATCH = 500


class MarkdownStorer(MemoryStorer):
    """Keeps each entry in a Markdown file of its own, `<scope directory>/<user>/<readable key>.md`.

    Args:
        scopes: Scope → directory, from low to high priority. A directory is made with its first entry.
        clock: Decides what has expired.
        fsync: Wait until the disk has each file; False is faster and may lose the last writes in a power failure.
        max_file_bytes: Larger files are reported and left alone; larger entries are refused.
    """

    def __init__(
        self,
        scopes: Mapping[str, Path | str],
        *,
        clock: Clock | None = None,
        fsync: bool = True,
        max_file_bytes: int = 16 << 20,
    ) -> None:
        self._clock = clock or SystemClock()
        self._scopes = {
            name: ScopeDirectory(name, Path(place), fsync=fsync, max_file_bytes=max_file_bytes)
            for name, place in scopes.items()
        }

    def _scope(self, name: str) -> ScopeDirectory:
        try:
            return self._scopes[name]
        except KeyError:
            known = ", ".join(self._scopes)
            raise UnknownScopeError(f"This store has no scope {name!r}; it has: {known}.") from None

    def _now(self) -> float:
        return self._clock.now().timestamp()

    def put(self, entry: MemoryEntry) -> None:  # noqa: D102 - the contract says it
        self._scope(entry.id.scope).put([entry])

    def put_many(self, entries: Iterable[MemoryEntry]) -> int:  # noqa: D102 - the contract says it
        total = 0
        waiting: dict[str, list[MemoryEntry]] = {}
        for entry in entries:
            batch = waiting.setdefault(self._scope(entry.id.scope).name, [])
            batch.append(entry)
            total += 1
            if len(batch) >= _BATCH:
                self._scopes[entry.id.scope].put(batch)
                batch.clear()
        for name, batch in waiting.items():
            if batch:
                self._scopes[name].put(batch)
        return total

    def get(self, id: MemoryId) -> MemoryEntry | None:  # noqa: D102 - the contract says it
        found = self._scope(id.scope).get(id.user_id, [id.key], self._now())
        return found[0] if found else None

    def get_many(self, ids: Sequence[MemoryId]) -> dict[MemoryId, MemoryEntry]:  # noqa: D102 - the contract says it
        wanted: dict[tuple[str, str], list[str]] = {}
        for id in ids:
            wanted.setdefault((id.scope, id.user_id), []).append(id.key)
        found = (self._scope(scope).get(user, keys, self._now()) for (scope, user), keys in wanted.items())
        return {entry.id: entry for entries in found for entry in entries}

    def remove(self, id: MemoryId) -> bool:  # noqa: D102 - the contract says it
        return self._scope(id.scope).remove(id.user_id, id.key, self._now())

    def scan(self, user_id: str | None = None, scope: str | None = None) -> Iterator[MemoryEntry]:  # noqa: D102
        places = self._scopes.values() if scope is None else [self._scope(scope)]
        for place in places:
            yield from place.scan(user_id, self._now())

    def users(self) -> list[str]:  # noqa: D102 - the contract says it
        return sorted(set[str]().union(*(place.users(self._now()) for place in self._scopes.values())))

    def changes(self, since: str | None, user_id: str, limit: int = FEED_PAGE) -> ChangeBatch:  # noqa: D102
        now = self._now()
        logs = {name: _Log(place, now) for name, place in self._scopes.items()}
        return merge_changes(logs, since, user_id, limit)

    def purge_expired(self, now: datetime) -> int:  # noqa: D102 - the contract says it
        return sum(place.purge(now.timestamp()) for place in self._scopes.values())

    def problems(self) -> list[Problem]:  # noqa: D102 - the contract says it
        return [problem for place in self._scopes.values() for problem in place.problems()]

    def close(self) -> None:  # noqa: D102 - the contract says it
        for place in self._scopes.values():
            place.close()


class _Log:
    """One scope's log at one moment."""

    def __init__(self, place: ScopeDirectory, now: float) -> None:
        self._place = place
        self._now = now

    def state(self, user_id: str) -> LogState:
        return self._place.state(user_id)

    def page(self, user_id: str, after: int, limit: int) -> list[Change]:
        return self._place.page(user_id, after, limit, self._now)
