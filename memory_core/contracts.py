"""What a backend implements, and what the rest of the library relies on.

Plugins subclass the ABCs (few abstract methods, working defaults for the rest); callers may pass anything that fits
the Protocols. All of it is synchronous and safe to call from several threads. The contract suites in
`memory_core.testing` check every sentence here.
"""

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, runtime_checkable

from memory_core.errors import (
    InvalidEntryError,
    InvalidKeyError,
    MemoryCoreError,
    PluginError,
    UnknownScopeError,
    VetoedError,
)
from memory_core.model import (
    HOT_IMPORTANCE,
    SHARED_USER_ID,
    ChangeBatch,
    MemoryEntry,
    MemoryId,
    SearchHit,
    SearchQuery,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FEED_PAGE = 1_000
"""How many changes a store hands over at a time."""

UNSTORABLE = (InvalidEntryError, InvalidKeyError, UnknownScopeError)
"""The errors of a store about one entry: it can take others."""

REFUSALS = (*UNSTORABLE, VetoedError, PluginError)
"""The errors that keep one entry out of a solution and none of the others."""

ChangeFeed = Callable[[str | None, str], ChangeBatch]
"""A store's `changes(since, user_id)`."""


@runtime_checkable
class Clock(Protocol):
    """Where the time comes from; tests pass a `FakeClock`."""

    def now(self) -> datetime:
        """Return the present moment, aware, in UTC."""
        ...


@dataclass(frozen=True, slots=True)
class ModelReply:
    """What a language model answered, and why it stopped (`"stop"`, `"length"`, …)."""

    text: str
    finish_reason: str = "stop"


class ChatModel(Protocol):
    """A language model for the library's own calls (flush, consolidation, summaries)."""

    async def complete(self, system: str, user: str, max_output_tokens: int) -> ModelReply:
        """Answer `user` under the rules of `system`."""
        ...


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that `doctor` reports: what, where, and what to do about it."""

    severity: Literal["info", "warning", "error"]
    code: str
    message: str
    where: str = ""
    advice: str = ""


@dataclass(frozen=True, slots=True)
class ScopePlace:
    """Where one scope lives: its own directory for stores of files, its own namespace for stores on a server.

    Two solutions share a scope exactly when both are equal. `namespace` is empty for a scope that all workspaces
    share.
    """

    name: str
    directory: Path
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class BackendContext:
    """What a backend's factory is told beside its own options.

    `scopes` go from low to high priority. `workspace` is the directory for which the settings were read: relative
    paths in options start there. `index_dir` is a private directory for derived files: it may be deleted at any time,
    and need not exist yet. `cache_dir` is the like, shared by all of the user's indexes; None means `index_dir`.
    `stemmer` is for `memory_core.text.tokens`. `build_searcher` and `build_embedder` let a backend use others by name,
    with the options that the configuration has for them.
    """

    scopes: tuple[ScopePlace, ...]
    index_dir: Path
    clock: Clock
    stemmer: str | None
    build_searcher: "SearcherBuilder"
    build_embedder: "EmbedderBuilder"
    workspace: Path = Path()
    cache_dir: Path | None = None


class SearcherBuilder(Protocol):
    """Builds a searcher by its registered name."""

    def __call__(self, name: str) -> "MemorySearcher": ...  # noqa: D102 - the class says it


class EmbedderBuilder(Protocol):
    """Builds an embedder by its registered name; None means the configured one."""

    def __call__(self, name: str | None = None) -> "Embedder": ...  # noqa: D102 - the class says it


class MemoryStorer(ABC):
    """Keeps entries: the truth that every index follows.

    Writes are durable when they return and raise when they cannot be; nothing is ever reported as saved that is
    not. Reads never write an entry. An expired entry is absent from every read, also before it is purged. What
    happens to a key in one scope never touches another scope's copy.
    """

    @abstractmethod
    def put(self, entry: MemoryEntry) -> None:
        """Store `entry`, replacing what has the same id, atomically and durably.

        Raises:
            InvalidEntryError: This store cannot hold it, for example because it is too large.
            UnknownScopeError: The entry's scope is not one of this store's.
            StorageUnavailableError: It could not be written; what was there before is still there.
        """

    def put_many(self, entries: Iterable[MemoryEntry]) -> int:
        """Store many entries and return how many were given; each of them is atomic, all are durable on return.

        Not all as one: when it raises or the process is killed, each entry is there as a whole or not at all, and
        repeating the call is harmless. Of several with one id the last counts. Optional: a store overrides it where
        many at a time cost less than one at a time (one transaction, one round trip, one wait for the disk).

        Raises:
            InvalidEntryError, UnknownScopeError, StorageUnavailableError: As `put`, for one of them.
        """
        count = 0
        for entry in entries:
            self.put(entry)
            count += 1
        return count

    @abstractmethod
    def get(self, id: MemoryId) -> MemoryEntry | None:
        """Return the live entry with that id, or None.

        Raises:
            StorageUnavailableError: The store could not be read.
        """

    def get_many(self, ids: Sequence[MemoryId]) -> dict[MemoryId, MemoryEntry]:
        """Return the live entries among `ids`; absent ones are left out."""
        found = ((id, self.get(id)) for id in ids)
        return {id: entry for id, entry in found if entry is not None}

    @abstractmethod
    def remove(self, id: MemoryId) -> bool:
        """Remove that entry durably; return whether a live one was there.

        Raises:
            StorageUnavailableError: It could not be removed.
        """

    @abstractmethod
    def scan(self, user_id: str | None = None, scope: str | None = None) -> Iterator[MemoryEntry]:
        """Yield every live entry, or those of one user or scope. The order is not defined."""

    def users(self) -> list[str]:
        """Return the ids of all users who have live entries, sorted."""
        return sorted({entry.id.user_id for entry in self.scan()})

    @abstractmethod
    def changes(self, since: str | None, user_id: str, limit: int = FEED_PAGE) -> ChangeBatch:
        """Return what happened to one user's entries after the cursor `since`, oldest first, at most about `limit`.

        `since=None`, a cursor of another store, and one that is too old give a batch with `complete=True`. A key
        that changed twice is named once, with its last state. Expired entries are never upserts. Writes of other
        processes and machines are included. Repeating a call with the same cursor is harmless.
        """

    @abstractmethod
    def purge_expired(self, now: datetime) -> int:
        """Delete what has expired at `now` and return how many; followers see removals."""

    def problems(self) -> list[Problem]:
        """Say what is wrong with the store (unreadable files, a server that may lose data); for `doctor`."""
        return []

    def close(self) -> None:
        """Release files and connections. Closing twice is harmless."""
        return


class MemorySearcher(ABC):
    """Finds entries: a follower of a store, fed through `apply`, never the truth.

    Blank text or `top_k < 1` finds nothing. Scores lie in 0..1. Ties go by importance, then newest, then key.
    Expired entries are never returned. Filters count before `top_k`, never after.

    `kind` tells a hybrid how to read the scores: those of a `"lexical"` searcher start at 0 and are divided by their
    maximum, those of a `"dense"` one say something only against the scores of all entries (`score_stats`).
    """

    kind: ClassVar[Literal["lexical", "dense"]] = "lexical"

    def __init__(self) -> None:
        self._cursors: dict[str, str] = {}
        self._apply_lock = RLock()

    @abstractmethod
    def search(self, query: SearchQuery) -> list[SearchHit]:
        """Return at most `query.top_k` entries that fit the text, best first.

        Raises:
            IndexUnavailableError: The index could not be read.
        """

    @abstractmethod
    def list_all(
        self, user_id: str, limit: int, *, now: datetime | None = None, scopes: Sequence[str] | None = None
    ) -> list[MemoryEntry]:
        """Return at most `limit` entries by importance, then newest, then key; `now=None` hides nothing expired."""

    def hot(
        self, user_id: str, limit: int, *, now: datetime | None = None, scopes: Sequence[str] | None = None
    ) -> list[MemoryEntry]:
        """Return at most `limit` entries of importance 5 and more, in the order of `list_all`."""
        listed = self.list_all(user_id, limit, now=now, scopes=scopes)
        return [entry for entry in listed if entry.importance >= HOT_IMPORTANCE]

    def count(self, user_id: str, *, now: datetime | None = None, below: int | None = None) -> int:
        """Return how many entries a user has in all scopes, or how many of less importance than `below`."""
        everything = self.list_all(user_id, sys.maxsize, now=now)
        return sum(1 for entry in everything if below is None or entry.importance < below)

    @abstractmethod
    def update_index(self, entry: MemoryEntry) -> None:
        """Make `entry` findable, replacing what the index has under the same id."""

    @abstractmethod
    def remove_index(self, id: MemoryId) -> None:
        """Make that entry unfindable; an unknown id is no error."""

    @abstractmethod
    def clear(self, user_id: str | None = None) -> None:
        """Forget everything, or everything of one user, the cursor included.

        An implementation with in-memory cursors calls `forget_cursor(user_id)`.
        """

    def apply(self, batch: ChangeBatch, user_id: str) -> None:
        """Take over one step of a store's change feed and remember its cursor.

        Raises:
            IndexUnavailableError: It could not be written; the cursor has not moved.
        """
        with self._apply_lock:
            if batch.complete:
                self.clear(user_id)
            for id in batch.removals:
                self.remove_index(id)
            for entry in batch.upserts:
                self.update_index(entry)
            self._cursors[user_id] = batch.cursor

    def follow(self, changes: ChangeFeed, user_id: str) -> int:
        """Bring this index up to the store for that user; return how many changes were taken over.

        Never called twice at once for one user. A searcher made of others may bring up each by its own cursor.

        Raises:
            StorageUnavailableError: The store could not be read.
            IndexUnavailableError: The index could not be written; it stands where it stood.
        """
        total = 0
        while True:
            since = self.cursor(user_id)
            batch = changes(since, user_id)
            if batch or batch.cursor != since:
                self.apply(batch, user_id)
                total += len(batch.upserts) + len(batch.removals)
            if not batch.more:
                return total

    def cursor(self, user_id: str) -> str | None:
        """Return how far this index has followed the store for that user; None when it has nothing."""
        return self._cursors.get(user_id)

    def forget_cursor(self, user_id: str | None = None) -> None:
        """Drop the in-memory cursor of one user or of all; the next `apply` will be a complete one."""
        if user_id is None:
            self._cursors.clear()
        else:
            self._cursors.pop(user_id, None)

    def scores(self, query: SearchQuery, ids: Sequence[MemoryId]) -> dict[MemoryId, float]:
        """Return this searcher's score of given entries, also those that `search` would not list.

        Optional: a searcher that cannot say leaves ids out; a hybrid then takes its score as 0.
        """
        del query, ids
        return {}

    def score_stats(self, query: SearchQuery) -> tuple[float, float] | None:
        """Return mean and standard deviation of this searcher's scores over that user's entries, or a sample of them.

        Optional, for dense searchers: without it a hybrid takes them from the candidates that it has.
        """
        del query
        return None

    def unknown_share(self, text: str) -> float:
        """Return which share of `text` this searcher cannot read, 0..1: a hybrid trusts it less by that.

        Optional: dense searchers pass on what their embedder says.
        """
        del text
        return 0.0

    def embedders(self) -> "Sequence[Embedder]":
        """Return the embedders that this searcher asks, its arms' included; for `embed status`."""
        return ()

    def problems(self) -> list[Problem]:
        """Say what is wrong with the index; for `doctor`."""
        return []

    def close(self) -> None:
        """Release files and memory. Closing twice is harmless."""
        return


class Embedder(ABC):
    """Turns text into unit-length float32 vectors of one model."""

    @property
    @abstractmethod
    def model_id(self) -> str:
        """Names model and settings; vectors of two ids must never be compared."""

    @property
    @abstractmethod
    def dim(self) -> int:
        """The length of each vector."""

    @abstractmethod
    def embed_documents(self, texts: Sequence[str]) -> "NDArray[np.float32]":
        """Return one row per text, shape `(len(texts), dim)`; a text without content may give a zero row."""

    @abstractmethod
    def embed_query(self, text: str) -> "NDArray[np.float32]":
        """Return the query's vector, shape `(dim,)`."""

    def unknown_share(self, text: str) -> float:
        """Return the share of the text's tokens that the model does not know, 0..1.

        Optional; an embedder that cannot see its tokenizer says 0. An English model that is shown Chinese is the case
        that this is for: a hybrid takes weight away from what it cannot read.
        """
        del text
        return 0.0

    def close(self) -> None:
        """Release the model."""
        return


@dataclass(frozen=True, slots=True)
class Remembered:
    """What `remember` did: the entry as stored, and the live entry that it replaced."""

    entry: MemoryEntry
    previous: MemoryEntry | None = None


@dataclass(frozen=True, slots=True)
class Stored:
    """What `store_many` did with one entry: the entry as stored, or as given with the `error` that kept it out."""

    entry: MemoryEntry
    error: MemoryCoreError | None = None


@dataclass(frozen=True, slots=True)
class Consolidated:
    """What `consolidate` did.

    `removed` are the merged memories that are gone; `missing` the keys that were not there; `left` the ids that could
    not be removed, with the reason: the insight is stored all the same.
    """

    entry: MemoryEntry
    removed: tuple[MemoryId, ...]
    missing: tuple[str, ...] = ()
    left: tuple[tuple[MemoryId, str], ...] = ()


class MemorySolution(ABC):
    """A store and an index kept in step for one workspace: what talents, the command line and servers share.

    Reads merge the scopes: for one key the highest scope that has it wins. `scope=None` means every scope when
    reading or forgetting, and the default scope when writing.
    """

    storer: MemoryStorer
    searcher: MemorySearcher
    scopes: tuple[str, ...]
    default_scope: str

    @abstractmethod
    def compute_ttl(self, importance: int) -> int:
        """Return the lifetime in seconds of a memory of that importance; −1 means for ever."""

    @abstractmethod
    def remember(
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
        """Store or overwrite a memory; durable on return. `ttl_s=None` lets the importance decide.

        Raises:
            InvalidKeyError, InvalidEntryError, UnknownScopeError: The input cannot be stored.
            VetoedError: A hook refused it.
            StorageUnavailableError: It could not be written.
        """

    @abstractmethod
    def store(self, entry: MemoryEntry) -> MemoryEntry:
        """Store a finished entry with its own times, as importing and restoring do; return it as stored.

        Raises:
            InvalidEntryError, UnknownScopeError, VetoedError, PluginError, StorageUnavailableError: As `remember`.
        """

    def store_many(self, entries: Sequence[MemoryEntry]) -> list[Stored]:
        """Store finished entries through the same hooks and checks as `store`; return an answer for each, in order.

        What an answer calls stored is durable; an entry that is refused carries its error and keeps none of the others
        out. Of several with one id the last one that was not refused counts. For a few hundred at a time: a store may
        do them as one, while others wait.

        Raises:
            StorageUnavailableError: The store failed. Each entry is there as a whole or not at all, and repeating the
                call is harmless.
        """
        return [self._stored(entry) for entry in entries]

    def _stored(self, entry: MemoryEntry) -> Stored:
        try:
            return Stored(self.store(entry))
        except REFUSALS as error:
            return Stored(entry, error)

    @abstractmethod
    def recall(self, key: str, *, user_id: str = SHARED_USER_ID, scope: str | None = None) -> MemoryEntry | None:
        """Return the memory with exactly that key, or None."""

    @abstractmethod
    def search(
        self,
        text: str,
        *,
        user_id: str = SHARED_USER_ID,
        top_k: int = 5,
        scopes: Sequence[str] | None = None,
        min_importance: int | None = None,
    ) -> list[SearchHit]:
        """Return the memories that fit `text`, best first; one whose key is exactly `text` is always among them."""

    @abstractmethod
    def hot(
        self, *, user_id: str = SHARED_USER_ID, limit: int = 5, scopes: Sequence[str] | None = None
    ) -> list[MemoryEntry]:
        """Return the memories of importance 5 and more, by importance, then newest."""

    @abstractmethod
    def list_all(
        self, *, user_id: str = SHARED_USER_ID, limit: int = 100, scopes: Sequence[str] | None = None
    ) -> list[MemoryEntry]:
        """Return the memories by importance, then newest, without a threshold."""

    @abstractmethod
    def count(self, *, user_id: str = SHARED_USER_ID, below: int | None = None) -> int:
        """Return how many memories a user has, or how many of less importance than `below`; exact."""

    @abstractmethod
    def forget(self, key: str, *, user_id: str = SHARED_USER_ID, scope: str | None = None) -> tuple[str, ...]:
        """Remove a memory from one scope, or from all, and return the scopes that had it."""

    @abstractmethod
    def consolidate(
        self,
        keys: Sequence[str],
        new_key: str,
        insight: str,
        *,
        user_id: str = SHARED_USER_ID,
        scope: str | None = None,
        source: str = "tool",
    ) -> Consolidated:
        """Write `insight` under `new_key`, verify it in that scope, and only then remove the merged keys.

        `new_key` may be one of `keys`: it is overwritten in place and kept.
        """

    @abstractmethod
    def sync(self, user_id: str = SHARED_USER_ID) -> int:
        """Bring the index up to the store for that user; return how many changes were taken over."""

    @abstractmethod
    def reindex(self, user_id: str | None = None) -> int:
        """Build the index anew from the store, for one user or all; return how many entries it holds."""

    @abstractmethod
    def problems(self) -> list[Problem]:
        """Say what is wrong with store and index."""

    @abstractmethod
    def close(self) -> None:
        """Close store and index. Closing twice is harmless."""


class MemorySolutionProvider(ABC):
    """Gives the solution that serves a working directory."""

    @abstractmethod
    def get(self, cwd: Path | str) -> MemorySolution:
        """Return the solution for `cwd`; the same object for the same directory."""

    def scopes_default(self) -> str:
        """Return the scope that is written when none is named."""
        return "workspace"

    def scopes_description(self, locale: str = "en") -> str:
        """Return one sentence for the model: which scopes there are and when to use which."""
        if locale.startswith("zh"):
            return "存储作用域：workspace（当前工作区，默认）或 user（用户全局）。跨项目通用的认知请存入 user。"
        return "Scope: workspace (this project, the default) or user (everywhere; for what holds across projects)."

    def close(self) -> None:
        """Close every solution that was handed out."""
        return
