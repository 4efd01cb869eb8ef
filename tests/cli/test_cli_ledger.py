import json
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from memory_core.sessions.messages import user_message
from memory_core.sessions.transcript import TranscriptLog
from memory_core.testing.model import FakeModel
from tests.cli.conftest import Cli, one_sentence

NEW = "# Memory\n\n- The user drinks tea.\n"


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> FakeModel:
    """Stand in for the model that `--model fake:one` names."""
    fake = FakeModel("- The user drinks tea.", NEW)
    monkeypatch.setattr("memory_core.ledger.opening.configured_model", Mock(return_value=fake))
    return fake


def test_the_whole_round(cli: Cli, workspace: Path, model: FakeModel) -> None:
    Path("chat.json").write_text(json.dumps([{"role": "user", "content": "I drink tea"}]), "utf-8")
    done = cli("ledger", "flush", "chat.json", "--model", "fake:one")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("- The user drinks tea.\nWritten to memory/")
    assert "I drink tea" in model.calls[0].user
    assert "- The user drinks tea." in cli("ledger", "today").out
    assert cli("ledger", "consolidate", "--model", "fake:one").out.startswith("Merged 1 ledgers into MEMORY.md.")
    assert cli("ledger", "show").out == NEW
    assert "MEMORY.md#3: The user drinks tea." in cli("ledger", "search", "tea?").out
    assert "+- The user drinks tea." in cli("ledger", "diff").out
    assert "MEMORY.md is as it was" in cli("ledger", "diff", "--undo").out
    assert not (workspace / "MEMORY.md").exists()
    assert "consolidation: written" in cli("ledger", "maintain", "--model", "fake:one").out
    assert cli("ledger", "maintain", "--if-due").out == "The last round is too short ago.\n"
    assert cli("doctor").code == 0


def test_json(cli: Cli, model: FakeModel) -> None:
    Path("chat.txt").write_text("I drink tea", "utf-8")
    assert cli("ledger", "flush", "chat.txt", "--model", "fake:one", "--json").json["facts"] == ["The user drinks tea."]
    assert cli("ledger", "consolidate", "--model", "fake:one", "--json").json["status"] == "written"
    assert cli("--json", "ledger", "show").json == {"path": "MEMORY.md", "text": NEW}
    assert cli("ledger", "search", "tea", "--json").json[0]["path"] == "MEMORY.md"
    assert cli("ledger", "diff", "--json").json["restored"] is None
    assert cli("ledger", "maintain", "--json").json["ran"] is True
    assert len(model.calls) == 2


@pytest.mark.parametrize(
    "text",
    [
        '[{"role": "user", "content": "I drink tea"}, {"role": "assistant", "content": "ok"}]',
        '{"role": "user", "content": "I drink tea"}\n{"role": "assistant", "content": "ok"}\n',
        '{"role": "user", "content": "I drink tea"}',
        "I drink tea\nand {braces",
        '\ufeff["I drink tea"]',
    ],
)
def test_what_conversations_look_like(cli: Cli, model: FakeModel, text: str) -> None:
    Path("chat").write_text(text, "utf-8")
    assert cli("ledger", "flush", "chat", "--model", "fake:one").code == 0
    assert "I drink tea" in model.calls[0].user


def test_a_transcript_is_a_conversation(cli: Cli, workspace: Path, model: FakeModel) -> None:
    log = TranscriptLog(workspace / "sessions")
    log.write("s", [user_message("I drink tea"), user_message("and milk")])
    assert cli("ledger", "flush", str(log.path("s")), "--model", "fake:one").code == 0
    assert "[user] and milk" in model.calls[0].user


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("flush", "none.txt"), "No such file"),
        (("flush", "chat.txt"), "there is no model"),
        (("flush", "chat.txt", "--model", "gpt"), "names no provider"),
        (("flush", "chat.txt", "--base-url", "http://127.0.0.1:9/v1"), "needs --model"),
        (("flush", "chat.txt", "--base-url", "http://127.0.0.1:9/v1", "--model", "m"), "cannot be reached"),
        (("flush", "bad.json", "--model", "test"), "no conversation"),
        (("flush", "odd.json", "--model", "test"), "OpenAI chat message"),
        (("flush", "gbk.txt"), "not UTF-8"),
        (("consolidate",), "there is no model"),
        (("diff",), "nothing has been consolidated"),
        (("diff", "--undo"), "nothing has been consolidated"),
        (("show",), "There is no MEMORY.md yet."),
        (("search", "tea"), "Nothing found."),
        (("serach", "tea"), "No such command"),
    ],
)
def test_errors_are_one_sentence(cli: Cli, workspace: Path, args: tuple[str, ...], words: str) -> None:
    (workspace / "memory").mkdir()
    (workspace / "memory" / "2026-06-01.md").write_text("- milk\n", "utf-8")
    Path("chat.txt").write_text("hello", "utf-8")
    Path("bad.json").write_text('[{"role": "user"', "utf-8")
    Path("odd.json").write_text('[{"role": "nobody", "content": "x"}]', "utf-8")
    Path("gbk.txt").write_bytes("用户".encode("gbk"))
    done = cli("ledger", *args)
    assert done.code != 0
    assert words in done.err
    assert done.err.count("\n") == 1


