"""The session stores in memory and in files keep the contract, and what only they promise."""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from memory_core.errors import BudgetError, StorageUnavailableError
from memory_core.sessions.file import FileAgentSession, FileSessions
from memory_core.sessions.memory import InMemoryAgentSession, InMemorySessions, temporary_session
from memory_core.sessions.messages import (
    ToolCallPart,
    ToolResultPart,
    assistant_message,
    message_to_json,
    text_of,
    tool_message,
    user_message,
)
from memory_core.testing.session import NASTY_SESSION_IDS, OpenSession, SessionContract


class TestInMemorySession(SessionContract):
    @pytest.fixture
    def open_session(self) -> OpenSession:
        return InMemorySessions()


class TestFileSession(SessionContract):
    @pytest.fixture
    def open_session(self, tmp_path: Path) -> OpenSession:
        return lambda session_id: FileAgentSession(session_id, tmp_path / "sessions", fsync=False)


class TestBoundedMemory:
    def test_the_oldest_go_first(self) -> None:
        session = InMemoryAgentSession("s", max_messages=3)
        session.append([user_message(str(n)) for n in range(5)])
        assert [text_of(message) for message in session.messages()] == ["2", "3", "4"]

    def test_pairs_go_whole(self) -> None:
        session = InMemoryAgentSession("s", max_messages=2)
        session.append([assistant_message("", [ToolCallPart("a", "x")]), tool_message(ToolResultPart("a", "x", "r"))])
        session.append([assistant_message("done")])
        assert [text_of(message) for message in session.messages()] == ["done"]

    def test_one_pair_that_is_too_long_stays(self) -> None:
        session = InMemoryAgentSession("s", max_messages=2)
        calls = [ToolCallPart(str(n), "x") for n in range(3)]
        session.append([user_message("go"), assistant_message("", calls)])
        session.append([tool_message(ToolResultPart(str(n), "x", "r")) for n in range(3)])
        assert len(session.messages()) == 4

    def test_a_bound_below_one_is_refused(self) -> None:
        with pytest.raises(BudgetError):
            InMemoryAgentSession("s", max_messages=0)

    def test_the_session_not_used_for_longest_is_forgotten(self) -> None:
        sessions = InMemorySessions(max_sessions=2)
        for name in ("a", "b", "a", "c"):
            sessions(name).append([user_message(name)])
        assert [len(sessions(name).messages()) for name in ("a", "c")] == [2, 1]
        assert sessions("b").messages() == []

    def test_temporary_sessions_are_apart(self) -> None:
        one, other = temporary_session(), temporary_session()
        one.append([user_message("x")])
        assert other.messages() == []
        assert one.session_id != other.session_id


def lines_of(path: Path) -> list[bytes]:
    return path.read_bytes().split(b"\n")[:-1]


