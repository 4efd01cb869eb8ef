"""Settings: who wins, what a project may set, and one sentence for whatever is wrong."""

import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from memory_core.config import Loaded, load_settings
from memory_core.errors import ConfigError, UnknownBackendError
from memory_core.loading import load_provider
from memory_core.plugins.registry import get_registry

Write = Callable[..., Path]


@pytest.fixture(autouse=True)
def no_outside_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.startswith("MEMORY_CORE_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "project" / "sub" / "deep").mkdir(parents=True)
    return tmp_path / "project"


def refused(*args: Any, **more: Any) -> str:
    """Return the one sentence with which loading and checking these settings fails."""
    with pytest.raises((ConfigError, UnknownBackendError)) as caught:
        load_provider(*args, **more)
    assert "\n" not in str(caught.value).strip()
    return str(caught.value)


# --- where the file is ---------------------------------------------------------------------------------------------


def test_without_a_file_the_defaults_hold(work: Path) -> None:
    loaded = load_settings(work)
    assert (loaded.origin, loaded.path) == ("defaults", None)
    assert (loaded.settings.storer, loaded.settings.searcher, loaded.settings.provider) == (
        "markdown",
        "fulltext",
        "workspace",
    )
    assert loaded.settings.ttl == {10: -1, 5: 2_592_000, 1: 604_800}


def test_the_nearest_file_upwards_counts(work: Path) -> None:
    (work / "memory.toml").write_text('locale = "zh"')
    assert load_settings(work / "sub" / "deep").settings.locale == "zh"
    (work / "sub" / "memory.toml").write_text('searcher = "near"')
    loaded = load_settings(work / "sub" / "deep")
    assert (loaded.settings.searcher, loaded.settings.locale) == ("near", "en")
    assert loaded.origin == "project file"
    assert loaded.path == work / "sub" / "memory.toml"


def test_a_table_in_pyproject_counts_and_other_people_s_files_do_not(work: Path) -> None:
    (work / "pyproject.toml").write_text('[tool.memory-core]\nlocale = "zh"')
    for text in ("[project]\nname = 'x'", "not toml at all", "tool = 5", "[tool]\nother = 1"):
        (work / "sub" / "pyproject.toml").write_text(text)
        loaded = load_settings(work / "sub")
        assert loaded.settings.locale == "zh", text
        assert loaded.path == work / "pyproject.toml"
    (work / "sub" / "pyproject.toml").write_bytes(b"\xff\xfe")
    assert load_settings(work / "sub").settings.locale == "zh"


@pytest.mark.parametrize("value", ['"text"', "5", "[1]", "true"])
def test_a_pyproject_entry_that_is_no_table_is_said_so(work: Path, value: str) -> None:
    (work / "pyproject.toml").write_text(f"[tool]\nmemory-core = {value}")
    assert "pyproject.toml" in refused(work)


def test_memory_toml_wins_over_pyproject_beside_it(work: Path) -> None:
    (work / "pyproject.toml").write_text('[tool.memory-core]\nlocale = "zh"')
    (work / "memory.toml").write_text("")
    assert load_settings(work).settings.locale == "en"


def test_the_user_s_own_file_is_the_last_resort(work: Path, tmp_path: Path) -> None:
    own = tmp_path / "config" / "memory-core" / "memory.toml"
    own.parent.mkdir(parents=True)
    own.write_text(f'home = "{tmp_path / "elsewhere"}"')
    loaded = load_settings(work)
    assert loaded.origin == "user file"
    assert loaded.settings.home_dir == tmp_path / "elsewhere"


def make_directory(path: Path) -> None:
    path.mkdir()


def make_broken_link(path: Path) -> None:
    path.symlink_to(path.parent / "nowhere")


def make_pipe(path: Path) -> None:
    os.mkfifo(path)


@pytest.mark.parametrize("place", ["project/sub/memory.toml", "project/memory.toml", "config/memory-core/memory.toml"])
@pytest.mark.parametrize(
    ("make", "what"),
    [
        (make_directory, "a directory"),
        (make_broken_link, "a broken link"),
        (make_pipe, "no regular file"),
    ],
)
def test_what_is_no_file_but_is_called_like_it_is_said_so(
    work: Path, tmp_path: Path, place: str, make: Callable[[Path], None], what: str
) -> None:
    path = tmp_path / place
    path.parent.mkdir(parents=True, exist_ok=True)
    make(path)
    assert f"{path} is {what}" in refused(work / "sub" / "deep")


@pytest.mark.parametrize("cwd", ["\0", "x" * 5000, "~nobody-of-this-name/x"], ids=["nul", "long", "no such user"])
def test_an_impossible_directory_is_no_traceback(cwd: str) -> None:
    try:
        load_settings(cwd)
    except ConfigError as error:
        assert "directory" in str(error)  # noqa: PT017 - either outcome is legal


# --- who wins ------------------------------------------------------------------------------------------------------


def test_arguments_over_environment_over_file_over_defaults(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def count() -> int:
        return load_settings(work).settings.talent.relevance_count

    assert count() == 6
    (work / "memory.toml").write_text("[talent]\nrelevance_count = 1\npriority_count = 2")
    assert count() == 1
    monkeypatch.setenv("MEMORY_CORE_TALENT__RELEVANCE_COUNT", "3")
    assert count() == 3
    settings = load_settings(work, overrides={"talent": {"relevance_count": 4}}).settings
    assert (settings.talent.relevance_count, settings.talent.priority_count) == (4, 2)


def test_the_environment_reaches_every_level(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORY_CORE_LOCALE", "zh")
    monkeypatch.setenv("MEMORY_CORE_HOME", str(work / "h"))
    monkeypatch.setenv("MEMORY_CORE_TTL", '{"1": 60}')
    monkeypatch.setenv("MEMORY_CORE_STORERS__MARKDOWN__FSYNC", "false")
    loaded = load_settings(work)
    assert loaded.settings.locale == "zh"
    assert loaded.settings.home_dir == work / "h"
    assert loaded.settings.ttl == {1: 60}
    options: Any = loaded.options(get_registry(), "storer", "markdown")
    assert options.fsync is False


def test_ttl_rows_of_two_levels_meet_under_one_kind_of_number(work: Path) -> None:
    (work / "memory.toml").write_text("[ttl]\n1 = 60\n5 = 120")
    assert load_settings(work, overrides={"ttl": {5: 7}}).settings.ttl == {1: 60, 5: 7}


@pytest.mark.parametrize("value", ["none", ""])
def test_stemming_can_be_switched_off(work: Path, value: str) -> None:
    assert load_settings(work, overrides={"stemmer": value}).settings.stemmer is None


# --- what is wrong is said -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('sercher = "x"', r"no setting `sercher`. Did you mean 'searcher'?"),
        ("[talent]\nrelevance_cuont = 1", "Did you mean 'relevance_count'?"),
        ("[talent]\nrelevance_count = -1", "talent.relevance_count"),
        ("[talent]\nsummary_length = 9", "talent.summary_length"),
        ("[talent]\nenabled = 'perhaps'", "talent.enabled"),
        ("zzz = 1", "There are: embedder, embedders, filter"),
        ("storer = 5", "storer"),
        ("locale = 'fr'", "locale"),
        ("[ttl]\n11 = 5", "from 1 to 10"),
        ("[ttl]\n5 = 0", "-1 for ever"),
        ("[ttl]\nhigh = 5", "ttl"),
        ("storers = 5", "storers"),
        ("storers = { markdown = 5 }", "storers"),
        ('storer = "markdwon"', "Did you mean 'markdown'?"),
        ('searcher = "elastic"', "Installed are: fulltext"),
        ('provider = "nobody"', "There is no provider 'nobody'"),
        ('filter = ["nobody"]', "There is no filter 'nobody'"),
        ("[storers.markdwon]\nx = 1", "Did you mean 'markdown'?"),
        ("[storers.markdown]\nfsnyc = true", "Did you mean 'fsync'?"),
        ("[storers.markdown]\nfsync = 'perhaps'", "[storers.markdown]: fsync"),
        ("[storers.markdown]\nmax_file_mb = 0", "max_file_mb"),
        ("[searchers.fulltext]\nmax_terms = 'many'", "[searchers.fulltext]: max_terms"),
        ("x = ", "not valid TOML"),
        ("a = 1\na = 2", "not valid TOML"),
        ("[[[", "not valid TOML"),
    ],
)
def test_a_mistake_is_one_sentence_with_the_nearest_name(work: Path, text: str, said: str) -> None:
    (work / "memory.toml").write_text(text)
    assert said in refused(work)


@pytest.mark.parametrize("data", [b"\xff\xfe\x00", "locale = '中'".encode("gbk"), b"a = 1\x00"])
def test_bytes_that_are_no_text_are_said_so(work: Path, data: bytes) -> None:
    (work / "memory.toml").write_bytes(data)
    assert "memory.toml" in refused(work)


def test_a_bom_is_no_mistake(work: Path) -> None:
    (work / "memory.toml").write_text('\ufefflocale = "zh"', "utf-8")
    assert load_settings(work).settings.locale == "zh"


def test_a_named_file_that_is_not_there_is_said_so(work: Path) -> None:
    assert "cannot be read: No such file" in refused(work, config_file=work / "nowhere.toml")
    assert "cannot be read: Is a directory" in refused(work, config_file=work)


def test_a_named_pyproject_without_our_table_is_said_so(work: Path) -> None:
    assert "cannot be read" in refused(work, config_file=work / "pyproject.toml")
    (work / "pyproject.toml").write_text("broken =")
    assert "not valid TOML" in refused(work, config_file=work / "pyproject.toml")


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("MEMORY_CORE_SERCHER", "x", "Did you mean 'searcher'?"),
        ("MEMORY_CORE_", "x", "sets nothing"),
        ("MEMORY_CORE_TALENT__RELEVANCE_COUNT", "many", "relevance_count"),
        ("MEMORY_CORE_TALENT__NONSENSE", "1", "nonsense"),
        ("MEMORY_CORE_TTL", "soon", "MEMORY_CORE_"),
        ("MEMORY_CORE_FILTER", "a,b", "MEMORY_CORE_"),
        ("MEMORY_CORE_STORERS__MARKDOWN__NONSENSE", "1", "nonsense"),
        ("MEMORY_CORE_STORERS__NOBODY__URL", "1", "There is no storer 'nobody'"),
    ],
)
def test_a_wrong_variable_is_said_so(
    work: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str, said: str
) -> None:
    monkeypatch.setenv(name, value)
    assert said in refused(work)


