"""Store and index in step: the operations that talents, the command line and servers share."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from memory_core.contracts.problem import Problem
from memory_core.contracts.searcher import MemorySearcher
from memory_core.contracts.storer import UNSTORABLE, MemoryStorer
from memory_core.errors import MemoryCoreError, PluginError, VetoedError
from memory_core.model import HOT_IMPORTANCE, SHARED_USER_ID, MemoryEntry, MemoryId, SearchHit

Progress: TypeAlias = Callable[[int, int | None], None]
"""Told how much has been done, and of how much where that is known."""

REFUSALS = (*UNSTORABLE, VetoedError, PluginError)
"""The errors that keep one entry out of a solution and none of the others."""


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

        Those are removed from every scope. `new_key` may be one of them: it is overwritten in place and kept, and what
        other scopes have under that key goes with the rest, so that nothing hides the insight.
        """

    @abstractmethod
    def sync(self, user_id: str = SHARED_USER_ID, progress: Progress | None = None) -> int:
        """Bring the index up to the store for that user; return how many changes were taken over.

        `progress` is told how many were read, page by page.
        """

    @abstractmethod
    def reindex(self, user_id: str | None = None, progress: Progress | None = None) -> int:
        """Build the index anew from the store, for one user or all; return how many entries it holds.

        `progress` is told how many were read, page by page.
        """

    @abstractmethod
    def problems(self) -> list[Problem]:
        """Say what is wrong with store and index."""

    @abstractmethod
    def close(self) -> None:
        """Close store and index. Closing twice is harmless."""
