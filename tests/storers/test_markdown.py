"""The storer contract over Markdown files."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from memory_core.contracts import Clock, MemoryStorer
from memory_core.model import MemoryId
from memory_core.testing import FakeClock, StorerContract
from memory_storer_markdown.storer import MarkdownStorer
from tests.support.crashes import CrashContract


class TestMarkdownStorer(StorerContract):
    many = 40_000
    too_large_bytes = 16 << 20

    @pytest.fixture
    def open_storer(self, tmp_path: Path) -> Callable[[Clock], MarkdownStorer]:
        scopes = {"user": tmp_path / "user", "workspace": tmp_path / "workspace"}
        return lambda clock: MarkdownStorer(scopes, clock=clock)

    @pytest.fixture
    def spoil(self, tmp_path: Path) -> Callable[[MemoryId], None]:
        def unclose(id: MemoryId) -> None:
            (tmp_path / id.scope / id.user_id / f"{id.key}.md").write_text("---\nkey: [\n---\nx\n", "utf-8")

        return unclose

    @pytest.fixture
    def quick_storer(self, tmp_path: Path, clock: FakeClock) -> Iterator[MemoryStorer]:
        scopes = {"user": tmp_path / "user", "workspace": tmp_path / "workspace"}
        storer = MarkdownStorer(scopes, clock=clock, fsync=False)
        yield storer
        storer.close()


class TestMarkdownCrashes(CrashContract):
    kind = "markdown"

    @pytest.fixture
    def target(self, tmp_path: Path) -> Path:
        return tmp_path / "workspace"

    @pytest.fixture
    def reopen(self, target: Path) -> Iterator[Callable[[], MemoryStorer]]:
        storer = MarkdownStorer({"workspace": target})
        yield lambda: storer
        storer.close()
