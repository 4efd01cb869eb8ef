from collections.abc import Callable
from pathlib import Path

import pytest

from memory_core.testing import SearcherContract
from memory_core.testing.fake_embedder import FakeEmbedder
from memory_searcher_fulltext.searcher import FulltextSearcher
from memory_searcher_hybrid.searcher import HybridSearcher
from memory_searcher_numpy.searcher import NumpySearcher
from memory_searcher_whoosh.searcher import WhooshSearcher


class TestHybridOfFulltextAndNumpy(SearcherContract):
    lexical = False

    @pytest.fixture
    def open_searcher(self) -> Callable[[], HybridSearcher]:
        return lambda: HybridSearcher({"fulltext": FulltextSearcher(), "numpy": NumpySearcher(FakeEmbedder())})


class TestHybridOfTwoFiles(SearcherContract):
    persistent = True

    @pytest.fixture
    def open_searcher(self, tmp_path: Path) -> Callable[[], HybridSearcher]:
        return lambda: HybridSearcher(
            {"one": WhooshSearcher(tmp_path / "one"), "two": WhooshSearcher(tmp_path / "two")}
        )
