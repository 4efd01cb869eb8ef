from collections.abc import Callable

import pytest

from memory_core.testing import SearcherContract
from memory_searcher_fulltext.searcher import FulltextSearcher


class TestFulltextSearcher(SearcherContract):
    @pytest.fixture
    def open_searcher(self) -> Callable[[], FulltextSearcher]:
        return FulltextSearcher
