"""How far a solution's memories are embedded: for `memory-core embed status`."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from memory_core.contracts import MemorySolution

if TYPE_CHECKING:
    from memory_core.embedding_cache import CacheStatus


@dataclass(frozen=True, slots=True)
class EmbeddingStatus:
    """One model's part: of `texts` different contents in the store, `embedded` have a vector in the cache.

    The rest is embedded by the next search. `cache` is None for an embedder without a cache.
    """

    model_id: str
    texts: int
    embedded: int
    cache: "CacheStatus | None" = None

    @property
    def waiting(self) -> int:
        """How many texts have no vector yet."""
        return self.texts - self.embedded


def embedding_status(solution: MemorySolution, user_id: str | None = None) -> list[EmbeddingStatus]:
    """Return one status per embedding model that the solution's searcher asks; empty when it asks none.

    Neither embeds nor indexes anything. `user_id=None` counts everybody's memories.

    Raises:
        StorageUnavailableError: The store could not be read.

    """
    embedders = solution.searcher.embedders()
    if not embedders:
        return []
    from memory_core.cached_embedder import CachedEmbedder
    from memory_core.vectors import embedding_text

    texts = list({embedding_text(entry) for entry in solution.storer.scan(user_id)})
    found: dict[str, EmbeddingStatus] = {}
    for embedder in embedders:
        if isinstance(embedder, CachedEmbedder):
            known = embedder.cache.known(embedder.model_id, texts)
            status = EmbeddingStatus(embedder.model_id, len(texts), known, embedder.cache.status())
        else:
            status = EmbeddingStatus(embedder.model_id, len(texts), 0)
        found.setdefault(status.model_id, status)
    return list(found.values())