def test_the_switch_of_the_long_tests_is_no_setting(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORY_CORE_SOAK", "1")
    assert load_settings(work).origin == "defaults"


def test_a_wrong_argument_is_said_so(work: Path) -> None:
    assert "Did you mean 'searcher'?" in refused(work, overrides={"sercher": "x"})


def test_an_unknown_filter_leaves_no_store_open(work: Path) -> None:
    provider = load_provider(work, overrides={"filter": [], "home": str(work / "h")})
    provider.get(work).close()
    provider.close()


@pytest.mark.parametrize(
    ("variable", "value", "blamed"),
    [
        ("MEMORY_CORE_TALENT__RELEVANCE_COUNT", "abc", "MEMORY_CORE_TALENT__RELEVANCE_COUNT"),
        ("memory_core_locale".upper(), "fr", "MEMORY_CORE_LOCALE"),
        ("MEMORY_CORE_FILTER", "redact", "MEMORY_CORE_FILTER"),
        ("MEMORY_CORE_TTL__5", "x", "MEMORY_CORE_TTL__5"),
    ],
)
def test_a_wrong_variable_is_blamed_itself(
    work: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, blamed: str
) -> None:
    (work / "memory.toml").write_text("[talent]\npriority_count = 2")
    monkeypatch.setenv(variable, value)
    message = refused(work)
    assert blamed in message
    assert "memory.toml" not in message
    assert not message.endswith("..")


# --- a project's file is trusted less ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "option"),
    [
        ('home = "/tmp/x"', "home"),
        ('[storers.markdown.directories]\nuser = "/etc"', "directories"),
        ('[storers.markdown.directories]\nuser = "../outside"', "directories"),
        ('[storers.markdown.directories]\nuser = "~/x/../../.."', "directories"),
        ('[storers.markdown.directories]\nuser = "link/x"', "directories"),
        ('[providers.workspace]\nfolder = ".."', "folder"),
        ('[providers.workspace]\nfolder = "/tmp"', "folder"),
        ('[providers.workspace]\nfolder = "a\\u0000b"', "folder"),
        ("[providers.workspace]\nfolder = 5", "folder"),
    ],
)
@pytest.mark.parametrize("name", ["memory.toml", "pyproject.toml"])
def test_a_project_s_file_cannot_reach_out(work: Path, tmp_path: Path, text: str, option: str, name: str) -> None:
    (work / "link").symlink_to(tmp_path)
    if name == "pyproject.toml":
        text = "[tool.memory-core]\n" + text.replace("[storers", "[tool.memory-core.storers").replace(
            "[providers", "[tool.memory-core.providers"
        )
    (work / name).write_text(text)
    message = refused(work)
    assert f"may not set `{option}`" in message
    assert "in your own configuration file or in the environment" in message


