from collections.abc import Callable
from pathlib import Path

import pytest

from memory_core import MemorySolutionProvider
from memory_core.loading import load_provider
from memory_core.testing import ProviderContract


@pytest.mark.parametrize("place", ["data", "./data/../data", "s3://data"])
@pytest.mark.parametrize("storer", ["kv", "markdown"])
def test_directories_of_a_project_s_file_start_in_the_workspace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, storer: str, place: str
) -> None:
    """What is checked is what is used, wherever the process was started."""
    work, started = tmp_path / "work", tmp_path / "started"
    work.mkdir()
    started.mkdir()
    monkeypatch.chdir(started)
    text = f'storer = "{storer}"\n[storers.{storer}.directories]\nworkspace = "{place}"\n'
    (work / "memory.toml").write_text(text)
    provider = load_provider(work, overrides={"home": str(tmp_path / "home")})
    provider.get(work).remember("k", "v")
    provider.close()
    assert [path for path in (work / place).rglob("*") if path.is_file()]
    assert list(started.iterdir()) == []


class TestWorkspaceProvider(ProviderContract):
    @pytest.fixture
    def open_provider(self, tmp_path: Path) -> Callable[[], MemorySolutionProvider]:
        return lambda: load_provider(tmp_path, overrides={"home": str(tmp_path / "home")})
