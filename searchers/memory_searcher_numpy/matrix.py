"""One user's vectors in one matrix, with what filters and listings need in arrays beside it."""

import math
from collections.abc import Sequence
from datetime import datetime
from heapq import nsmallest

import numpy as np
from numpy.typing import NDArray

from memory_core.forking import INNER, ForkLock
from memory_core.model import MemoryEntry, MemoryId, SearchQuery, listing_order
from memory_core.vectors import Vectors

_NEVER = np.iinfo(np.int64).max
_DIGITS = 6  # float32 products of equal rows differ behind this
_ROUNDED = 3e-6  # cosines further apart than this have different scores
_FIRST_ROWS = 64
Mask = NDArray[np.bool_]


def _micros(moment: datetime) -> int:
    return int(moment.timestamp()) * 1_000_000 + moment.microsecond


def _scores(cosines: Vectors) -> NDArray[np.float64]:
    exact: NDArray[np.float64] = cosines.astype(np.float64)
    return np.round(np.clip((1.0 + exact) / 2.0, 0.0, 1.0), _DIGITS).astype(np.float64)


class UserMatrix:
    """Exact cosine over everything that one user has; safe for several threads.

    A score is `(1 + cosine) / 2`, so that it lies in 0..1 and keeps the distances between cosines. Rows of zeros (text
    without content for the model) are never found.
    """

    def __init__(self, dim: int) -> None:
        self.lock = ForkLock(INNER)
        self.cursor: str | None = None
        self._dim = dim
        self._entries: list[MemoryEntry] = []
        self._rows: dict[MemoryId, int] = {}
        self._scopes: dict[str, int] = {}
        self._vectors: Vectors = np.zeros((0, dim), dtype=np.float32)
        self._facts: NDArray[np.int64] = np.zeros((5, 0), dtype=np.int64)
        self._latest: tuple[bytes, Vectors] | None = None
        self._allocate(_FIRST_ROWS)

    def _allocate(self, rows: int) -> None:
        kept = len(self._entries)
        vectors = np.zeros((rows, self._dim), dtype=np.float32)
        facts = np.zeros((5, rows), dtype=np.int64)
        if kept:
            vectors[:kept] = self._vectors[:kept]
            facts[:, :kept] = self._facts[:, :kept]
        self._vectors, self._facts = vectors, facts
        self._importance, self._updated, self._expires, self._scope, self._filled = facts

    def __len__(self) -> int:
        return len(self._entries)

    # --- changing --------------------------------------------------------------------------------------------------

    def empty(self) -> None:
        """Forget every entry."""
        self._entries.clear()
        self._rows.clear()
        self._latest = None
        self._allocate(_FIRST_ROWS)

    def put(self, entry: MemoryEntry, vector: Vectors) -> None:
        """Add or replace one entry."""
        row = self._rows.get(entry.id)
        if row is None:
            row = self._rows[entry.id] = len(self._entries)
            if row == len(self._vectors):
                self._allocate(row * 2)
            self._entries.append(entry)
        else:
            self._entries[row] = entry
        self._vectors[row] = vector
        self._filled[row] = bool(vector.any())
        self._importance[row] = entry.importance
        self._updated[row] = _micros(entry.updated_at)
        self._expires[row] = _micros(entry.expires_at) if entry.expires_at else _NEVER
        self._scope[row] = self._scopes.setdefault(entry.id.scope, len(self._scopes))
        self._latest = None

    def remove(self, id: MemoryId) -> MemoryEntry | None:
        """Forget one entry and return it; the last row takes its place."""
        row = self._rows.pop(id, None)
        if row is None:
            return None
        gone, last = self._entries[row], len(self._entries) - 1
        if row != last:
            moved = self._entries[row] = self._entries[last]
            self._rows[moved.id] = row
            self._vectors[row] = self._vectors[last]
            self._facts[:, row] = self._facts[:, last]
        self._entries.pop()
        self._latest = None
        return gone

    # --- reading ---------------------------------------------------------------------------------------------------

    def _cosines(self, vector: Vectors) -> Vectors:
        """Return the cosine of every row; the latest query's are kept for the next call."""
        key = vector.tobytes()
        if self._latest is None or self._latest[0] != key:
            self._latest = key, self._vectors[: len(self._entries)] @ vector
        return self._latest[1]

    def _admitted(self, now: datetime | None, scopes: Sequence[str] | None, at_least: int | None = None) -> Mask:
        count = len(self._entries)
        mask: Mask = np.ones(count, dtype=np.bool_) if now is None else self._expires[:count] > _micros(now)
        if scopes is not None:
            mask &= np.isin(self._scope[:count], [self._scopes[name] for name in scopes if name in self._scopes])
        if at_least is not None:
            mask &= self._importance[:count] >= at_least
        return mask

    def nearest(self, query: SearchQuery, vector: Vectors) -> list[tuple[MemoryEntry, float]]:
        """Return the nearest admitted entries and their scores."""
        with self.lock:
            cosines = self._cosines(vector)
            admitted = self._admitted(query.now, query.scopes, query.min_importance)
            rows = np.flatnonzero(admitted & (self._filled[: len(admitted)] != 0))
            if len(rows) > query.top_k:
                found = cosines[rows]
                place = len(rows) - query.top_k
                # Everything that rounds to the last one's score stays, so that the order of the contract decides.
                rows = rows[found >= np.partition(found, place)[place] - _ROUNDED]
            near = [
                (self._entries[row], score)
                for row, score in zip(rows.tolist(), _scores(cosines[rows]).tolist(), strict=True)
            ]
        near.sort(key=lambda found: (-found[1], *listing_order(found[0])))
        return near[: query.top_k]

    def entries(self, ids: Sequence[MemoryId]) -> dict[MemoryId, MemoryEntry]:
        """Return those of the entries that are here."""
        with self.lock:
            return {id: self._entries[row] for id in ids if (row := self._rows.get(id)) is not None}

    def scores(self, ids: Sequence[MemoryId], vector: Vectors) -> dict[MemoryId, float]:
        """Return the scores of those entries that are here and have content."""
        with self.lock:
            known = [(id, row) for id in ids if (row := self._rows.get(id)) is not None and self._filled[row]]
            scores = _scores(self._cosines(vector)[[row for _, row in known]]).tolist()
        return {id: score for (id, _), score in zip(known, scores, strict=True)}

    def stats(self, vector: Vectors) -> tuple[float, float] | None:
        """Return mean and standard deviation of the scores of all entries; None when there are none."""
        with self.lock:
            cosines = self._cosines(vector)
            cosines = cosines[self._filled[: len(cosines)] != 0]
        if not len(cosines):
            return None
        mean = cosines.mean()
        rest = cosines - mean
        return (1 + float(mean)) / 2, math.sqrt(float(rest @ rest) / len(rest)) / 2

    def count(self, now: datetime | None, below: int | None) -> int:
        """Return how many entries there are, or how many of less importance than `below`."""
        with self.lock:
            mask = self._admitted(now, None)
            if below is not None:
                mask &= self._importance[: len(mask)] < below
            return int(mask.sum())

    def listed(self, limit: int, now: datetime | None, scopes: Sequence[str] | None) -> list[MemoryEntry]:
        """Return entries by importance, then newest, then key."""
        with self.lock:
            rows = np.flatnonzero(self._admitted(now, scopes))
            if len(rows) > limit:
                importance = self._importance[rows]
                least = np.partition(importance, len(rows) - limit)[len(rows) - limit]
                above, level = rows[importance > least], rows[importance == least]
                updated = self._updated[level]
                place = len(level) - (limit - len(above))
                rows = np.concatenate((above, level[updated >= np.partition(updated, place)[place]]))
            places: list[int] = rows.tolist()
            entries = [self._entries[row] for row in places]
        return nsmallest(limit, entries, key=listing_order)
