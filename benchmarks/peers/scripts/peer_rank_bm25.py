"""Bare rank_bm25, as its page shows it: words between spaces, an index of a fixed list of texts, in memory.

There is no way to add to an index: one more text means a new index over all of them.
"""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.peers.serving import Item, Peer, serve

np: Any = import_module("numpy")
rank_bm25: Any = import_module("rank_bm25")


class RankBM25Peer(Peer):
    """`BM25Okapi` over `text.lower().split()`."""

    packages = ("rank-bm25", "numpy")

    def open(self, folder: Path, dim: int, options: dict[str, Any]) -> None:
        del folder, dim, options
        self._keys: list[str] = []
        self._texts: list[list[str]] = []
        self._index: Any = None

    def add(self, item: Item) -> None:
        self.fill([item])

    def fill(self, items: Sequence[Item]) -> None:
        self._keys += [item.key for item in items]
        self._texts += [item.text.lower().split() for item in items]
        self._index = rank_bm25.BM25Okapi(self._texts)

    def search(self, query: Item, k: int) -> list[str]:
        scores = self._index.get_scores(query.text.lower().split())
        best = np.argsort(scores)[::-1][:k]
        return [self._keys[place] for place in best if scores[place] > 0]

    def keys(self) -> list[str]:
        return self._keys


if __name__ == "__main__":
    serve(RankBM25Peer())
