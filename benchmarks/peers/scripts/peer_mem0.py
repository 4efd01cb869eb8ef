"""mem0 with `infer=False` and a local vector store: `{"store": "qdrant"}` or `{"store": "faiss"}`.

Its embedder is replaced by one that looks vectors up; the key of the language model is a fake and no model is asked.
Without spaCy and a downloaded model its keyword scores and entities are off, as in a plain installation: it searches
by vectors. `fill` writes to its vector store what `add` would, many at a time.
"""

import hashlib
import os
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.peers.serving import Item, Peer, serve

USER = "shared"


class Lookup:
    """The interface of mem0's embedders over vectors that were made before."""

    def __init__(self) -> None:
        self.known: dict[str, list[float]] = {}

    def embed(self, text: str, memory_action: str | None = None) -> list[float]:
        del memory_action
        return self.known[text]

    def embed_batch(self, texts: Sequence[str], memory_action: str | None = None) -> list[list[float]]:
        del memory_action
        return [self.known[text] for text in texts]


class Mem0Peer(Peer):
    """`Memory.add` and `Memory.search` for one user."""

    packages = ("mem0ai", "qdrant-client", "faiss-cpu", "numpy")

    def open(self, folder: Path, dim: int, options: dict[str, Any]) -> None:
        os.environ["MEM0_DIR"] = str(folder / "mem0")  # read when the package is imported
        store = options["store"]
        settings = {"collection_name": "memories", "embedding_model_dims": dim, "path": str(folder / store)}
        settings |= {"on_disk": True} if store == "qdrant" else {"distance_strategy": "cosine"}
        self._memory = import_module("mem0").Memory.from_config(
            {
                "vector_store": {"provider": store, "config": settings},
                "llm": {"provider": "openai", "config": {"api_key": "not-a-key"}},
                "embedder": {"provider": "openai", "config": {"api_key": "not-a-key", "embedding_dims": dim}},
                "history_db_path": str(folder / "history.db"),
            }
        )
        self._lookup = Lookup()
        self._memory.embedding_model = self._lookup

    def learn(self, items: Sequence[Item]) -> None:
        self._lookup.known = {item.text: item.vector.tolist() for item in items}

    def add(self, item: Item) -> None:
        result = self._memory.add(item.text, user_id=USER, metadata={"key": item.key}, infer=False)
        if not result["results"]:
            raise RuntimeError("mem0 stored nothing and said so by an empty list")

    def fill(self, items: Sequence[Item]) -> None:
        now = datetime.now(UTC).isoformat()
        self._memory.vector_store.insert(
            vectors=[self._lookup.known[item.text] for item in items],
            payloads=[
                {
                    "user_id": USER,
                    "key": item.key,
                    "role": "user",
                    "data": item.text,
                    "hash": hashlib.md5(item.text.encode(), usedforsecurity=False).hexdigest(),
                    "created_at": now,
                    "updated_at": now,
                    "text_lemmatized": item.text.lower(),
                }
                for item in items
            ],
            ids=[str(uuid.uuid4()) for _ in items],
        )

    def search(self, query: Item, k: int) -> list[str]:
        found = self._memory.search(query.text, top_k=k, filters={"user_id": USER})
        return [hit["metadata"]["key"] for hit in found["results"]]

    def keys(self) -> list[str]:
        found = self._memory.get_all(filters={"user_id": USER}, top_k=1_000_000)
        return [hit["metadata"]["key"] for hit in found["results"]]

    def close(self) -> None:
        self._memory.close()


if __name__ == "__main__":
    serve(Mem0Peer())
