"""Our memory by its public interface, with any store and searcher.

The embedder is a plugin that looks vectors up which were made before, as for every other peer; it comes in by the hook
that any plugin uses.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.peers.serving import Item, Peer, serve
from memory_core import Embedder, MemoryEntry, MemoryId, load_provider
from memory_core.clock import SystemClock
from memory_core.model import SHARED_USER_ID
from memory_core.plugins import PluginRegistry, hookimpl
from memory_core.plugins.registry import NoOptions

_NEEDS = {"lancedb": "lancedb", "numpy": "numpy", "hybrid": "numpy", "whoosh": "whoosh3"}


class LookupEmbedder(Embedder):
    """Knows the vectors of the texts that the runner handed over."""

    def __init__(self, dim: int, known: dict[str, Item]) -> None:
        self._dim = dim
        self._known = known

    @property
    def model_id(self) -> str:
        return f"lookup@{self._dim}"

    @property
    def dim(self) -> int:
        return self._dim

    def embed_documents(self, texts: Sequence[str]) -> Any:
        import numpy as np

        return np.array([self._known[text].vector for text in texts], dtype=np.float32)

    def embed_query(self, text: str) -> Any:
        return self.embed_documents([text])[0]

    def unknown_share(self, text: str) -> float:
        return self._known[text].unknown


class LookupPlugin:
    """Registers the embedder `lookup`."""

    def __init__(self, dim: int, known: dict[str, Item]) -> None:
        self._dim = dim
        self._known = known

    @hookimpl
    def register_backends(self, register: Any) -> None:
        register.embedder("lookup", self._build, NoOptions)

    def _build(self, options: NoOptions, context: Any) -> Embedder:
        del options, context
        return LookupEmbedder(self._dim, self._known)


class OurPeer(Peer):
    """`remember`, `search` and a scan of the store."""

    def open(self, folder: Path, dim: int, options: dict[str, Any]) -> None:
        used = str(options)
        self.packages = ("memory-talent", *(package for name, package in _NEEDS.items() if name in used))
        self._known: dict[str, Item] = {}
        registry = PluginRegistry()
        registry.load()
        registry.register(LookupPlugin(dim, self._known), "lookup")
        work = folder / "work"
        work.mkdir(exist_ok=True)
        overrides = {"home": str(folder / "home"), "embedder": "lookup", **options}
        self._provider = load_provider(work, overrides=overrides, registry=registry)
        self._solution = self._provider.get(work)

    def learn(self, items: Sequence[Item]) -> None:
        self._known.update({item.text: item for item in items})

    def add(self, item: Item) -> None:
        self._solution.remember(item.key, item.text)

    def fill(self, items: Sequence[Item]) -> None:
        now = SystemClock().now()
        scope = self._solution.scopes[-1]
        entries = (
            MemoryEntry.checked(
                id=MemoryId(scope, SHARED_USER_ID, item.key), content=item.text, created_at=now, updated_at=now
            )
            for item in items
        )
        self._solution.storer.put_many(entries)
        self._solution.sync()

    def flush(self) -> None:
        self._solution.sync()
        drain = getattr(self._solution.searcher, "drain", None)  # a hybrid's dense arms follow in the background
        if drain is not None:
            drain()

    def search(self, query: Item, k: int) -> list[str]:
        return [hit.entry.id.key for hit in self._solution.search(query.text, top_k=k)]

    def keys(self) -> list[str]:
        return [entry.id.key for entry in self._solution.storer.scan()]

    def close(self) -> None:
        self._provider.close()


if __name__ == "__main__":
    serve(OurPeer())
