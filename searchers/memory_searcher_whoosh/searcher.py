"""The searcher: one index directory per user, so that word statistics of one user never show to another."""

from collections import OrderedDict
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from threading import RLock
from weakref import WeakValueDictionary

from memory_core.contracts import Candidates, ChangeFeed, MemorySearcher
from memory_core.model import ChangeBatch, MemoryEntry, MemoryId, SearchHit, SearchQuery
from memory_core.naming import slug
from memory_searcher_whoosh.index import UserIndex


class WhooshSearcher(MemorySearcher):
    """BM25 over Whoosh files that follow the store by cursors of their own; several processes may share them.

    Args:
        directory: Where the indexes lie; made at the first write.
        stemmer: Snowball language for Latin words, or None.
        max_terms: Longer queries keep their rarest terms.
        max_users: How many users' indexes are open at once.
        lock_timeout_s: How long a write waits for another process.

    """

    def __init__(
        self,
        directory: Path,
        *,
        stemmer: str | None = "english",
        max_terms: int = 64,
        max_users: int = 64,
        lock_timeout_s: float = 30.0,
    ) -> None:
        super().__init__()
        self._directory = directory
        self._stemmer = stemmer
        self._max_terms = max_terms
        self._max_users = max_users
        self._lock_timeout_s = lock_timeout_s
        self._indexes: OrderedDict[str, UserIndex] = OrderedDict()
        self._alive: WeakValueDictionary[str, UserIndex] = WeakValueDictionary()
        self._lock = RLock()

    def _index(self, user_id: str) -> UserIndex:
        with self._lock:
            index = self._indexes.get(user_id) or self._alive.get(user_id)
            if index is None:
                index = UserIndex(self._directory / slug(user_id), self._stemmer, self._max_terms, self._lock_timeout_s)
            self._indexes[user_id] = self._alive[user_id] = index
            self._indexes.move_to_end(user_id)
            while len(self._indexes) > self._max_users:
                # Only its files are closed; a thread that still holds it opens them again, until it lets go of it.
                self._indexes.popitem(last=False)[1].close()
            return index

    def search(self, query: SearchQuery) -> list[SearchHit]:  # noqa: D102 - the contract says it
        if query.top_k < 1 or not query.text.strip():
            return []
        return self._index(query.user_id).search(query)

    def candidates(self, query: SearchQuery) -> Candidates:  # noqa: D102 - the contract says it
        if query.top_k < 1 or not query.text.strip():
            return Candidates.of([])
        return self._index(query.user_id).candidates(query)

    def scores(self, query: SearchQuery, ids: Sequence[MemoryId]) -> dict[MemoryId, float]:  # noqa: D102
        return self._index(query.user_id).scores(query, [id for id in ids if id.user_id == query.user_id])

    def list_all(  # noqa: D102 - the contract says it
        self, user_id: str, limit: int, *, now: datetime | None = None, scopes: Sequence[str] | None = None
    ) -> list[MemoryEntry]:
        return self._index(user_id).listed(limit, now, scopes) if limit > 0 else []

    def count(self, user_id: str, *, now: datetime | None = None, below: int | None = None) -> int:  # noqa: D102
        return self._index(user_id).count(now, below)

    def update_index(self, entry: MemoryEntry) -> None:  # noqa: D102 - the contract says it
        self._index(entry.id.user_id).put([entry])

    def remove_index(self, id: MemoryId) -> None:  # noqa: D102 - the contract says it
        self._index(id.user_id).put((), [id])

    def apply(self, batch: ChangeBatch, user_id: str) -> None:  # noqa: D102 - the contract says it
        self._index(user_id).apply(batch)

    def follow(self, changes: ChangeFeed, user_id: str) -> int:
        """Bring one user's index up to the store, together with other processes that do the same."""
        index, total = self._index(user_id), 0
        while True:
            since = index.cursor()
            batch = changes(since, user_id)
            if not batch and batch.cursor == since:
                return total
            if index.apply(batch):
                total += len(batch.upserts) + len(batch.removals)
                if not batch.more:
                    return total

    def cursor(self, user_id: str) -> str | None:  # noqa: D102 - the contract says it
        return self._index(user_id).cursor()

    def clear(self, user_id: str | None = None) -> None:  # noqa: D102 - the contract says it
        with self._lock:
            if user_id is not None:
                self._index(user_id).clear()
                return
            self.close()
            if self._directory.is_dir():
                for path in list(self._directory.iterdir()):
                    index = UserIndex(path, self._stemmer, self._max_terms, self._lock_timeout_s)
                    index.clear()
                    index.close()

    def close(self) -> None:
        """Close all files; a later call opens them again."""
        with self._lock:
            self._indexes.clear()
            for index in list(self._alive.values()):
                index.close()
