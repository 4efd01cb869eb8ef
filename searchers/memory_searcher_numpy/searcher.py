"""The searcher: one matrix per user, filled from the store at the first search; vectors come from the cache."""

from collections import OrderedDict
from collections.abc import Sequence
from datetime import datetime
from threading import local
from typing import ClassVar, Literal
from weakref import WeakValueDictionary

from memory_core.cached_embedder import CachedEmbedder
from memory_core.contracts import Candidates, Embedder, MemorySearcher
from memory_core.forking import INNER, ForkLock
from memory_core.model import ChangeBatch, MemoryEntry, MemoryId, SearchHit, SearchQuery
from memory_core.vectors import Vectors, embedding_text
from memory_searcher_numpy.matrix import UserMatrix


class NumpySearcher(MemorySearcher):
    """Exact nearest neighbours by cosine, without an index to tune or to keep on disk.

    Good up to some 100,000 entries a user. Every entry is found by every query; only the order says something.

    Args:
        embedder: Turns text into vectors; closed with the searcher.
        max_users: How many users' vectors are in memory at once; the others are read again when they are asked for.

    """

    kind: ClassVar[Literal["lexical", "dense"]] = "dense"

    def __init__(self, embedder: Embedder, *, max_users: int = 64) -> None:
        super().__init__()
        self._embedder = embedder
        self._max_users = max_users
        self._users: OrderedDict[str, UserMatrix] = OrderedDict()
        self._lock = ForkLock(INNER)
        self._alive: WeakValueDictionary[str, UserMatrix] = WeakValueDictionary()
        self._last = local()
        self._handed: dict[str, str | None] = {}  # the cursors that followers go by at the moment

    def _user(self, user_id: str) -> UserMatrix:
        """Return the user's one matrix, dropping what was not used for longest.

        Each thread keeps the matrix that it used last alive, and one that is alive is taken back: otherwise other users
        could push it out between following the store and reading, or while a batch is embedded, and an empty one in its
        place would answer.
        """
        with self._lock:
            matrix = self._users.get(user_id)
            if matrix is None:
                matrix = self._alive.get(user_id)
            if matrix is None:
                matrix = UserMatrix(self._embedder.dim)
            self._users[user_id] = self._alive[user_id] = matrix
            self._last.matrix = matrix
            self._users.move_to_end(user_id)
            while len(self._users) > self._max_users:
                self._users.popitem(last=False)
            return matrix

    def _query(self, text: str) -> Vectors | None:
        """Return the query's vector; None when the text says nothing to the model."""
        if not text.strip():
            return None
        vector = self._embedder.embed_query(text)
        return vector if vector.any() else None

    def search(self, query: SearchQuery) -> list[SearchHit]:  # noqa: D102 - the contract says it
        return [SearchHit(entry, score, {"cosine": round(2 * score - 1, 6)}) for entry, score in self._nearest(query)]

    def candidates(self, query: SearchQuery) -> Candidates:  # noqa: D102 - the contract says it
        matrix = self._user(query.user_id)
        ranked = [(entry.id, score) for entry, score in self._nearest(query)]
        return Candidates(ranked, matrix.entries, in_memory=True)

    def _nearest(self, query: SearchQuery) -> list[tuple[MemoryEntry, float]]:
        matrix = self._user(query.user_id)
        vector = self._query(query.text) if query.top_k > 0 and len(matrix) else None
        return matrix.nearest(query, vector) if vector is not None else []

    def scores(self, query: SearchQuery, ids: Sequence[MemoryId]) -> dict[MemoryId, float]:  # noqa: D102
        vector = self._query(query.text)
        own = [id for id in ids if id.user_id == query.user_id]
        return self._user(query.user_id).scores(own, vector) if vector is not None else {}

    def score_stats(self, query: SearchQuery) -> tuple[float, float] | None:  # noqa: D102 - the contract says it
        vector = self._query(query.text)
        return self._user(query.user_id).stats(vector) if vector is not None else None

    def unknown_share(self, text: str) -> float:  # noqa: D102 - the contract says it
        return self._embedder.unknown_share(text)

    def list_all(  # noqa: D102 - the contract says it
        self, user_id: str, limit: int, *, now: datetime | None = None, scopes: Sequence[str] | None = None
    ) -> list[MemoryEntry]:
        return self._user(user_id).listed(limit, now, scopes) if limit > 0 else []

    def count(self, user_id: str, *, now: datetime | None = None, below: int | None = None) -> int:  # noqa: D102
        return self._user(user_id).count(now, below)

    def update_index(self, entry: MemoryEntry) -> None:  # noqa: D102 - the contract says it
        vector = self._embedder.embed_documents([embedding_text(entry)])[0]
        matrix = self._user(entry.id.user_id)
        with matrix.lock:
            matrix.put(entry, vector)

    def remove_index(self, id: MemoryId) -> None:  # noqa: D102 - the contract says it
        matrix = self._user(id.user_id)
        with matrix.lock:
            gone = matrix.remove(id)
        self._forget_vectors([gone] if gone is not None else [])

    def apply(self, batch: ChangeBatch, user_id: str) -> None:
        """Embed the batch's texts in one call, then take it over in one step; nothing changes when that fails.

        A step that continues something which was dropped meanwhile leaves no cursor, so that the next reading starts
        over.
        """
        vectors = self._embedder.embed_documents([embedding_text(entry) for entry in batch.upserts])
        matrix = self._user(user_id)
        with matrix.lock:
            if batch.complete:
                matrix.empty()
            gone = [matrix.remove(id) for id in batch.removals]
            for entry, vector in zip(batch.upserts, vectors, strict=True):
                matrix.put(entry, vector)
            if batch.complete or matrix.cursor is not None or self._handed.get(user_id) is None:
                matrix.cursor = batch.cursor
        self._forget_vectors([entry for entry in gone if entry is not None])

    def _forget_vectors(self, gone: Sequence[MemoryEntry]) -> None:
        """Take the vectors of removed memories out of the cache: they say too much about the text."""
        if gone and isinstance(self._embedder, CachedEmbedder):
            self._embedder.cache.discard([embedding_text(entry) for entry in gone])

    def embedders(self) -> Sequence[Embedder]:
        """Return the one embedder."""
        return (self._embedder,)

    def cursor(self, user_id: str) -> str | None:  # noqa: D102 - the contract says it
        with self._lock:
            self._handed[user_id] = cursor = self._user(user_id).cursor
            return cursor

    def clear(self, user_id: str | None = None) -> None:  # noqa: D102 - the contract says it
        with self._lock:
            if user_id is None:
                self._users.clear()
                self._alive.clear()
            else:
                self._users.pop(user_id, None)
                self._alive.pop(user_id, None)

    def close(self) -> None:
        """Free the memory and release the model."""
        self.clear()
        self._last = local()
        self._embedder.close()