def test_what_happened_is_said(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("chat.txt").write_text("I drink tea", "utf-8")

    def answer(*script: Any) -> None:
        def fresh(*_: object) -> FakeModel:
            return FakeModel(*script)

        monkeypatch.setattr("memory_core.ledger.opening.configured_model", fresh)

    answer("NO_REPLY")
    assert cli("ledger", "flush", "chat.txt", "--model", "a:b").out == "There is nothing to record.\n"
    answer("- tea\n- " + "x" * 3_000)
    done = cli("ledger", "flush", "chat.txt", "--model", "a:b")
    assert "Note: 1 facts of more than 2000 characters were dropped." in done.err
    assert cli("ledger", "flush", "chat.txt", "--model", "a:b").out.endswith("The ledger has these facts already.\n")
    Path("empty.txt").write_text(" ", "utf-8")
    assert cli("ledger", "flush", "empty.txt", "--model", "a:b").out == "There is nothing to record.\n"
    answer("I'm sorry, I can't.")
    done = cli("ledger", "consolidate", "--model", "a:b")
    assert (done.code, "the model refused" in done.err) == (1, True)
    assert cli("ledger", "maintain", "--model", "a:b").code == 1
    doctor = cli("doctor")
    assert doctor.code == 1
    assert "The last consolidation" in doctor.out
    answer(NEW)
    cli("ledger", "consolidate", "--model", "a:b")
    assert "No ledger has changed" in cli("ledger", "consolidate", "--model", "a:b").out
    assert not one_sentence(cli("ledger", "show").err)


def test_settings(cli: Cli, workspace: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("chat.txt").write_text("I drink tea", "utf-8")
    (workspace / "memory.toml").write_text('[ledger]\nflush_trigger = "never"\ntimezone = "Asia/Shanghai"\n', "utf-8")
    assert cli("ledger", "flush", "chat.txt", "--if-due").out == "flush_trigger is never.\n"
    for line, words in (
        ('model = "openai:x"', "may not set `model` of [ledger]"),
        ('base_url = "http://evil.example/v1"', "may not set `base_url` of [ledger]"),
        ("consolidation_max_token = 3", "Did you mean 'consolidation_max_tokens'"),
        ("consolidation_max_tokens = 0", "at least 1"),
        ('consolidation_prompt = "100%"', "exactly two %d"),
        ('timezone = "Mars/Base"', "no time zone"),
    ):
        (workspace / "memory.toml").write_text(f"[ledger]\n{line}\n", "utf-8")
        done = cli("ledger", "show")
        assert done.code == 1
        assert words in done.err
        assert one_sentence(done.err)
    (workspace / "memory.toml").unlink()
    monkeypatch.setenv("MEMORY_CORE_LEDGER__MODEL", "m")
    monkeypatch.setenv("MEMORY_CORE_LEDGER__BASE_URL", "http://127.0.0.1:9/v1")
    assert "http://127.0.0.1:9/v1 cannot be reached" in cli("ledger", "flush", "chat.txt").err
    assert home.exists()


def test_nothing_steers_the_terminal(cli: Cli, workspace: Path) -> None:
    (workspace / "MEMORY.md").write_text("- a \x1b[31mred\u202e fact\n", "utf-8")
    for args in (("show",), ("search", "fact")):
        assert "\x1b" not in cli("ledger", *args).out
        assert "\u202e" not in cli("ledger", *args).out
