"""The transcript: never twice, never lost, whose it is, and pruned by age."""

import json
import multiprocessing
import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from memory_core.errors import BudgetError, InvalidEntryError, InvalidKeyError, StorageUnavailableError
from memory_core.sessions.messages import (
    Message,
    OtherPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    assistant_message,
    text_of,
    tool_message,
    user_message,
)
from memory_core.sessions.transcript import SessionInfo, TranscriptLog
from memory_core.testing.session import NASTY_SESSION_IDS, NASTY_TEXTS, full_message

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


def said(text: str, *, days_ago: float = 0, role: str = "user") -> Message:
    message = user_message(text) if role == "user" else assistant_message(text)
    return Message(message.role, message.parts, message.id, NOW - timedelta(days=days_ago))


@pytest.fixture
def log(tmp_path: Path) -> TranscriptLog:
    return TranscriptLog(tmp_path / "sessions", fsync=False)


class TestWriting:
    def test_reading_makes_nothing(self, log: TranscriptLog) -> None:
        assert log.history("s") == []
        assert log.sessions() == []
        assert log.prune(1) == []
        assert log.problems() == []
        assert log.write("s", []) == 0
        assert not log.directory.exists()

    def test_the_same_message_is_written_once(self, log: TranscriptLog) -> None:
        one, two = user_message("one"), user_message("two")
        assert log.write("s", [one, one]) == 1
        assert log.write("s", [one, two]) == 1
        assert TranscriptLog(log.directory).write("s", [one, two]) == 0
        assert len(log.path("s").read_bytes().splitlines()) == 2
        assert log.history("s") == [one, two]

    def test_everything_comes_back(self, log: TranscriptLog) -> None:
        full = full_message()
        normal = Message(full.role, full.parts, full.id, full.time, native=full.native)
        messages = [normal, *(user_message(text or "x") for text in NASTY_TEXTS)]
        log.write("s", messages)
        assert TranscriptLog(log.directory).history("s", 100) == messages

    def test_what_is_no_conversation_is_left_out(self, log: TranscriptLog) -> None:
        kept = user_message("kept")
        others = [
            user_message("summary", kind="summary"),
            user_message("memories", kind="injected"),
            Message("system", (TextPart("be kind"),)),
        ]
        assert log.write("s", [*others, kept]) == 1
        assert log.history("s") == [kept]

    def test_nothing_is_written_of_what_is_not_json(self, log: TranscriptLog) -> None:
        with pytest.raises(InvalidEntryError):
            log.write("s", [user_message("x"), Message("user", (OtherPart("x", object()),))])
        assert log.history("s") == []

    def test_a_line_is_as_documented(self, log: TranscriptLog) -> None:
        message = user_message("框架")
        log.write("s", [message], user_id="u", agent_id="a")
        assert json.loads(log.path("s").read_text("utf-8")) == {
            "session": "s",
            "user": "u",
            "agent": "a",
            "id": message.id,
            "time": message.time.isoformat(),
            "role": "user",
            "parts": [{"type": "text", "text": "框架"}],
        }
        assert log.path("s").name == "s.log.jsonl"

    def test_ids_never_meet(self, log: TranscriptLog) -> None:
        for name in NASTY_SESSION_IDS:
            log.write(name, [user_message(f"in {name}")])
        assert sorted(info.session_id for info in log.sessions()) == sorted(NASTY_SESSION_IDS)
        for name in NASTY_SESSION_IDS:
            assert [text_of(message) for message in log.history(name)] == [f"in {name}"]
        assert {path.parent for path in log.paths()} == {log.directory}

    def test_impossible_names_are_refused(self, log: TranscriptLog) -> None:
        for names in ({"session_id": " "}, {"user_id": "a\x00"}, {"agent_id": ""}):
            with pytest.raises(InvalidKeyError):
                log.write(**{"session_id": "s", "messages": [user_message("x")], **names})  # type: ignore[arg-type] # pyright: ignore[reportArgumentType] - on purpose

    def test_a_torn_line_is_set_aside_and_a_corrupt_one_reported(self, log: TranscriptLog) -> None:
        first, second = user_message("first"), user_message("second")
        log.write("s", [first])
        path = log.path("s")
        whole = path.read_bytes()
        path.write_bytes(
            whole
            + b"{not json}\n"
            + b'{"session": "s"}\n'
            + whole.replace(b'"user":"shared"', b'"user":""')
            + b'{"torn'
        )
        assert [(p.code, p.where.rpartition("#")[2]) for p in log.problems()] == [
            ("transcript-corrupt-line", number) for number in ("2", "3", "4")
        ]
        assert log.history("s") == [first]
        assert TranscriptLog(log.directory).write("s", [first, second]) == 1
        assert log.history("s") == [first, second]
        assert path.read_bytes().startswith(whole + b"{not json}\n")
        assert path.with_name(path.name + ".damaged").read_bytes() == b'{"torn\n'

    def test_a_directory_that_cannot_be_made(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("x")
        log = TranscriptLog(tmp_path / "file")
        with pytest.raises(StorageUnavailableError):
            log.write("s", [user_message("x")])
        with pytest.raises(StorageUnavailableError):
            log.sessions()

    def test_a_transcript_that_cannot_be_read(self, log: TranscriptLog) -> None:
        log.path("s").mkdir(parents=True)
        with pytest.raises(StorageUnavailableError):
            log.history("s")

    def test_many_open_transcripts(self, log: TranscriptLog, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("memory_core.sessions.transcript.MAX_OPEN", 2)
        messages = {name: user_message(name) for name in "abcd"}
        for _ in range(2):
            for name, message in messages.items():
                log.write(name, [message])
        assert [len(log.history(name)) for name in "abcd"] == [1, 1, 1, 1]


class TestOwners:
    def test_users_see_only_their_own_lines(self, log: TranscriptLog) -> None:
        mine, hers, same = user_message("mine"), user_message("hers"), user_message("same id")
        log.write("default", [mine, same], user_id="user")
        assert log.write("default", [hers, same], user_id="user2") == 2
        assert log.history("default", user_id="user") == [mine, same]
        assert log.history("default", user_id="user2") == [hers, same]
        assert log.history("default") == []
        assert [info.messages for info in log.sessions(user_id="user")] == [2]
        assert log.sessions() == []

    def test_agents_are_listed(self, log: TranscriptLog) -> None:
        log.write("s", [said("hello", days_ago=2)], agent_id="main")
        log.write("s", [said("answer", days_ago=1, role="assistant")], agent_id="helper")
        log.write("t", [said("late")], agent_id="helper")
        times = [NOW - timedelta(days=days) for days in (2, 1)]
        assert log.sessions() == [
            SessionInfo("t", ("helper",), 1, NOW, NOW, "late"),
            SessionInfo("s", ("main", "helper"), 2, times[0], times[1], "hello"),
        ]
        assert [info.session_id for info in log.sessions(agent_id="main")] == ["s"]
        assert log.sessions(agent_id="none") == []

    def test_a_title_is_one_short_line(self, log: TranscriptLog) -> None:
        log.write("s", [assistant_message("hi"), user_message("  \n"), user_message("a long\nfirst question " * 20)])
        (info,) = log.sessions()
        assert info.title.startswith("a long first question")
        assert len(info.title) <= 80
        assert "\n" not in info.title

    def test_a_list_follows_the_files(self, log: TranscriptLog) -> None:
        log.write("s", [said("one", days_ago=1)])
        assert log.sessions()[0].messages == 1
        TranscriptLog(log.directory).write("s", [said("two")])
        assert (log.sessions()[0].messages, log.sessions()[0].last) == (2, NOW)
        log.path("s").unlink()
        assert log.sessions() == []


class TestHistory:
    def test_the_last_messages_and_whole_pairs(self, log: TranscriptLog) -> None:
        calling = assistant_message("", [ToolCallPart("c", "x")])
        answered = tool_message(ToolResultPart("c", "x", "r"))
        log.write("s", [user_message("go"), calling, answered])
        assert log.history("s", 1) == [calling, answered]
        assert log.history("s", 0) == []
        with pytest.raises(BudgetError):
            log.history("s", -1)


class TestPruning:
    def test_by_the_age_of_the_newest_line(self, log: TranscriptLog) -> None:
        log.write("old", [said("x", days_ago=200)])
        log.write("border", [said("x", days_ago=180)])
        log.write("mixed", [said("x", days_ago=500), said("y", days_ago=1)])
        assert log.prune(180, now=NOW) == ["old"]
        assert sorted(info.session_id for info in log.sessions()) == ["border", "mixed"]
        assert log.prune(180, now=NOW + timedelta(microseconds=1)) == ["border"]
        assert log.write("old", [said("again")]) == 1
        assert [text_of(message) for message in log.history("old")] == ["again"]

    def test_without_a_readable_line_the_file_decides(self, log: TranscriptLog) -> None:
        log.directory.mkdir()
        path = log.directory / "broken.log.jsonl"
        path.write_text("not json\n")
        assert log.prune(1) == []
        old = time.time() - 3 * 86_400
        os.utime(path, (old, old))
        assert log.prune(1) == ["broken"]
        assert not path.exists()

    def test_only_transcripts_are_deleted(self, log: TranscriptLog) -> None:
        log.write("old", [said("x", days_ago=500)])
        other = log.directory / "old.messages.ndjson"
        other.write_text("{}\n")
        log.prune(1, now=NOW)
        assert other.exists()
        assert log.paths() == []

    def test_the_age_is_checked(self, log: TranscriptLog) -> None:
        with pytest.raises(BudgetError):
            log.prune(0)


def write_many(directory: str, writer: int) -> None:
    log = TranscriptLog(directory, fsync=False)
    for n in range(60):
        common = Message("user", (TextPart(f"common {n}"),), f"common-{n}")
        log.write("shared", [common, user_message(f"{writer}-{n}")])


def test_processes_write_one_transcript(log: TranscriptLog) -> None:
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=write_many, args=(str(log.directory), writer)) for writer in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    texts = [text_of(message) for message in log.history("shared", 10_000)]
    own = [f"{writer}-{n}" for writer in range(3) for n in range(60)]
    assert sorted(texts) == sorted([*own, *(f"common {n}" for n in range(60))])
    assert log.problems() == []
