"""The searcher: one index per user, the least recently used of many users written out and dropped."""

import logging
import sqlite3
from collections import OrderedDict
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from threading import local
from weakref import WeakValueDictionary

from memory_core.contracts import Candidates, MemorySearcher
from memory_core.forking import INNER, ForkLock
from memory_core.model import ChangeBatch, MemoryEntry, MemoryId, SearchHit, SearchQuery
from memory_searcher_fulltext.index import UserIndex
from memory_searcher_fulltext.snapshot import MIN_ENTRIES, Snapshots

log = logging.getLogger(__name__)

_SAVE_AFTER = 1_000


class FulltextSearcher(MemorySearcher):
    """BM25 over SQLite FTS5 in memory, partitioned by user: word statistics of one user never show to another.

    Args:
        stemmer: Snowball language for Latin words, or None.
        snapshot_dir: Where larger indexes are kept between starts; None keeps none.
        max_terms: Longer queries keep their rarest terms.
        max_users: How many users' indexes are in memory at once.
    """

    def __init__(
        self,
        *,
        stemmer: str | None = "english",
        snapshot_dir: Path | None = None,
        max_terms: int = 64,
        max_users: int = 64,
    ) -> None:
        super().__init__()
        self._stemmer = stemmer
        self._snapshots = Snapshots(snapshot_dir, stemmer) if snapshot_dir is not None else None
        self._max_terms = max_terms
        self._max_users = max_users
        self._indexes: OrderedDict[str, UserIndex] = OrderedDict()
        self._lock = ForkLock(INNER)
        self._alive: WeakValueDictionary[str, UserIndex] = WeakValueDictionary()
        self._last = local()

    def _index(self, user_id: str) -> UserIndex:
        """Return the user's one index, dropping what was not used for longest.

        Each thread keeps the index that it used last alive, and an index that is alive is taken back: otherwise other
        users could push it out between following the store and reading, or between asking for the cursor and taking
        over what came after it, and an empty one in its place would answer.
        """
        with self._lock:
            index = self._indexes.get(user_id) or self._alive.get(user_id) or self._load(user_id)
            self._indexes[user_id] = self._alive[user_id] = self._last.index = index
            self._indexes.move_to_end(user_id)
            while len(self._indexes) > self._max_users:
                self._save(*self._indexes.popitem(last=False))
            return index

    def _load(self, user_id: str) -> UserIndex:
        blob = self._snapshots.load(user_id) if self._snapshots is not None else None
        if blob is not None:
            try:
                return UserIndex(self._stemmer, self._max_terms, blob)
            except sqlite3.Error as error:
                log.info("A snapshot cannot be used (%s); the index is built anew", error)
        return UserIndex(self._stemmer, self._max_terms)

    def _save(self, user_id: str, index: UserIndex) -> None:
        worth_it = self._snapshots is not None and index.unsaved and index.count >= MIN_ENTRIES
        if self._snapshots is not None and worth_it and self._snapshots.save(user_id, index.serialize()):
            index.unsaved = 0

    def search(self, query: SearchQuery) -> list[SearchHit]:  # noqa: D102 - the contract says it
        if query.top_k < 1 or not query.text.strip():
            return []
        return self._index(query.user_id).search(query)

    def candidates(self, query: SearchQuery) -> Candidates:  # noqa: D102 - the contract says it
        if query.top_k < 1 or not query.text.strip():
            return Candidates.of([])
        return self._index(query.user_id).candidates(query)

    def scores(self, query: SearchQuery, ids: Sequence[MemoryId]) -> dict[MemoryId, float]:  # noqa: D102
        own = [id for id in ids if id.user_id == query.user_id]
        return self._index(query.user_id).scores(query, own)

    def list_all(  # noqa: D102 - the contract says it
        self, user_id: str, limit: int, *, now: datetime | None = None, scopes: Sequence[str] | None = None
    ) -> list[MemoryEntry]:
        return self._index(user_id).listed(limit, now, scopes) if limit > 0 else []

    def hot(  # noqa: D102 - the contract says it
        self, user_id: str, limit: int, *, now: datetime | None = None, scopes: Sequence[str] | None = None
    ) -> list[MemoryEntry]:
        return self._index(user_id).hot(limit, now, scopes) if limit > 0 else []

    def count(self, user_id: str, *, now: datetime | None = None, below: int | None = None) -> int:  # noqa: D102
        return self._index(user_id).counted(now, below)

    def update_index(self, entry: MemoryEntry) -> None:  # noqa: D102 - the contract says it
        self._index(entry.id.user_id).put(entry)

    def remove_index(self, id: MemoryId) -> None:  # noqa: D102 - the contract says it
        self._index(id.user_id).remove(id)

    def apply(self, batch: ChangeBatch, user_id: str) -> None:  # noqa: D102 - the contract says it
        index = self._index(user_id)
        index.apply(batch)
        if not batch.more and index.unsaved >= max(_SAVE_AFTER, index.count // 4):
            self._save(user_id, index)

    def cursor(self, user_id: str) -> str | None:  # noqa: D102 - the contract says it
        return self._index(user_id).cursor

    def clear(self, user_id: str | None = None) -> None:  # noqa: D102 - the contract says it
        with self._lock:
            if user_id is None:
                self._forget_all()
            else:
                self._indexes.pop(user_id, None)
                self._alive.pop(user_id, None)
            if self._snapshots is not None:
                self._snapshots.forget(user_id)

    def close(self) -> None:
        """Write larger indexes out and free the memory."""
        with self._lock:
            while self._indexes:
                self._save(*self._indexes.popitem())
            self._forget_all()

    def _forget_all(self) -> None:
        # Nothing is closed here: another thread may still be reading; the last reference frees an index.
        self._indexes.clear()
        self._alive.clear()
        self._last = local()
