"""A tiny peer for tests: keeps texts in a file, and misbehaves as `options["mode"]` says."""

import json
import os
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.peers.serving import Item, Peer, serve


class FakePeer(Peer):
    packages = ("pytest", "a-package-that-nobody-has")

    def open(self, folder: Path, dim: int, options: dict[str, Any]) -> None:
        self._mode = options.get("mode", "")
        self._file = folder / "texts.jsonl"
        self._dim = dim
        self._texts: dict[str, str] = {}
        self._known: dict[str, int] = {}
        if self._mode == "one at a time":
            try:
                (folder / "lock").touch(exist_ok=False)
            except FileExistsError:
                raise RuntimeError(f"{folder}/lock is held by another instance") from None
        if self._mode != "memory" and self._file.exists():
            self._texts = dict(map(json.loads, self._file.read_text("utf-8").splitlines()))

    def learn(self, items: Sequence[Item]) -> None:
        self._known |= {item.text: len(item.vector) for item in items}

    def add(self, item: Item) -> None:
        assert self._known[item.text] == self._dim
        if self._mode == "prints":
            print("hello from a chatty package")
        if self._mode == "raises" and item.key.endswith("3"):
            raise ValueError(f"no room in {self._file}")
        if self._mode == "dies" and item.key.endswith("3"):
            print("out of memory", file=sys.stderr, flush=True)
            os._exit(7)
        if self._mode == "slow":
            time.sleep(30)
        if self._mode == "network":
            with socket.socket() as connection:
                connection.connect(("192.0.2.1", 80))
        self._texts[item.key] = item.text
        if self._mode not in {"memory", "forgets"}:
            with self._file.open("a", encoding="utf-8") as file:
                file.write(json.dumps([item.key, item.text]) + "\n")

    def search(self, query: Item, k: int) -> list[str]:
        if self._mode == "reads no Chinese" and not query.text.isascii():
            raise ValueError("not ASCII")
        words = set(query.text.lower().strip("?").split())
        ranked = sorted(
            self._texts,
            key=lambda key: (query.text in self._texts[key], len(words & set(self._texts[key].lower().split()))),
        )
        return ranked[::-1][:k]

    def keys(self) -> list[str]:
        return list(self._texts)

    def close(self) -> None:
        if self._mode == "one at a time":
            (self._file.parent / "lock").unlink()


if __name__ == "__main__":
    if sys.argv[1:] == ["does-not-start"]:
        raise SystemExit("ImportError: the package is broken")
    serve(FakePeer())
