"""Whatever happens: one sentence, an exit code, never a traceback."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from memory_core.cli import app
from memory_core.cli.run import run
from tests.cli.conftest import Cli, one_sentence


def program(*args: str, env: dict[str, str] | None = None, **options: Any) -> "subprocess.Popen[bytes]":
    return subprocess.Popen[bytes](
        [sys.executable, "-m", "memory_core.cli", *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **(env or {})},
        **options,
    )


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (KeyboardInterrupt(), 130, "Interrupted"),
        (click.Abort(), 130, "Interrupted"),
        (EOFError(), 130, "Interrupted"),
        (PermissionError(13, "Permission denied", "/x/y"), 1, "Permission denied: /x/y"),
        (OSError(28, "No space left on device"), 1, "No space left on device"),
        (OSError("odd"), 1, "odd"),
        (RecursionError(), 1, "nested too deeply"),
        (MemoryError(), 1, "not enough memory"),
        (RuntimeError("two\nlines"), 1, "Unexpected RuntimeError: two lines"),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid"), 1, "UnicodeDecodeError"),
        (click.FileError("x.jsonl", "gone"), 1, "gone"),
    ],
)
def test_every_error_becomes_a_sentence(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, says: str
) -> None:
    @click.command()
    def broken() -> None:
        raise error

    monkeypatch.setitem(app.cli.commands, "broken", broken)
    result = cli("broken")
    assert result.code == code
    assert one_sentence(result.err.lstrip("\n"))  # after ^C click ends the line that the terminal shows
    assert says in result.err


def test_debug_prints_the_traceback(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    @click.command()
    def broken() -> None:
        raise RuntimeError("here")

    monkeypatch.setitem(app.cli.commands, "broken", broken)
    assert run(["--debug", "broken"]) == 1
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "command"),
    [
        ("user", ("migrate", "--from", "markdown", "--to", "kv")),
        ("scope", ("reindex",)),
        ("scope", ("inject", "x")),
        ("scope", ("config", "show")),
        ("user", ("ledger", "show")),
        ("scope", ("embed", "status")),
    ],
)
def test_a_user_or_scope_is_never_ignored(cli: Cli, option: str, command: tuple[str, ...]) -> None:
    result = cli(f"--{option}", "ann", *command)
    assert result.code == 2
    assert one_sentence(result.err)
    assert f"takes no --{option}." in result.err


def test_words_without_quotes_are_told_apart(cli: Cli) -> None:
    err = cli("search", "which", "editor").err
    assert one_sentence(err)
    assert "argument (editor). See" in err


def test_output_that_is_closed(workspace: Path) -> None:
    assert run(["remember", "k", "tea"]) == 0
    code = f"exec {sys.executable} -m memory_core.cli search tea >&-"
    done = subprocess.run(["bash", "-c", code], cwd=workspace, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_reader_that_goes_away(workspace: Path) -> None:
    for number in range(30):
        assert run(["remember", f"k{number}", "x" * 20_000, "-i", "9"]) == 0
    process = program("list", "--json", cwd=workspace, env={"PYTHONUNBUFFERED": ""})
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.read(10)
    process.stdout.close()
    assert process.wait(60) == 1
    assert process.stderr.read() == b""
    process.stderr.close()


def wait_until_idle(pid: int, timeout_s: float = 60.0) -> None:
    """Wait until a process has slept for a second without a break; where that cannot be seen, wait a little."""
    status = Path(f"/proc/{pid}/stat")
    if not status.exists():
        time.sleep(5.0)
        return
    idle, end = 0, time.monotonic() + timeout_s
    while idle < 20 and time.monotonic() < end:
        idle = idle + 1 if status.read_text().rpartition(")")[2].split()[0] == "S" else 0
        time.sleep(0.05)


def test_interrupting_a_running_command(workspace: Path) -> None:
    process = program("remember", "k", "-", cwd=workspace, stdin=subprocess.PIPE)
    wait_until_idle(process.pid)  # it waits for its standard input by then
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert one_sentence(err.decode().lstrip("\n"))


def test_a_terminal_without_unicode(workspace: Path) -> None:
    process = program("remember", "框架", "使用框架", cwd=workspace, env={"PYTHONIOENCODING": "latin-1"})
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, b"")
    assert b"\\u6846" in out


def test_a_read_only_store_says_so(cli: Cli, workspace: Path) -> None:
    (workspace / ".memory-core").write_text("a file where a directory should be")
    result = cli("remember", "k", "text")
    assert result.code == 1
    assert one_sentence(result.err)
    assert "Stored" not in result.out


@pytest.mark.parametrize(
    "text", ["storer = ", "storr = 'x'", "[ttl]\n11 = 5", "[storers.markdown]\nfsnc = true", "locale = 'fr'"]
)
def test_a_wrong_configuration_is_one_sentence(cli: Cli, workspace: Path, text: str) -> None:
    (workspace / "memory.toml").write_text(text)
    for args in (("list",), ("config", "show"), ("remember", "k", "t")):
        result = cli(*args)
        assert result.code == 1
        assert one_sentence(result.err)
    assert cli("doctor").code == 1


def test_configuration_that_is_not_utf8(cli: Cli, workspace: Path) -> None:
    (workspace / "memory.toml").write_bytes(b"storer = '\xff'")
    result = cli("list")
    assert result.code == 1
    assert one_sentence(result.err)


def test_start_up_loads_nothing_heavy(workspace: Path) -> None:
    code = (
        "import sys; from memory_core.cli.run import run; run(['--help']); "
        "heavy = {'redis', 'lancedb', 'whoosh', 'numpy', 'torch', 'pydantic_ai', 'detect_secrets', 'yaml', 'sqlite3', "
        "'pydantic_settings', 'requests', 'memory_core.talent', 'memory_core.loading'} & sys.modules.keys(); "
        "print(sorted(heavy), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, cwd=workspace, check=True)
    assert done.stderr.decode().strip() == "[]"


def test_the_script_and_the_module_say_their_version(workspace: Path) -> None:
    process = program("--version", cwd=workspace)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, b"")
    assert out.startswith(b"memory-core ")


def commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        yield (*path, name)


def test_every_command_has_help_and_shows_examples_line_by_line(cli: Cli) -> None:
    paths = list(commands(app.cli))
    assert ("plugins", "new") in paths
    for path in paths:
        result = cli(*path, "--help")
        assert result.code == 0
        assert "\\b" not in result.out
        assert result.out.count("Usage: memory-core") == 1
        examples = [line for line in result.out.splitlines() if line.startswith("  memory-core ")]
        assert examples or path[0] in ("config", "embed", "ledger", "quickstart")
    assert "  memory-core config show\n" in cli("config", "show", "--help").out


def test_the_backend_may_be_named_after_the_command(cli: Cli) -> None:
    assert cli("remember", "editor", "Prefers vim", "--storer", "kv").code == 0
    assert "Prefers vim" in cli("search", "vim", "--storer", "kv", "--searcher", "whoosh").out
    assert cli("recall", "editor").code == 1, "the other store has nothing"
    assert "Indexed 1 memories" in cli("reindex", "--storer", "kv", "--searcher", "whoosh").out
    wrong = cli("reindex", "--searcher", "whosh")
    assert (wrong.code, one_sentence(wrong.err)) == (1, True)
    assert "'whoosh'" in wrong.err


def test_a_group_without_a_command_shows_its_whole_help(cli: Cli) -> None:
    for group in ((), ("ledger",), ("embed",)):
        shown = cli(*group)
        assert "Commands:\n" in shown.out + shown.err


def test_an_export_into_a_folder_that_is_not_there_names_the_folder(cli: Cli, workspace: Path) -> None:
    cli("remember", "editor", "Prefers vim")
    result = cli("export", str(workspace / "none" / "all.jsonl"))
    assert result.code == 1
    assert result.err == f"memory-core: There is no such folder: {workspace / 'none'}\n"