class TestFiles:
    @pytest.fixture
    def session(self, tmp_path: Path) -> FileAgentSession:
        session = FileAgentSession("s", tmp_path)
        session.append([user_message("one"), user_message("two"), user_message("three")])
        return session

    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        return tmp_path / "s.messages.ndjson"

    def test_names_are_as_documented(self, session: FileAgentSession, tmp_path: Path) -> None:
        session.update_snapshot({"x": 1})
        names = {path.name for path in tmp_path.iterdir()}
        assert {"s.messages.ndjson", "s.snapshot.json"} <= names

    def test_files_are_private(self, session: FileAgentSession, path: Path, tmp_path: Path) -> None:
        session.update_snapshot({"x": 1})
        session.remove_latest()
        for file in (path, tmp_path / "s.snapshot.json"):
            assert file.stat().st_mode & 0o077 == 0

    def test_reading_makes_nothing(self, tmp_path: Path) -> None:
        session = FileAgentSession("s", tmp_path / "none")
        assert session.messages() == []
        assert session.snapshot() is None
        assert session.problems() == []
        assert not (tmp_path / "none").exists()

    def test_no_id_leaves_the_directory(self, tmp_path: Path) -> None:
        folder = tmp_path / "a" / "b" / "sessions"
        for name in NASTY_SESSION_IDS:
            FileAgentSession(name, folder, fsync=False).append([user_message("x")])
        assert [path for path in tmp_path.rglob("*.ndjson") if path.parent != folder] == []
        assert len(list(folder.glob("*.ndjson"))) == len(NASTY_SESSION_IDS)

    @pytest.mark.parametrize("cut", [1, 2, 20, 60])
    def test_a_torn_last_line_is_reported_and_repaired(self, session: FileAgentSession, path: Path, cut: int) -> None:
        whole = path.read_bytes()
        path.write_bytes(whole[:-cut])
        torn = whole[:-cut].rpartition(b"\n")[2]
        reopened = FileAgentSession("s", path.parent)
        if cut == 1:  # only the newline is missing: the message is whole
            assert [text_of(m) for m in reopened.messages()] == ["one", "two", "three"]
            assert reopened.problems() == []
        else:
            assert [text_of(m) for m in reopened.messages()] == ["one", "two"]
            assert [problem.code for problem in reopened.problems()] == ["session-torn-line"]
        assert path.read_bytes() == whole[:-cut]  # reading rewrites nothing
        reopened.append([user_message("four")])
        texts = ["one", "two", *(["three"] if cut == 1 else []), "four"]
        for opened in (reopened, session, FileAgentSession("s", path.parent)):
            assert [text_of(m) for m in opened.messages()] == texts
            assert opened.problems() == []
        aside = path.with_name(path.name + ".damaged")
        assert (aside.read_bytes() == torn + b"\n") if cut > 1 else not aside.exists()

    def test_a_torn_line_before_a_rewrite_is_kept_aside(self, session: FileAgentSession, path: Path) -> None:
        with path.open("ab") as file:
            file.write(b'{"id": "to')
        assert [text_of(m) for m in session.remove_latest()] == ["three"]
        assert path.with_name(path.name + ".damaged").read_bytes() == b'{"id": "to\n'
        assert session.problems() == []

    @pytest.mark.parametrize(
        "line",
        [
            b"{not json",
            b"[]",
            b"null",
            b"\xff\xfe",
            b"[" * 100_000,
            b'{"id": "x"}',
            b'{"id": 1, "time": "2024-01-01T00:00:00+00:00", "role": "user", "parts": []}',
            b'{"id": "x", "time": "2024-01-01T00:00:00", "role": "user", "parts": []}',
            b'{"id": "x", "time": "2024-01-01T00:00:00+00:00", "role": "god", "parts": []}',
            b'{"id": "x", "time": "2024-01-01T00:00:00+00:00", "role": "user", "parts": [{"type": "new"}]}',
            b'{"id": "x", "time": "2024-01-01T00:00:00+00:00", "role": "user", "parts": ["x"]}',
            b'{"id": "x", "time": "2024-01-01T00:00:00+00:00", "role": "user", "parts": 3}',
            b'{"id": "x", "time": "2024-01-01T00:00:00+00:00", "role": ["user"], "parts": []}',
            b'{"id": "x", "time": "2024-01-01T00:00:00+00:00", "role": "user", "parts": [], "native": 3}',
        ],
    )
    def test_a_corrupt_middle_line_is_reported_and_skipped(
        self, session: FileAgentSession, path: Path, line: bytes
    ) -> None:
        first, second, third = lines_of(path)
        content = b"\n".join([first, line, second, third, b""])
        path.write_bytes(content)
        for opened in (session, FileAgentSession("s", path.parent)):
            assert [text_of(m) for m in opened.messages()] == ["one", "two", "three"]
            (problem,) = opened.problems()
            assert problem.code == "session-corrupt-line"
            assert problem.where == f"{path}#2"
        session.append([user_message("four")])
        assert path.read_bytes().startswith(content)  # never rewritten silently
        session.remove_latest()
        assert path.with_name(path.name + ".damaged").read_bytes() == line + b"\n"
        assert [text_of(m) for m in FileAgentSession("s", path.parent).messages()] == ["one", "two", "three"]

    def test_lines_of_people_with_crlf_are_read(self, session: FileAgentSession, path: Path) -> None:
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
        assert [text_of(m) for m in session.messages()] == ["one", "two", "three"]

    @pytest.mark.parametrize(
        "content",
        [
            b'{"version": 99, "snapshot": {"x": 1}}',
            b"not json",
            b"[]",
            b"",
            b'{"version": 1, "pending": "yes"}',
            b'{"version": 1, "reason": 3}',
            b"[" * 100_000,
        ],
    )
    def test_a_snapshot_of_another_version_is_reported_and_kept(
        self, session: FileAgentSession, tmp_path: Path, content: bytes
    ) -> None:
        snapshot = tmp_path / "s.snapshot.json"
        snapshot.write_bytes(content)
        assert session.snapshot() is None
        assert not session.pending
        assert [problem.code for problem in session.problems()] == ["session-snapshot"]
        assert len(session.messages()) == 3
        assert snapshot.read_bytes() == content
        session.update_snapshot({"new": 1})
        assert session.snapshot() == {"new": 1}
        (aside,) = tmp_path.glob("s.snapshot.json.unread-*")
        assert aside.read_bytes() == content
        assert session.problems() == []

    def test_clearing_leaves_nothing_of_what_was_said(
        self, session: FileAgentSession, path: Path, tmp_path: Path
    ) -> None:
        other = FileAgentSession("s2", tmp_path)
        other.append([user_message("stays")])
        path.write_bytes(path.read_bytes() + b"secret, corrupt\n" + b'{"secret": "torn')
        session.append([user_message("x")])
        session.remove_latest()
        (tmp_path / "s.snapshot.json").write_text('{"version": 99, "snapshot": "secret"}')
        session.update_snapshot({"x": 1})
        assert len(list(tmp_path.glob("s.*"))) == 5
        session.clear()
        assert [path.name for path in tmp_path.glob("s.*")] == ["s.messages.ndjson.lock"]
        assert len(other.messages()) == 1

    def test_an_edited_file_is_read_anew(self, session: FileAgentSession, path: Path) -> None:
        assert len(session.messages()) == 3
        path.write_text(
            message_to_json(user_message("edited by hand, and longer than what was there before " * 20)) + "\n"
        )
        assert len(session.messages()) == 1
        path.write_text("")
        assert session.messages() == []
        path.unlink()
        assert session.messages() == []

    def test_an_edit_that_changes_no_length_is_seen_and_kept(self, session: FileAgentSession, path: Path) -> None:
        session.append([user_message(f"message number {n}") for n in range(40)])
        data = path.read_bytes()
        with path.open("r+b") as file:
            file.write(data.replace(b'message number 1"', b'MESSAGE NUMBER 1"'))
        assert "MESSAGE NUMBER 1" in map(text_of, session.messages())
        session.remove_latest(1)
        assert b"MESSAGE NUMBER 1" in path.read_bytes()

    def test_a_replaced_file_with_the_same_beginning_is_noticed(self, session: FileAgentSession, path: Path) -> None:
        other = FileAgentSession("s", path.parent)
        assert len(other.messages()) == 3
        first = session.messages()[0].id
        session.replace([first], [user_message("another one", kind="summary")])
        session.append([user_message(f"more {n}") for n in range(50)])
        assert other.messages() == session.messages()

    def test_a_directory_that_cannot_be_made(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("x")
        session = FileAgentSession("s", tmp_path / "file" / "sessions")
        with pytest.raises(StorageUnavailableError, match="cannot be"):
            session.append([user_message("x")])
        with pytest.raises(StorageUnavailableError, match="cannot be"):
            session.update_snapshot({"x": 1})

    def test_paths_that_are_folders(self, tmp_path: Path) -> None:
        for name in ("s.messages.ndjson", "s.snapshot.json"):
            (tmp_path / name).mkdir()
        session = FileAgentSession("s", tmp_path)
        with pytest.raises(StorageUnavailableError):
            session.messages()
        with pytest.raises(StorageUnavailableError):
            session.snapshot()
        with pytest.raises(StorageUnavailableError):
            session.clear()

    def test_a_full_disk_leaves_the_file_as_it_was(
        self, session: FileAgentSession, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        before = path.read_bytes()
        write = os.write

        def half(descriptor: int, data: bytes) -> int:
            if len(data) < 10:
                raise OSError(28, "No space left on device")
            return write(descriptor, bytes(data[: max(1, len(data) // 2)]))

        with monkeypatch.context() as patch:
            patch.setattr(os, "write", half)
            with pytest.raises(StorageUnavailableError, match="No space left"):
                session.append([user_message("four")])
        assert path.read_bytes() == before
        assert len(session.messages()) == 3
        assert session.append([user_message("four")]) == 1

    def test_a_rewrite_that_cannot_be_written_leaves_the_file(
        self, session: FileAgentSession, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        before = path.read_bytes()

        def failing(descriptor: int) -> None:
            raise OSError(5, "Input/output error")

        session.update_snapshot({"x": 1})
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", failing)
            with pytest.raises(StorageUnavailableError, match="Input/output"):
                session.remove_latest()
            with pytest.raises(StorageUnavailableError, match="Input/output"):
                session.update_snapshot({"x": 2})
            with pytest.raises(StorageUnavailableError, match="Input/output"):
                session.append([user_message("x")])
        assert path.read_bytes() == before
        assert session.snapshot() == {"x": 1}
        assert len(session.messages()) == 3

    def test_a_provider_keeps_few_open(self, tmp_path: Path) -> None:
        sessions = FileSessions(tmp_path, max_open=2)
        first = sessions("a")
        first.append([user_message("x")])
        assert sessions("a") is first
        sessions("b")
        sessions("c")
        again = sessions("a")
        assert again is not first
        first.append([user_message("y")])
        assert again.messages() == first.messages()


def write_many(directory: str, writer: int, count: int) -> None:
    session = FileAgentSession("shared", directory)
    for n in range(count):
        session.append([user_message(f"{writer}-{n}")])


WRITER = """
import sys
from memory_core.sessions.file import FileAgentSession
from memory_core.sessions.messages import user_message
session = FileAgentSession("killed", sys.argv[1])
n = len(session.messages())
while True:
    session.append([user_message(f"{n} " + "x" * 5000)])
    print(n, flush=True)
    n += 1
    if n % 7 == 0:
        session.update_snapshot({"n": n, "pad": "y" * 5000})
"""


class TestProcesses:
    def test_two_processes_lose_nothing(self, tmp_path: Path) -> None:
        context = multiprocessing.get_context("spawn")
        workers = [context.Process(target=write_many, args=(str(tmp_path), writer, 100)) for writer in range(2)]
        for worker in workers:
            worker.start()
        mine = FileAgentSession("shared", tmp_path)
        while any(worker.is_alive() for worker in workers):
            seen = [text_of(message) for message in mine.messages()]
            assert len(seen) == len(set(seen))
            time.sleep(0.01)
        for worker in workers:
            worker.join()
            assert worker.exitcode == 0
        texts = [text_of(message) for message in mine.messages()]
        assert sorted(texts) == sorted(f"{writer}-{n}" for writer in range(2) for n in range(100))
        assert mine.messages() == FileAgentSession("shared", tmp_path).messages()
        assert mine.problems() == []

    def test_every_acknowledged_message_survives_a_kill(self, tmp_path: Path) -> None:
        acknowledged = -1
        session = FileAgentSession("killed", tmp_path)
        for _ in range(50 if os.environ.get("MEMORY_CORE_SOAK") else 4):
            process = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
            assert process.stdout is not None
            until = acknowledged + 25
            for line in process.stdout:
                acknowledged = int(line)
                if acknowledged >= until:
                    break
            process.send_signal(signal.SIGKILL)
            rest = process.stdout.read().split()
            acknowledged = int(rest[-1]) if rest else acknowledged
            process.stdout.close()
            process.wait()
            session = FileAgentSession("killed", tmp_path)
            numbers = [int(text_of(message).split()[0]) for message in session.messages()]
            assert numbers == list(range(len(numbers)))
            assert len(numbers) > acknowledged
            snapshot = session.snapshot()
            assert isinstance(snapshot, dict)
            session.append([user_message(f"{len(numbers)} after the kill")])
        raw = [json.loads(line) for line in (tmp_path / "killed.messages.ndjson").read_bytes().splitlines()]
        assert len(raw) == len(session.messages())
