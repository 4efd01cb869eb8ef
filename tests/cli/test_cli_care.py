"""doctor, config show, plugins, plugins new, inject, quickstart."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from memory_core.cli import app
from memory_core.cli.config import MASK, masked
from memory_core.cli.plugin_project import template_root, write_project
from memory_core.errors import ConfigError, PluginError
from memory_core.plugins import get_registry, hookimpl
from memory_core.plugins.registry import PluginFailure
from tests.audit.test_secrets import GITHUB
from tests.cli.conftest import Cli, one_sentence

ROOT = Path(__file__).parents[2]


def test_doctor_on_a_healthy_store(cli: Cli) -> None:
    cli("remember", "editor", "Prefers vim", "-i", "10")
    result = cli("doctor")
    assert result.code == 0
    assert "Everything is well." in result.out
    report = cli("doctor", "--json").json
    assert report["ok"] is True
    assert report["audit"]["entries"] == 1
    assert report["audit"]["checks"] == ["shadowed", "expiring"]


def test_doctor_names_broken_files_double_keys_and_what_expires(cli: Cli, workspace: Path) -> None:
    cli("remember", "soon", "expires tomorrow", "--ttl", "86400")
    cli("remember", "twice", "in both", "-i", "10")
    cli("remember", "twice", "in both", "-i", "10", "--scope", "user")
    folder = workspace / ".memory-core" / "memory" / "shared"
    (folder / "broken.md").write_text("---\nkey: [\n---\nx", "utf-8")
    (folder / "gbk.md").write_bytes("中文".encode("gbk"))
    result = cli("doctor")
    assert "broken.md" in result.out
    assert "gbk.md" in result.out
    assert "'soon'" in result.out
    assert "'twice'" in result.out
    assert "Everything is well" not in result.out
    assert len(cli("doctor", "--json").json["problems"]) >= 2


def test_doctor_audit(cli: Cli) -> None:
    cli("remember", "leak", f"凭证为{GITHUB}", "-i", "10")
    for number in range(6):
        cli("remember", f"fragment-{number}", f"note number {number}", "-i", "3")
    result = cli("doctor", "--audit")
    assert "looks like a secret" in result.out
    assert GITHUB not in result.out
    assert "6 fragments" in result.out
    report = cli("doctor", "--audit", "--json").json["audit"]
    # Fragments live for 7 days, which is soon.
    assert {finding["check"] for finding in report["findings"]} == {"secrets", "fragments", "expiring"}


def test_doctor_shows_only_the_first_of_many(cli: Cli) -> None:
    for number in range(12):
        cli("remember", f"k{number}", f"text {number}", "--ttl", "60")
    assert "and 2 more; --audit lists them" in cli("doctor").out
    assert "more; --audit" not in cli("doctor", "--audit").out


def test_doctor_reports_what_keeps_the_store_from_opening(cli: Cli, workspace: Path) -> None:
    (workspace / "memory.toml").write_text("searcher = 'nope'")
    result = cli("doctor")
    assert result.code == 1
    assert "ERROR" in result.out
    assert "nope" in result.out
    assert cli("doctor", "--json").json["ok"] is False


def test_doctor_reports_an_index_that_fails(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    from memory_core.errors import IndexUnavailableError

    cli("remember", "k", "x")

    def broken(*_: object) -> int:
        raise IndexUnavailableError("The index is locked.")

    monkeypatch.setattr("memory_core.solution.StandardSolution.sync", broken)
    result = cli("doctor")
    assert result.code == 1
    assert "memory-core reindex" in result.out


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("session_store = 'fiel'", "Did you mean 'file'"),
        ("embedder = 'sttic'", "Did you mean 'static'"),
        ("[storers.kv]\ndurabilty = 'full'", "durabilty"),
    ],
)
def test_doctor_checks_what_is_configured_but_not_in_use(cli: Cli, workspace: Path, setting: str, says: str) -> None:
    (workspace / "memory.toml").write_text(setting)
    result = cli("doctor")
    assert result.code == 1
    assert says in result.out
    assert "well" not in result.out


def test_doctor_does_not_call_well_what_the_audit_found(cli: Cli) -> None:
    cli("remember", "a", "The user likes green tea in the morning", "-i", "9")
    assert cli("doctor", "--audit").out.endswith("Everything is well.\n")
    cli("remember", "b", "The user likes green tea in the morning", "-i", "9")
    assert cli("doctor", "--audit").out.endswith("Nothing is broken; see what was found above.\n")


def test_doctor_reports_a_store_that_fails(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    from memory_core.errors import StorageUnavailableError

    def broken(*_: object, **__: object) -> list[str]:
        raise StorageUnavailableError("The server does not answer.")

    for name in ("users", "scan"):
        monkeypatch.setattr(f"memory_storer_markdown.storer.MarkdownStorer.{name}", broken)
    result = cli("doctor")
    assert result.code == 1
    assert "The server does not answer." in result.out
    assert cli("doctor", "--json").json["ok"] is False


@pytest.fixture
def broken_plugin() -> Iterator[None]:
    registry = get_registry()
    registry.failures.append(PluginFailure("broken-one", PluginError("The plugin 'broken-one' cannot be imported: no")))
    yield
    registry.failures.pop()


@pytest.mark.usefixtures("broken_plugin")
def test_a_failed_plugin_is_named_and_stops_nothing(cli: Cli) -> None:
    assert cli("remember", "k", "x").code == 0
    assert "FAILED broken-one" in cli("plugins").out
    assert cli("plugins").code == 1
    assert cli("plugins", "--json").json["failures"][0]["plugin"] == "broken-one"
    assert "broken-one" in cli("doctor").out
    assert "broken-one" in cli("--storer", "nope", "list").err


def test_plugins_lists_what_is_installed(cli: Cli) -> None:
    backends = {(row["kind"], row["name"]): row for row in cli("plugins", "--json").json["backends"]}
    assert {("storer", "markdown"), ("searcher", "fulltext"), ("provider", "workspace"), ("filter", "redact")} <= set(
        backends
    )
    assert backends["filter", "redact"]["install"] is None
    out = cli("plugins").out
    assert "storers\n" in out
    assert "  markdown" in out


def test_plugins_says_how_to_install_what_is_missing(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib.metadata import PackageNotFoundError, distribution

    def without(name: str) -> object:
        if name == "detect-secrets":
            raise PackageNotFoundError(name)
        return distribution(name)

    monkeypatch.setattr("memory_core.cli.plugins.distribution", without)
    assert "pip install 'memory-talent[redact]'" in cli("plugins").out


class Commands:
    @hookimpl
    def register_commands(self, cli: click.Group) -> None:
        @cli.command()
        def hello() -> None:
            """Greet."""
            click.echo("hello from a plugin")

        @cli.command("list")
        def replaced() -> None:
            click.echo("stolen")


class Failing:
    @hookimpl
    def register_commands(self, cli: click.Group) -> None:
        @cli.command()
        def half() -> None:
            """Half done."""

        raise RuntimeError("no commands today")


@pytest.fixture
def command_plugins(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    registry = get_registry()
    monkeypatch.setattr(app.cli, "commands", {})
    monkeypatch.setattr(app.cli, "plugins_asked", False)
    registry.register(Commands(), "test-commands")
    registry.register(Failing(), "test-failing")
    yield
    for name in ("test-commands", "test-failing"):
        registry.manager.unregister(name=name)
        registry.plugins.pop(name)


@pytest.mark.usefixtures("command_plugins")
def test_plugins_add_commands_and_cannot_break_or_replace_ours(cli: Cli) -> None:
    helped = cli("--help")
    assert "hello" in helped.out
    assert "half" not in helped.out
    assert "'test-failing' could not add its commands: no commands today" in helped.err
    assert "'test-commands' may not replace the command 'list'" in helped.err
    assert cli("hello").out == "hello from a plugin\n"
    assert "stolen" not in cli("list").out
    assert cli("half").code == 2


@pytest.mark.parametrize(("kind", "name"), [("storer", "my-store"), ("searcher", "fancy_search")])
def test_a_new_plugin_project_passes_its_own_tests(cli: Cli, kind: str, name: str, tmp_path: Path) -> None:
    made = cli("plugins", "new", kind, name, "--json").json
    root = Path(made["directory"]).resolve()
    assert root.name == f"memory-{kind}-{name}"
    text = "".join((root / file).read_text("utf-8") for file in made["files"]).lower()
    for word in ("logfile", "overlap", "memory-talent-example", "third-party"):
        assert word not in text
    site = tmp_path / "site"
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "install",
            "-q",
            "--no-deps",
            "--no-build-isolation",
            "--target",
            str(site),
            str(root),
        ],
        check=True,
        capture_output=True,
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"],
        cwd=root,
        env={"PYTHONPATH": str(site), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2_000:]


@pytest.mark.parametrize("name", ["", "My", "a b", "../x", "1st", "-x", "x-", "x" * 41, "a/b", "markdown"])
def test_impossible_plugin_names_are_refused(workspace: Path, name: str) -> None:
    with pytest.raises(ConfigError):
        write_project("storer", name)
    assert list(workspace.iterdir()) == []


def test_a_directory_that_is_not_empty_is_left_alone(cli: Cli, workspace: Path) -> None:
    (workspace / "x").mkdir()
    (workspace / "x" / "mine").write_text("precious")
    result = cli("plugins", "new", "storer", "my-store", "--directory", "x")
    assert result.code == 1
    assert one_sentence(result.err)
    assert [path.name for path in (workspace / "x").iterdir()] == ["mine"]
    assert "Wrote y" in cli("plugins", "new", "storer", "my-store", "--directory", "y").out


def test_the_template_is_the_example_plugin() -> None:
    assert template_root() == ROOT / "examples" / "plugin"


def test_config_show_says_where_each_setting_comes_from(
    cli: Cli, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workspace / "memory.toml").write_text("locale = 'zh'\n[ttl]\n9 = 100\n[talent]\nsummary_length = 40\n")
    monkeypatch.setenv("MEMORY_CORE_TALENT__PRIORITY_COUNT", "3")
    data = cli("--searcher", "fulltext", "config", "show", "--json").json
    rows = {row["name"]: (row["value"], row["from"]) for row in data["settings"]}
    path = str(workspace / "memory.toml")
    assert data["file"] == path
    assert rows["locale"] == ("zh", path)
    assert rows["ttl.9"] == (100, path)
    assert rows["talent.summary_length"] == (40, path)
    assert rows["talent.priority_count"] == (3, "environment")
    assert rows["searcher"] == ("fulltext", "argument")
    assert rows["storer"] == ("markdown", "default")
    assert rows["storers.markdown.fsync"] == (True, "default")
    text = cli("config", "show").out
    assert f"# File: {path} (project file)" in text
    assert 'locale = "zh"' in text
    (workspace / "memory.toml").unlink()
    assert "# No file" in cli("config", "show").out


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("password", "hunter2", MASK),
        ("api_key", "abc", MASK),
        ("token", "abc", MASK),
        ("password", "", ""),
        ("password", None, None),
        ("url", "redis://user:hunter2@host:6379/0", f"redis://user:{MASK}@host:6379/0"),
        ("url", "redis://:hun:ter@2@host/0", f"redis://:{MASK}@host/0"),
        ("url", "https://host/?token=abc&x=1", f"https://host/?token={MASK}&x=1"),
        ("urls", ["redis://:pw@a", "redis://b"], [f"redis://:{MASK}@a", "redis://b"]),
        ("url", "redis://localhost:6379/0", "redis://localhost:6379/0"),
        ("key_prefix", "memory", "memory"),
        ("max_tokens", 5, 5),
        ("fsync", True, True),
        ("home", Path("/x"), "/x"),
    ],
)
def test_secrets_are_masked(name: str, value: object, shown: object) -> None:
    from pydantic import SecretStr

    assert masked(name, value) == shown
    if isinstance(value, str):
        assert masked("anything", SecretStr(value)) == (MASK if value else "")


def test_inject_prints_the_block(cli: Cli, workspace: Path) -> None:
    cli("remember", "项目框架", "本项目使用Solon框架", "-i", "8")
    out = cli("inject", "用什么框架？").out
    assert "本项目使用Solon框架" in out
    assert "<memory_context>" in out
    assert "长期记忆" in cli("inject", "x", "--locale", "zh").out
    assert "Solon" in cli("inject", "x", "--json").json["instruction"]
    (workspace / "memory.toml").write_text("[talent]\nenabled = false\n")
    off = cli("inject", "x")
    assert (off.code, off.out) == (0, "")
    assert "nothing to inject" in off.err


def test_inject_is_for_the_user_that_is_named(cli: Cli) -> None:
    cli("remember", "drink", "Everybody drinks water", "-i", "8")
    cli("remember", "drink", "Ann drinks tea", "-i", "8", "--user", "ann")
    for args in (("--user", "ann", "inject", "drink"), ("inject", "drink", "--user", "ann")):
        out = cli(*args).out
        assert "tea" in out
        assert "water" not in out
    assert "water" in cli("inject", "drink").out


@pytest.mark.parametrize("locale", ["en", "zh"])
def test_quickstart_is_a_tour_that_leaves_nothing_behind(
    cli: Cli, home: Path, workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, locale: str
) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    (workspace / "memory.toml").write_text("storer = 'nope'")  # what is configured here does not matter
    result = cli("quickstart", "--locale", locale)
    assert result.code == 0
    for words in ("user-tech-stack", "项目框架", "<memory_context>", "FastAPI", "Solon", ".md", "key: "):
        assert words in result.out
    assert list(temporary.iterdir()) == []
    assert list(home.iterdir()) == []
    kept = cli("quickstart", "--keep")
    assert f"Kept in {temporary}" in kept.out
    assert list(temporary.rglob("*.md"))
