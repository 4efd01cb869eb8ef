"""An embedder behind the cache: what numpy, LanceDB and every other vector index use."""

import logging
from collections import OrderedDict
from collections.abc import Sequence
from threading import RLock

import numpy as np

from memory_core.contracts import BackendContext, Embedder
from memory_core.embedding_cache import DEFAULT_MAX_BYTES, FILE_NAME, EmbeddingCache
from memory_core.vectors import Vectors, broken_rows

log = logging.getLogger(__name__)

_QUERIES_KEPT = 256


class CachedEmbedder(Embedder):
    """An embedder whose documents come from the cache where they can; only missing texts reach the model.

    The latest queries are kept in memory, so that one search by several arms embeds its text once. A vector with NaN or
    infinity, which would make every score NaN, counts as one of zeros and is not kept; one in the cache is made anew.
    """

    def __init__(self, embedder: Embedder, cache: EmbeddingCache, batch_size: int = 256) -> None:
        self.embedder = embedder
        self.cache = cache
        self._batch_size = batch_size
        self._queries: OrderedDict[str, Vectors] = OrderedDict()
        self._lock = RLock()
        self._turns: dict[str, RLock] = {}

    @property
    def model_id(self) -> str:  # noqa: D102 - the contract says it
        return self.embedder.model_id

    @property
    def dim(self) -> int:  # noqa: D102 - the contract says it
        return self.embedder.dim

    def embed_documents(self, texts: Sequence[str]) -> Vectors:  # noqa: D102 - the contract says it
        dim = self.dim
        known = self.cache.get(self.model_id, dim, list(dict.fromkeys(texts)))
        known.update(self._made([text for text in dict.fromkeys(texts) if text not in known]))
        result = np.empty((len(texts), dim), dtype=np.float32)
        for place, text in enumerate(texts):
            result[place] = known[text]
        broken = broken_rows(result)
        if broken:  # only what came from the cache can be
            damaged = list(dict.fromkeys(texts[place] for place in broken))
            self.cache.discard(damaged)
            known = self._made(damaged)
            for place in broken:
                result[place] = known[texts[place]]
        return result

    def _made(self, texts: Sequence[str]) -> dict[str, Vectors]:
        """Return the model's vectors of `texts`, each of finite numbers, and keep them."""
        made: dict[str, Vectors] = {}
        for start in range(0, len(texts), self._batch_size):
            batch = texts[start : start + self._batch_size]
            rows = np.asarray(self.embedder.embed_documents(batch), dtype=np.float32)
            broken = broken_rows(rows)
            if broken:
                log.warning("The model %r gave %d vectors without a value", self.model_id, len(broken))
                kept = sorted(set(range(len(batch))) - set(broken))
                self.cache.put(self.model_id, [batch[place] for place in kept], rows[kept])
                rows = rows.copy()
                rows[broken] = 0.0
            else:
                self.cache.put(self.model_id, batch, rows)
            made.update(zip(batch, rows, strict=True))
        return made

    def embed_query(self, text: str) -> Vectors:
        """Return the vector of a query; those who ask for the same one at the same time wait for the first."""
        with self._lock:
            known = self._known_query(text)
            if known is not None:
                return known
            turn = self._turns.setdefault(text, RLock())
        with turn:
            with self._lock:
                known = self._known_query(text)
            if known is not None:
                return known
            try:
                vector = np.asarray(self.embedder.embed_query(text), dtype=np.float32)
                if not np.isfinite(vector).all():
                    log.warning("The model %r gave a query's vector without a value", self.model_id)
                    return np.zeros_like(vector)
                vector.flags.writeable = False
                with self._lock:
                    self._queries[text] = vector
                    while len(self._queries) > _QUERIES_KEPT:
                        self._queries.popitem(last=False)
            finally:
                with self._lock:
                    self._turns.pop(text, None)
            return vector

    def _known_query(self, text: str) -> Vectors | None:
        known = self._queries.get(text)
        if known is not None:
            self._queries.move_to_end(text)
        return known

    def unknown_share(self, text: str) -> float:  # noqa: D102 - the contract says it
        return self.embedder.unknown_share(text)

    def close(self) -> None:  # noqa: D102 - the contract says it
        self.embedder.close()
        self.cache.close()


def cached(embedder: Embedder, context: BackendContext, max_bytes: int = DEFAULT_MAX_BYTES) -> CachedEmbedder:
    """Return `embedder` behind the cache that all indexes of this user share."""
    return CachedEmbedder(embedder, EmbeddingCache((context.cache_dir or context.index_dir) / FILE_NAME, max_bytes))
