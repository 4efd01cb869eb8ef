"""A small deterministic embedder, and helpers for tests of vector indexes."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from memory_core.cached_embedder import CachedEmbedder
from memory_core.embedding_cache import EmbeddingCache
from memory_core.model import ChangeBatch, MemoryEntry, MemoryId, SearchQuery
from memory_core.naming import short_hash
from memory_core.text import tokens
from memory_core.vectors import TextEmbedder
from memory_searcher_lancedb.searcher import LanceDBSearcher
from memory_searcher_lancedb.store import LanceTable

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class HashEmbedder(TextEmbedder):
    """A bag of tokens: each token has its own random direction. Texts that share words are near."""

    def __init__(self, dim: int = 64, model_id: str = "hash") -> None:
        self._dim, self._model_id = dim, model_id
        self.asked: list[str] = []

    @property
    def model_id(self) -> str:
        return self._model_id

    @property
    def dim(self) -> int:
        return self._dim

    def encode(self, texts: list[str], *, query: bool) -> Any:
        self.asked += texts
        return [sum((self._of(token) for token in tokens(text)), np.zeros(self._dim)) for text in texts]

    def _of(self, token: str) -> Any:
        return np.random.default_rng(int(short_hash(token), 16)).normal(size=self._dim)


def entry(
    key: str,
    content: str,
    *,
    user: str = "u",
    scope: str = "workspace",
    importance: int = 5,
    minutes: float = 0,
    expires: datetime | None = None,
) -> MemoryEntry:
    moment = NOW + timedelta(minutes=minutes)
    return MemoryEntry(
        id=MemoryId(scope, user, key),
        content=content,
        importance=importance,
        created_at=moment,
        updated_at=moment,
        expires_at=expires,
    )


def query(text: str, user: str = "u", top_k: int = 5, **more: Any) -> SearchQuery:
    return SearchQuery(user, text, top_k, more.pop("now", NOW), **more)


def keys(hits: Sequence[Any]) -> list[str]:
    return [hit.entry.id.key for hit in hits]


def open_searcher(folder: Path, embedder: TextEmbedder | None = None, **options: Any) -> LanceDBSearcher:
    own = {name: options.pop(name) for name in ("buffer_rows", "held_rows") if name in options}
    table = LanceTable(options.pop("uri", str(folder / "table")), folder / "write.lock", **options)
    cache = EmbeddingCache(folder / "cache" / "embeddings.sqlite3")
    return LanceDBSearcher(table, CachedEmbedder(embedder or HashEmbedder(), cache), **own)


def batch(*upserts: Any, removals: tuple[MemoryId, ...] = (), cursor: str = "1", complete: bool = False) -> ChangeBatch:
    return ChangeBatch(upserts, removals, cursor, complete)
