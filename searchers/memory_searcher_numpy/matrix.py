"""One user's vectors in one matrix, with what filters and listings need in arrays beside it."""

from collections.abc import Sequence
from datetime import datetime
from threading import RLock

import numpy as np
from numpy.typing import NDArray

from memory_core.model import MemoryEntry, MemoryId, SearchHit, SearchQuery, hit_order, listing_order
from memory_core.vectors import Vectors

_NEVER = np.iinfo(np.int64).max
_DIGITS = 6  # float32 products of equal rows differ behind this
_FIRST_ROWS = 64
Mask = NDArray[np.bool_]


def _micros(moment: datetime) -> int:
    return int(moment.timestamp()) * 1_000_000 + moment.microsecond


class UserMatrix:
    """Exact cosine over everything that one user has; safe for several threads.

    A score is `(1 + cosine) / 2`, so that it lies in 0..1 and keeps the distances between cosines. Rows of zeros (text
    without content for the model) are never found.
    """

    def __init__(self, dim: int) -> None:
        self.lock = RLock()
        self.cursor: str | None = None
        self._dim = dim
        self._entries: list[MemoryEntry] = []
        self._rows: dict[MemoryId, int] = {}
        self._scopes: dict[str, int] = {}
        self._vectors: Vectors = np.zeros((0, dim), dtype=np.float32)
        self._facts: NDArray[np.int64] = np.zeros((5, 0), dtype=np.int64)
        self._latest: tuple[bytes, NDArray[np.float64]] | None = None
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

    def _scored(self, vector: Vectors) -> NDArray[np.float64]:
        """Return the score of every row; −1 for rows without content. The latest query's are kept for the next call."""
        key = vector.tobytes()
        if self._latest is not None and self._latest[0] == key:
            return self._latest[1]
        count = len(self._entries)
        vectors = self._vectors[:count]
        cosines = (vectors @ vector).astype(np.float64)
        scores: NDArray[np.float64] = np.round(np.clip((1.0 + cosines) / 2.0, 0.0, 1.0), _DIGITS).astype(np.float64)
        scores[self._filled[:count] == 0] = -1.0
        self._latest = key, scores
        return scores

    def _admitted(self, now: datetime | None, scopes: Sequence[str] | None, at_least: int | None = None) -> Mask:
        count = len(self._entries)
        mask: Mask = np.ones(count, dtype=np.bool_) if now is None else self._expires[:count] > _micros(now)
        if scopes is not None:
            mask &= np.isin(self._scope[:count], [self._scopes[name] for name in scopes if name in self._scopes])
        if at_least is not None:
            mask &= self._importance[:count] >= at_least
        return mask

    def search(self, query: SearchQuery, vector: Vectors) -> list[SearchHit]:
        """Return the nearest admitted entries."""
        with self.lock:
            scores = self._scored(vector)
            rows = np.flatnonzero(self._admitted(query.now, query.scopes, query.min_importance) & (scores >= 0.0))
            if len(rows) > query.top_k:
                place = len(rows) - query.top_k
                # Everything that shares the last one's score stays, so that the order of the contract decides.
                rows = rows[scores[rows] >= np.partition(scores[rows], place)[place]]
            hits = [
                SearchHit(self._entries[row], score, {"cosine": round(2 * score - 1, _DIGITS)})
                for row, score in zip(rows.tolist(), scores[rows].tolist(), strict=True)
            ]
        hits.sort(key=hit_order)
        return hits[: query.top_k]

    def scores(self, ids: Sequence[MemoryId], vector: Vectors) -> dict[MemoryId, float]:
        """Return the scores of those entries that are here and have content."""
        with self.lock:
            scores = self._scored(vector)
            found = ((id, self._rows.get(id)) for id in ids)
            return {id: float(scores[row]) for id, row in found if row is not None and scores[row] >= 0.0}

    def stats(self, vector: Vectors) -> tuple[float, float] | None:
        """Return mean and standard deviation of the scores of all entries; None when there are none."""
        with self.lock:
            scores = self._scored(vector)
            scores = scores[scores >= 0.0]
        return (float(scores.mean()), float(scores.std())) if len(scores) else None

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
            order = rows[np.lexsort((-self._updated[rows], -self._importance[rows]))]
            if len(order) > limit:
                last = order[limit - 1]
                importance, updated = self._importance[order], self._updated[order]
                before = (importance > self._importance[last]) | (
                    (importance == self._importance[last]) & (updated >= self._updated[last])
                )
                order = order[before]
            places: list[int] = order.tolist()
            entries = [self._entries[row] for row in places]
        return sorted(entries, key=listing_order)[:limit]
