"""Bare bm25s with its own tokenizer: a sparse matrix of scores over a fixed list of texts, in memory.

There is no way to add to an index: one more text means a new index over all of them.
"""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.peers.serving import Item, Peer, serve

bm25s: Any = import_module("bm25s")


class Bm25sPeer(Peer):
    """`bm25s.BM25` over `bm25s.tokenize`."""

    packages = ("bm25s", "numpy")

    def open(self, folder: Path, dim: int, options: dict[str, Any]) -> None:
        del folder, dim, options
        self._keys: list[str] = []
        self._texts: list[str] = []
        self._index: Any = None

    def add(self, item: Item) -> None:
        self.fill([item])

    def fill(self, items: Sequence[Item]) -> None:
        self._keys += [item.key for item in items]
        self._texts += [item.text for item in items]
        self._index = bm25s.BM25()
        self._index.index(bm25s.tokenize(self._texts, show_progress=False), show_progress=False)

    def search(self, query: Item, k: int) -> list[str]:
        words = bm25s.tokenize(query.text, show_progress=False)
        places, scores = self._index.retrieve(words, k=min(k, len(self._keys)), show_progress=False)
        return [self._keys[place] for place, score in zip(places[0], scores[0], strict=True) if score > 0]

    def keys(self) -> list[str]:
        return self._keys


if __name__ == "__main__":
    serve(Bm25sPeer())
