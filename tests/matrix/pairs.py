"""The pairs of stores and indexes, and how a test opens one by configuration."""

import json
import os
import subprocess
import sys
import textwrap
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memory_core import load_provider
from memory_core.contracts import Clock, MemorySolution, MemorySolutionProvider
from memory_core.model import SearchHit

ROOT = Path(__file__).resolve().parents[2]
STORERS = ("markdown", "kv", "redis")
SEARCHERS = ("fulltext", "whoosh", "numpy", "lancedb", "hybrid")
DENSE = ("numpy", "lancedb")
"""These rank by an English model: a Chinese query finds what is there, in an order that means little."""

PAIRS = [(storer, searcher) for storer in STORERS for searcher in SEARCHERS]
CROSS = [(storer, searcher) for storer, searcher in PAIRS if storer == "kv" or searcher == "fulltext"]
"""Every store once and every index once: the short form of long tests."""

PREAMBLE = """
import json, sys, time
from memory_core import load_provider
work, overrides = sys.argv[1], json.loads(sys.argv[2])
provider = load_provider(work, overrides=overrides)
solution = provider.get(work)
"""


@dataclass
class Pair:
    """A workspace with one store and one index; `open` is one node, and a `node` has a data folder of its own."""

    storer: str
    searcher: str
    work: Path
    home: Path
    clock: Clock
    redis_url: str | None = None
    opened: list[MemorySolutionProvider] = field(default_factory=list[MemorySolutionProvider])

    def overrides(self, node: str = "") -> dict[str, Any]:
        settings: dict[str, Any] = {
            "storer": self.storer,
            "searcher": self.searcher,
            "embedder": "static",
            "home": str(self.home.with_name(f"{self.home.name}{node}")),
        }
        if self.redis_url is not None:
            settings["storers"] = {"redis": {"url": self.redis_url}}
        return settings

    def open(self, node: str = "", *, clock: Clock | None = None) -> MemorySolution:
        provider = load_provider(self.work, overrides=self.overrides(node), clock=clock or self.clock)
        self.opened.append(provider)
        return provider.get(self.work)

    def close(self) -> None:
        while self.opened:
            self.opened.pop().close()

    def index_files(self) -> list[Path]:
        """Return what the index and the cache of vectors keep on disk."""
        folders = (self.home / "index", self.home / "cache")
        return sorted(path for folder in folders for path in folder.rglob("*") if path.is_file())

    def process(self, body: str, *arguments: object) -> "subprocess.Popen[str]":
        """Start another process on this pair, in real time; `solution` is there for it."""
        code = PREAMBLE + textwrap.dedent(body)
        return subprocess.Popen(
            [sys.executable, "-c", code, str(self.work), json.dumps(self.overrides()), *map(str, arguments)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )


def found_keys(hits: list[SearchHit]) -> list[str]:
    return [hit.entry.id.key for hit in hits]


def listed(solution: MemorySolution, user_id: str = "shared") -> set[tuple[str, str]]:
    return {(entry.id.scope, entry.id.key) for entry in solution.list_all(user_id=user_id, limit=10_000)}
