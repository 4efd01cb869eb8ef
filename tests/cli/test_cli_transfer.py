"""export, import, migrate, reindex, and the progress bar."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from memory_core.cli import app, progress
from memory_core.plugins import get_registry
from memory_core.plugins.registry import Backend
from memory_core.testing import NASTY_CONTENTS
from tests.cli.conftest import Cli, one_sentence


@pytest.fixture
def second_store(monkeypatch: pytest.MonkeyPatch) -> str:
    """A second store beside the configured one: Markdown in other directories."""
    from memory_storer_markdown import MarkdownOptions
    from memory_storer_markdown.storer import MarkdownStorer

    def build(options: MarkdownOptions, context: object) -> MarkdownStorer:
        scopes = {place.name: place.directory.with_name("second") for place in context.scopes}  # type: ignore[attr-defined]  # pyright: ignore
        return MarkdownStorer(scopes, clock=context.clock, fsync=options.fsync)  # type: ignore[attr-defined]  # pyright: ignore

    backend = Backend("storer", "second", build, MarkdownOptions, "test")
    monkeypatch.setitem(get_registry()._backends, ("storer", "second"), backend)
    return "second"


def fill(cli: Cli) -> None:
    for place, content in enumerate(NASTY_CONTENTS):
        if "\x00" not in content:  # no command line can carry it
            user = "alice" if place % 2 else "shared"
            assert cli("remember", "--user", user, "--", f"k{place}", content).code == 0
    assert cli("remember", "框架", "使用Solon框架", "-i", "10", "--scope", "user", "--meta", "a=b").code == 0


def listed(cli: Cli, *args: str) -> list[object]:
    return sorted(
        (*cli("list", "--all", "--json", *args).json, *cli("list", "--all", "--json", "--user", "alice", *args).json),
        key=str,
    )


@pytest.mark.parametrize("place", [".", "", "folder", ".."])
def test_a_directory_is_no_file_to_export_to(cli: Cli, workspace: Path, place: str) -> None:
    cli("remember", "k", "tea")
    (workspace / "folder").mkdir()
    before = sorted(workspace.rglob("*"))
    result = cli("export", place)
    assert result.code != 0
    assert one_sentence(result.err)
    assert ".tmp" not in result.err
    assert sorted(workspace.rglob("*")) == before


def test_a_round_trip_into_another_workspace(cli: Cli, tmp_path: Path, home: Path) -> None:
    fill(cli)
    before = listed(cli)
    assert "Exported" in cli("export", "all.jsonl").out
    assert not [path for path in Path().iterdir() if path.suffix == ".tmp"]
    other = tmp_path / "other"
    other.mkdir()
    assert cli("forget", "框架", "--scope", "user").code == 0
    done = cli("import", "all.jsonl", "--cwd", str(other), "--json")
    assert done.code == 0
    assert done.json["stored"] == len(before)
    assert listed(cli, "--cwd", str(other)) == before
    assert cli("import", "all.jsonl", "--cwd", str(other), "--json").json["unchanged"] == len(before)
    assert home.is_dir()


def test_a_dry_run_says_what_would_happen(cli: Cli) -> None:
    fill(cli)
    cli("export", "all.jsonl")
    cli("forget", "框架")
    assert "Would store 1 of" in cli("import", "all.jsonl", "--dry-run").out
    assert cli("recall", "框架").code == 1
    assert "Stored 1 of" in cli("import", "all.jsonl").out
    assert cli("recall", "框架").code == 0


def test_bad_lines_are_reported_and_the_exit_code_says_so(cli: Cli) -> None:
    fill(cli)
    cli("export", "all.jsonl", "--scope", "user")
    Path("all.jsonl").write_bytes(b"broken\n" * 25 + Path("all.jsonl").read_bytes())
    result = cli("import", "all.jsonl", "--scope", "workspace")
    assert result.code == 1
    assert "Stored 1 of 26 memories, 25 skipped." in result.out
    assert "skipped line 1: This line is not JSON" in result.err
    assert "and 5 more" in result.err


def test_standard_input_and_output(workspace: Path) -> None:
    runner = CliRunner()
    assert runner.invoke(app.cli, ["remember", "k", "text"]).exit_code == 0
    exported = runner.invoke(app.cli, ["export", "-"])
    assert json.loads(exported.stdout)["key"] == "k"
    assert runner.invoke(app.cli, ["forget", "k"]).exit_code == 0
    assert runner.invoke(app.cli, ["import", "-"], input=exported.stdout_bytes).exit_code == 0
    assert runner.invoke(app.cli, ["recall", "k"]).exit_code == 0
    assert workspace.is_dir()


def test_other_systems(cli: Cli, tmp_path: Path) -> None:
    java = tmp_path / "java"
    java.mkdir()
    (java / "x.md").write_text('---\nname: "shared__py__init"\nttl: -1\n---\n使用Solon框架\n', "utf-8")
    (tmp_path / "mem0.json").write_text(json.dumps({"results": [{"id": "1", "memory": "Likes tea"}]}), "utf-8")
    assert "Stored 1 of 1" in cli("import", str(java), "--from", "solon", "--scope", "user").out
    assert "Stored 1 of 1" in cli("import", str(tmp_path / "mem0.json"), "--from", "mem0").out
    assert "py__init" in cli("search", "框架").out
    assert "mem0-1" in cli("search", "tea").out


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("import", "nope.jsonl"), "nope.jsonl"),
        (("import", "."), "directory"),
        (("import", "nope", "--from", "solon"), "nope"),
        (("import", "nope.json", "--from", "mem0"), "nope.json"),
        (("export", "nope/x.jsonl"), "nope"),
        (("export", "."), "."),
        (("export", "x.jsonl", "--scope", "team"), "team"),
        (("migrate", "--from", "markdown", "--to", "markdown"), "two different"),
        (("migrate", "--from", "markdown", "--to", "nope"), "nope"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(cli: Cli, args: tuple[str, ...], says: str) -> None:
    result = cli(*args)
    assert result.code == 1
    assert one_sentence(result.err)
    assert says in result.err
    assert not list(Path().glob(".*.tmp"))


def test_a_failed_export_leaves_the_old_file(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(cli)
    Path("all.jsonl").write_text("precious")

    def broken(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("memory_core.transfer.export_jsonl", broken)
    assert cli("export", "all.jsonl").code == 1
    assert Path("all.jsonl").read_text() == "precious"
    assert not list(Path().glob(".*.tmp"))


def test_migrate(cli: Cli, second_store: str) -> None:
    fill(cli)
    before = listed(cli)
    assert (
        f"Would copy {len(before)} of {len(before)}"
        in cli("migrate", "--from", "markdown", "--to", second_store, "--dry-run").out
    )
    assert "There are no memories" in cli("list", "--storer", second_store).out  # a dry run writes nothing
    assert cli("--storer", second_store, "list", "--json").json == []
    done = cli("migrate", "--from", "markdown", "--to", second_store)
    assert done.code == 0
    assert f"Verified {len(before)} of {len(before)} by content hash" in done.out
    assert "Nothing was deleted" in done.out
    assert listed(cli) == before
    cli("--storer", second_store, "remember", "k0", "newer in the target")
    again = cli("migrate", "--from", "markdown", "--to", second_store, "--json")
    assert again.json["copied"] == 0
    assert again.json["kept"] == 1
    assert again.json["complete"] is True
    assert "1 memories are newer" in again.err


def test_a_migration_with_losses_fails(cli: Cli, second_store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(cli)

    def forgetful(_: object, __: object) -> int:
        return 0

    monkeypatch.setattr("memory_storer_markdown.storer.MarkdownStorer.put_many", forgetful)
    result = cli("migrate", "--from", "markdown", "--to", second_store)
    assert result.code == 1
    assert "differ or are missing in second" in result.err


def test_reindex(cli: Cli) -> None:
    fill(cli)
    assert cli("reindex", "--json").json["users"] == 2
    assert "1 user." in cli("reindex", "--user", "alice").out
    assert "框架" in cli("search", "框架").out


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_progress_bar_appears_after_two_seconds_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    terminal = Terminal()
    monkeypatch.setattr("memory_core.cli.progress.time.monotonic", lambda: now[0])
    monkeypatch.setattr(sys, "stderr", terminal)
    with progress.progress_bar("Importing") as bar:
        bar(10, 100)
        assert terminal.getvalue() == ""
        now[0] = 2.1
        bar(50, 100)
        bar(100, 100)
        bar(5, None)
        bar(10, None)
    assert "Importing" in terminal.getvalue()
    assert "100/100" in terminal.getvalue()


def test_no_progress_bar_where_nobody_watches(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "WAIT_S", 0.0)
    with progress.progress_bar("Importing") as bar:
        bar(50, 100)
    assert capsys.readouterr().err == ""


def test_an_export_that_is_cut_off_by_its_reader(cli: Cli) -> None:
    for number in range(20):
        cli("remember", f"k{number}", "x" * 50_000)
    code = f"'{sys.executable}' -m memory_core.cli export - | head -c 10 >/dev/null; echo ${{PIPESTATUS[0]}}"
    environment = {**os.environ, "PYTHONUNBUFFERED": ""}  # unbuffered text streams do not notice it
    done = subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert (done.stdout.strip(), done.stderr) == ("1", "")


def test_a_pipe_is_written_to_and_read_from_once(cli: Cli) -> None:
    fill(cli)
    os.mkfifo("pipe")
    reader = subprocess.Popen(["cat", "pipe"], stdout=subprocess.PIPE)
    assert cli("export", "pipe", "--scope", "user").code == 0
    data, _ = reader.communicate(timeout=60)
    assert json.loads(data)["key"] == "框架"
    assert Path("pipe").is_fifo()
    cli("forget", "框架")
    writer = subprocess.Popen(["bash", "-c", "cat > pipe"], stdin=subprocess.PIPE)
    assert writer.stdin is not None
    writer.stdin.write(data)
    writer.stdin.close()
    assert "Stored 1 of 1" in cli("import", "pipe").out
    assert writer.wait(60) == 0
