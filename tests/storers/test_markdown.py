from collections.abc import Callable
from pathlib import Path

import pytest

from memory_core.contracts import Clock
from memory_core.testing import StorerContract
from memory_storer_markdown.storer import MarkdownStorer


class TestMarkdownStorer(StorerContract):
    @pytest.fixture
    def open_storer(self, tmp_path: Path) -> Callable[[Clock], MarkdownStorer]:
        scopes = {"user": tmp_path / "user", "workspace": tmp_path / "workspace"}
        return lambda clock: MarkdownStorer(scopes, clock=clock)