def test_a_project_s_file_may_stay_inside(work: Path) -> None:
    (work / "memory.toml").write_text(
        '[providers.workspace]\nfolder = "notes"\n[storers.markdown.directories]\nworkspace = "m/x"'
    )
    provider = load_provider(work, overrides={"home": str(work / "h")})
    provider.get(work).remember("k", "v")
    provider.close()
    assert (work / "m" / "x" / "shared" / "k.md").exists()


def test_the_user_and_the_environment_may_reach_out(
    work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "own.toml"
    own.write_text(f'home = "{tmp_path}/h"\n[storers.markdown.directories]\nuser = "{tmp_path}/u"')
    load_provider(work, config_file=own).close()
    monkeypatch.setenv("MEMORY_CORE_PROVIDERS__WORKSPACE__FOLDER", str(tmp_path / "w"))
    provider = load_provider(work, overrides={"home": str(tmp_path / "h2")})
    provider.get(work).remember("k", "v")
    provider.close()
    assert (tmp_path / "w" / "memory" / "shared" / "k.md").exists()


def test_a_relative_directory_belongs_to_the_workspace_not_to_the_process(
    work: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (work / "memory.toml").write_text('[storers.markdown.directories]\nworkspace = "notes"')
    (tmp_path / "launched-here").mkdir()
    monkeypatch.chdir(tmp_path / "launched-here")
    provider = load_provider(work, overrides={"home": str(tmp_path / "h")})
    provider.get(work).remember("k", "v")
    provider.close()
    assert (work / "notes" / "shared" / "k.md").exists()
    assert list((tmp_path / "launched-here").iterdir()) == []


def test_settings_are_plain_data(work: Path) -> None:
    loaded = load_settings(work, overrides={"storers": {"markdown": {"fsync": False}}})
    assert isinstance(loaded, Loaded)
    assert loaded.settings.table("storer", "markdown") == {"fsync": False}
    assert loaded.settings.table("storer", "other") == {}


@pytest.mark.parametrize("storer", ["markdown", "kv"])
def test_a_misspelt_scope_has_no_directory(work: Path, storer: str) -> None:
    (work / "memory.toml").write_text(f'storer = "{storer}"\n[storers.{storer}.directories]\nworkspce = "notes"')
    with closing(load_provider(work)) as provider, pytest.raises(ConfigError, match="Did you mean 'workspace'"):
        provider.get(work)
    (work / "memory.toml").write_text(f'storer = "{storer}"\n[storers.{storer}.directories]\nelsewhere = "notes"')
    with closing(load_provider(work)) as provider:
        provider.get(work).remember("k", "tea")
    assert not (work / "notes").exists()
