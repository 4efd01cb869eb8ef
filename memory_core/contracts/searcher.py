"""What finds entries: a follower of the store."""

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from datetime import datetime
from threading import RLock
from typing import TYPE_CHECKING, ClassVar, Literal

from memory_core.contracts.candidates import Candidates
from memory_core.contracts.problem import Problem
from memory_core.model import HOT_IMPORTANCE, ChangeBatch, MemoryEntry, MemoryId, SearchHit, SearchQuery

if TYPE_CHECKING:
    from memory_core.contracts.embedder import Embedder

ChangeFeed = Callable[[str | None, str], ChangeBatch]
"""A store's `changes(since, user_id)`."""


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

        The entries, also those of the listings, may be shared with the index and with other answers: neither they nor
        their `metadata` may be changed. `entry.model_copy(deep=True)` gives one's own.

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

    def candidates(self, query: SearchQuery) -> Candidates:
        """Return what `search` would, as ids and scores, entries to be read as they are wanted.

        Optional: for a hybrid, which asks for many more than it returns. By default the entries are read at once.
        """
        return Candidates.of(self.search(query))

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
