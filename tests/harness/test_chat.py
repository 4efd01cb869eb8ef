"""`memory-core chat`, with the demonstration model and against a server that speaks the chat API; the examples."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.chat_server import ChatServer, Say, Script

ROOT = Path(__file__).parents[2]


def chat(place: Path, said: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("MEMORY_CORE_", "XDG_", "OPENAI_", "COVERAGE_"))
    }
    return subprocess.run(
        [sys.executable, "-m", "memory_core.cli", "chat", "--cwd", str(place), *arguments],
        input=said,
        capture_output=True,
        encoding="utf-8",
        check=False,
        cwd=ROOT,
        env={**environment, "HOME": str(place), "PYTHONIOENCODING": "utf-8", **variables},
    )


def test_the_demonstration_remembers_across_starts_and_forgets_on_command(tmp_path: Path) -> None:
    first = chat(tmp_path, "remember: my editor is vim\n记住：数据库是PostgreSQL\n", "--model", "scripted")
    assert first.returncode == 0, first.stderr
    assert "Saved my-editor-is-vim" in first.stdout
    said = "which editor do I use?\n数据库是什么\n/memories\n/inject editor\n/forget my-editor-is-vim\n"
    second = chat(
        tmp_path, said + "/forget no-such\n/forget\n/help\n/nonsense\nwhich editor?\n/quit\n", "--model", "scripted"
    )
    assert second.returncode == 0, second.stderr
    for expected in (
        "I remember: my editor is vim",
        "I remember: 数据库是PostgreSQL",
        "<memory_context>",
        "Forgotten: my-editor-is-vim (workspace)",
        "There is no memory with the key no-such.",
        "Say which",
        "There is no command /nonsense",
        "I remember nothing about that",
    ):
        assert expected in second.stdout
    assert "Nothing is remembered yet." in chat(tmp_path, "/memories\n", "--model", "scripted", "--user", "ann").stdout


def test_it_talks_to_a_server_with_the_chat_api_and_says_when_that_fails(
    tmp_path: Path, serve: Callable[[Script], ChatServer]
) -> None:
    answers = iter([Say("hello there"), Say(status=400)])
    server = serve(lambda _request: next(answers))
    done = chat(tmp_path, "hello\nagain\n", "--model", "any", "--base-url", server.base_url, "--no-ledger")
    assert done.returncode == 0, done.stderr
    assert "hello there" in done.stdout
    assert "The model did not answer: status_code: 400" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "--model scripted"),
        (("--model", "openai:gpt-4.1-mini"), "OPENAI_API_KEY"),
        (("--model", "nonsense"), "--model scripted"),
    ],
)
def test_without_a_model_it_says_what_to_set(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    done = chat(tmp_path, "hello\n", *arguments)
    assert done.returncode == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("engine.py", ["Saved my-editor-is-vim", "I remember: my editor is vim", "healthy: True"]),
        ("agent.py", ["Saved my-editor-is-vim", "I remember: my editor is vim", "I remember nothing about that"]),
    ],
)
def test_the_examples_run(tmp_path: Path, name: str, expected: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(ROOT / "examples" / "engine" / name)],
        capture_output=True,
        encoding="utf-8",
        check=False,
        cwd=tmp_path,
        env={**os.environ, "HOME": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    for text in expected:
        assert text in done.stdout
