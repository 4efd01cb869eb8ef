"""LangGraph's `InMemoryStore` with an index; its `embed` function gets the vectors that were made before.

The function returns lists of numbers, as its type says. Nothing is kept on disk.
"""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.peers.serving import Item, Peer, serve

memory: Any = import_module("langgraph.store.memory")
base: Any = import_module("langgraph.store.base")

NAMESPACE = ("memories", "shared")


class LangGraphPeer(Peer):
    """One namespace; the field `text` is indexed."""

    packages = ("langgraph", "langgraph-checkpoint", "numpy")

    def open(self, folder: Path, dim: int, options: dict[str, Any]) -> None:
        del folder, options
        self._known: dict[str, list[float]] = {}
        self._store = memory.InMemoryStore(index={"dims": dim, "embed": self._embed, "fields": ["text"]})

    def _embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [self._known[text] for text in texts]

    def learn(self, items: Sequence[Item]) -> None:
        self._known = {item.text: item.vector.tolist() for item in items}

    def add(self, item: Item) -> None:
        self._store.put(NAMESPACE, item.key, {"text": item.text})

    def fill(self, items: Sequence[Item]) -> None:
        self._store.batch([base.PutOp(NAMESPACE, item.key, {"text": item.text}) for item in items])

    def search(self, query: Item, k: int) -> list[str]:
        return [hit.key for hit in self._store.search(NAMESPACE, query=query.text, limit=k)]

    def keys(self) -> list[str]:
        return [item.key for item in self._store.search(NAMESPACE, limit=1_000_000)]


if __name__ == "__main__":
    serve(LangGraphPeer())
