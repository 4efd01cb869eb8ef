"""An embedder that gives no number: no searcher shows a score that is none, and other entries are found as before."""

from collections.abc import Callable, Sequence
from math import isfinite
from pathlib import Path

import numpy as np
import pytest

from memory_core.cached_embedder import CachedEmbedder
from memory_core.contracts import MemorySearcher
from memory_core.embedding_cache import EmbeddingCache
from memory_core.testing.fake_embedder import FakeEmbedder
from memory_core.vectors import Vectors
from memory_searcher_fulltext.searcher import FulltextSearcher
from memory_searcher_hybrid.searcher import HybridSearcher
from memory_searcher_lancedb.searcher import LanceDBSearcher
from memory_searcher_lancedb.store import LanceTable
from memory_searcher_numpy.searcher import NumpySearcher

from ._vectors import batch, entry, query


class Glitching(FakeEmbedder):
    def _rows(self, texts: Sequence[str]) -> Vectors:
        rows = super()._rows(texts)
        for place, text in enumerate(texts):
            if "glitch" in text:
                rows[place] = np.nan if "nan" in text else np.inf
        return rows


def numpy_of(folder: Path) -> MemorySearcher:
    return NumpySearcher(CachedEmbedder(Glitching(), EmbeddingCache(folder / "e.sqlite3")))


def lancedb_of(folder: Path) -> MemorySearcher:
    cached = CachedEmbedder(Glitching(), EmbeddingCache(folder / "e.sqlite3"))
    return LanceDBSearcher(LanceTable(str(folder / "table"), folder / "lock"), cached)


def written_of(folder: Path) -> MemorySearcher:
    cached = CachedEmbedder(Glitching(), EmbeddingCache(folder / "e.sqlite3"))
    return LanceDBSearcher(LanceTable(str(folder / "table"), folder / "lock"), cached, buffer_rows=1)


def hybrid_of(folder: Path) -> MemorySearcher:
    return HybridSearcher({"fulltext": FulltextSearcher(), "numpy": numpy_of(folder)})


@pytest.mark.parametrize("build", [numpy_of, lancedb_of, written_of, hybrid_of])
def test_no_score_is_no_number(tmp_path: Path, build: Callable[[Path], MemorySearcher]) -> None:
    searcher = build(tmp_path)
    entries = [entry("a", "apple"), entry("nan", "nan glitch apple"), entry("inf", "glitch apple"), entry("b", "pear")]
    searcher.apply(batch(*entries, complete=True), "u")
    for _ in range(3):  # from memory, from the table, from what is held of it
        for text in ("apple", "pear", "glitch apple", "nan glitch"):
            hits = searcher.search(query(text))
            values = [number for hit in hits for number in (hit.score, *hit.explain.values())]
            assert all(isfinite(number) for number in values)
            assert all(0 <= hit.score <= 1 for hit in hits)
            assert all(map(isfinite, searcher.score_stats(query(text)) or ()))
            assert all(map(isfinite, searcher.scores(query(text), [found.id for found in entries]).values()))
        assert searcher.search(query("apple"))[0].entry.id.key == "a"
    assert searcher.count("u") == len(searcher.list_all("u", 9)) == 4
    searcher.close()
