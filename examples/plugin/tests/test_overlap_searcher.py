"""The searcher against the contract suite that `memory-talent` ships."""

from collections.abc import Callable

import pytest
from memory_searcher_overlap.searcher import OverlapSearcher

from memory_core.testing import SearcherContract


class TestOverlapSearcher(SearcherContract):
    @pytest.fixture
    def open_searcher(self) -> Callable[[], OverlapSearcher]:
        return OverlapSearcher
