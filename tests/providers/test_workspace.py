import os
from collections.abc import Callable
from pathlib import Path

import pytest

from memory_core import MemorySolutionProvider
from memory_core.errors import ConfigError, MemoryCoreError
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


links = pytest.mark.skipif(os.name == "nt", reason="links need rights on Windows")


@links
@pytest.mark.parametrize("storer", ["kv", "markdown"])
@pytest.mark.parametrize("link", [".memory-core", ".memory-core/memory"])
def test_a_folder_that_leads_out_of_the_workspace_is_refused(tmp_path: Path, storer: str, link: str) -> None:
    """As the same place is when a project's file names it."""
    work, outside = tmp_path / "work", tmp_path / "outside"
    (outside / "memory" / "shared").mkdir(parents=True)
    (outside / "shared").mkdir()
    (outside / "shared" / "diary.md").write_text("dear diary", "utf-8")
    (work / link).parent.mkdir(parents=True)
    (work / link).symlink_to(outside)
    before = sorted(outside.rglob("*"))
    provider = load_provider(work, overrides={"home": str(tmp_path / "home"), "storer": storer})
    with pytest.raises(ConfigError, match=r"is a link out of the workspace.*: remove the link, or name"):
        provider.get(work)
    assert sorted(outside.rglob("*")) == before
    (work / link).unlink()
    assert provider.get(work).list_all() == []
    provider.close()


@links
def test_links_that_stay_in_the_workspace_and_those_of_the_user_are_followed(tmp_path: Path) -> None:
    work, home, outside = tmp_path / "work", tmp_path / "home", tmp_path / "outside"
    for folder in (work / "notes", tmp_path / "real home", outside):
        folder.mkdir(parents=True)
    (work / ".memory-core").symlink_to("notes")
    home.symlink_to(tmp_path / "real home")
    (tmp_path / "link to work").symlink_to(work)
    provider = load_provider(work, overrides={"home": str(home)})
    for cwd in (work, tmp_path / "link to work"):
        provider.get(cwd).remember("k", "v", scope="workspace")
        provider.get(cwd).remember("k", "v", scope="user")
    provider.close()
    assert (work / "notes" / "memory" / "shared" / "k.md").is_file()
    assert (tmp_path / "real home" / "memory" / "shared" / "k.md").is_file()
    named = {"home": str(home), "providers": {"workspace": {"folder": str(outside)}}}
    provider = load_provider(work, overrides=named)
    provider.get(work).remember("k", "v")
    provider.close()
    assert (outside / "memory" / "shared" / "k.md").is_file()


@links
def test_links_in_a_ring_are_one_sentence(tmp_path: Path) -> None:
    (tmp_path / ".memory-core").symlink_to(".memory-core")
    provider = load_provider(tmp_path, overrides={"home": str(tmp_path / "home")})
    with pytest.raises(MemoryCoreError):
        provider.get(tmp_path).remember("k", "v")
    provider.close()


class TestWorkspaceProvider(ProviderContract):
    @pytest.fixture
    def open_provider(self, tmp_path: Path) -> Callable[[], MemorySolutionProvider]:
        return lambda: load_provider(tmp_path, overrides={"home": str(tmp_path / "home")})
