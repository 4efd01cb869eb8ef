from collections.abc import Callable
from pathlib import Path

import pytest

from memory_core.testing import SearcherContract
from memory_searcher_whoosh.searcher import WhooshSearcher


class TestWhooshSearcher(SearcherContract):
    persistent = True

    @pytest.fixture
    def open_searcher(self, tmp_path: Path) -> Callable[[], WhooshSearcher]:
        return lambda: WhooshSearcher(tmp_path / "index")
