"""Bare numpy: a growing matrix in memory and one product a search. Nothing is kept on disk."""

from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.peers.serving import Item, Peer, serve

np: Any = import_module("numpy")


class NumpyPeer(Peer):
    """Rows in an array that doubles when it is full."""

    packages = ("numpy",)

    def open(self, folder: Path, dim: int, options: dict[str, Any]) -> None:
        del folder, options
        self._rows: Any = np.zeros((1024, dim), dtype=np.float32)
        self._keys: list[str] = []

    def add(self, item: Item) -> None:
        if len(self._keys) == len(self._rows):
            self._rows = np.concatenate([self._rows, np.zeros_like(self._rows)])
        self._rows[len(self._keys)] = np.frombuffer(item.vector, dtype=np.float32)
        self._keys.append(item.key)

    def search(self, query: Item, k: int) -> list[str]:
        scores = self._rows[: len(self._keys)] @ np.frombuffer(query.vector, dtype=np.float32)
        best = np.argpartition(-scores, min(k, len(scores) - 1))[:k]
        return [self._keys[place] for place in best[np.argsort(-scores[best])]]

    def keys(self) -> list[str]:
        return self._keys


if __name__ == "__main__":
    serve(NumpyPeer())
