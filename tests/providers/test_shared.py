"""The provider `shared`: which projects share what, over files and over a server."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from memory_core import MemorySolutionProvider
from memory_core.errors import ConfigError
from memory_core.loading import load_provider
from memory_core.testing import ProviderContract
from tests.support.redis_server import RedisServer

Load = Callable[..., MemorySolutionProvider]


class TestSharedProviderOverFiles(ProviderContract):
    @pytest.fixture(params=["kv", "markdown"])
    def open_provider(self, tmp_path: Path, request: pytest.FixtureRequest) -> Callable[[], MemorySolutionProvider]:
        overrides = {"provider": "shared", "storer": request.param, "home": str(tmp_path / "home")}
        return lambda: load_provider(tmp_path, overrides=overrides)


class TestSharedProviderOverRedis(ProviderContract):
    @pytest.fixture
    def open_provider(self, tmp_path: Path) -> Iterator[Callable[[], MemorySolutionProvider]]:
        server = RedisServer(tmp_path / "redis").start()
        overrides = {
            "provider": "shared",
            "storer": "redis",
            "storers": {"redis": {"url": server.url}},
            "home": str(tmp_path / "home"),
        }
        yield lambda: load_provider(tmp_path, overrides=overrides)
        server.kill()


@pytest.fixture
def load(tmp_path: Path) -> Iterator[Load]:
    """Loads the provider with options of its own, over one data folder."""
    opened: list[MemorySolutionProvider] = []

    def build(cwd: Path = tmp_path, **options: Any) -> MemorySolutionProvider:
        overrides: dict[str, Any] = {
            "provider": "shared",
            "storer": "kv",
            "home": str(tmp_path / "home"),
            "providers": {"shared": options},
        }
        opened.append(load_provider(cwd, overrides=overrides))
        return opened[-1]

    yield build
    for provider in opened:
        provider.close()


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    made = [tmp_path / name for name in ("one", "two")]
    for folder in made:
        folder.mkdir()
    return made


def test_projects_of_one_name_share_the_workspace(load: Load, folders: list[Path]) -> None:
    load(name="app").get(folders[0]).remember("k", "known in both folders")
    assert load(name="app").get(folders[1]).recall("k") is not None
    for other in (load(name="App"), load(name="app2"), load()):
        assert other.get(folders[0]).recall("k") is None


def test_names_that_look_like_paths_or_folders_stay_apart(load: Load, folders: list[Path], tmp_path: Path) -> None:
    """A name must not reach another project's folder, nor leave the store's."""
    names = ["..", "../user", "a/b", "a-b", "A-B", "CON", "用户", "x" * 300, "a" * 200 + "b"]
    for name in names:
        load(name=name).get(folders[0]).remember("k", name)
    load().get(folders[0]).remember("k", "by path")
    for name in names:
        found = load(name=name).get(folders[1]).recall("k")
        assert found is not None
        assert found.content == name
    base = tmp_path / "home" / "shared" / "workspaces"
    assert len(list(base.iterdir())) == len(names) + 1
    own = next(folder.name for folder in base.iterdir() if not folder.name.startswith("@"))
    assert load(name=own).get(folders[1]).recall("k") is None


def test_users_of_one_store_do_not_see_each_other(load: Load, folders: list[Path]) -> None:
    solution = load(name="app").get(folders[0])
    solution.remember("k", "alice prefers tea", user_id="alice", scope="user")
    assert solution.recall("k", user_id="bob") is None
    assert solution.search("tea", user_id="bob") == []
    assert [hit.entry.id.key for hit in solution.search("tea", user_id="alice")] == ["k"]


def test_nothing_lies_in_the_project(load: Load, folders: list[Path], tmp_path: Path) -> None:
    load().get(folders[0]).remember("k", "kept elsewhere")
    assert list(folders[0].iterdir()) == []
    load(folder=str(tmp_path / "disk")).get(folders[0]).remember("k", "kept there")
    assert (tmp_path / "disk" / "workspaces").is_dir()


def test_a_project_may_name_itself_and_nothing_more(tmp_path: Path, folders: list[Path]) -> None:
    project = folders[0]
    home = {"home": str(tmp_path / "home"), "storer": "kv"}
    (project / "memory.toml").write_text('provider = "shared"\n[providers.shared]\nname = "app"\n')
    provider = load_provider(project, overrides=home)
    provider.get(project).remember("k", "by name")
    provider.close()
    (project / "memory.toml").write_text(f'provider = "shared"\n[providers.shared]\nfolder = "{tmp_path}"\n')
    with pytest.raises(ConfigError, match="may not set `folder`"):
        load_provider(project, overrides=home)


@pytest.mark.parametrize("name", ["", "   ", "a\x00b", "x" * 513])
def test_a_name_that_cannot_be_stored_is_refused(load: Load, name: str) -> None:
    with pytest.raises(ConfigError, match="name"):
        load(name=name)
