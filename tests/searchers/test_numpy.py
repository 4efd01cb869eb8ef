from collections.abc import Callable

import pytest

from memory_core.testing import SearcherContract
from memory_core.testing.fake_embedder import FakeEmbedder
from memory_searcher_numpy.searcher import NumpySearcher


class TestNumpySearcher(SearcherContract):
    lexical = False

    @pytest.fixture
    def open_searcher(self) -> Callable[[], NumpySearcher]:
        return lambda: NumpySearcher(FakeEmbedder())
