"""The contract suites against the installed package; CI copies this folder away from the sources and runs it there."""

from collections.abc import Callable
from pathlib import Path

import pytest

from memory_core import MemorySolutionProvider, load_provider
from memory_core.contracts import Clock
from memory_core.testing import ProviderContract, SearcherContract, StorerContract
from memory_searcher_fulltext.searcher import FulltextSearcher
from memory_storer_markdown.storer import MarkdownStorer


class TestInstalledStorer(StorerContract):
    @pytest.fixture
    def open_storer(self, tmp_path: Path) -> Callable[[Clock], MarkdownStorer]:
        scopes = {"user": tmp_path / "user", "workspace": tmp_path / "workspace"}
        return lambda clock: MarkdownStorer(scopes, clock=clock)


class TestInstalledSearcher(SearcherContract):
    @pytest.fixture
    def open_searcher(self) -> Callable[[], FulltextSearcher]:
        return FulltextSearcher


class TestInstalledProvider(ProviderContract):
    @pytest.fixture
    def open_provider(self, tmp_path: Path) -> Callable[[], MemorySolutionProvider]:
        return lambda: load_provider(tmp_path, overrides={"home": str(tmp_path / "home")})
