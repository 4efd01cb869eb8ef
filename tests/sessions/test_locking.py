"""The lock keeps others out, waits for them, and is not taken along by a fork."""

import os
import threading
import time
import warnings
from pathlib import Path

import pytest

from memory_core.errors import StorageUnavailableError
from memory_core.sessions import lines, locking
from memory_core.sessions.file import FileAgentSession
from memory_core.sessions.locking import process_lock
from memory_core.sessions.messages import text_of, user_message


@pytest.fixture(params=["flock", "filelock"])
def path(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    if request.param == "filelock":
        monkeypatch.setattr(locking, "fcntl", None)
    return tmp_path / "made" / "when needed" / "x.lock"


def test_one_at_a_time(path: Path) -> None:
    inside: list[int] = []
    most: list[int] = []

    def work(number: int) -> None:
        for _ in range(10):
            with process_lock(path, 10):
                inside.append(number)
                most.append(len(inside))
                time.sleep(0.0005)
                inside.remove(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 40


def test_waiting_ends(path: Path) -> None:
    with process_lock(path, 1), pytest.raises(TimeoutError), process_lock(path, 0.05):
        raise AssertionError("two held the lock")
    with process_lock(path, 1):
        assert path.exists()


def test_an_error_inside_frees_it(path: Path) -> None:
    with pytest.raises(RuntimeError), process_lock(path, 1):
        raise RuntimeError
    with process_lock(path, 0):
        assert path.exists()


def test_a_lock_that_hangs_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "LOCK_TIMEOUT_S", 0.05)
    session = FileAgentSession("s", tmp_path)
    with process_lock(tmp_path / "s.messages.ndjson.lock", 1):
        with pytest.raises(StorageUnavailableError, match="locked by another process"):
            session.append([user_message("x")])
        assert session.messages() == []
    assert session.append([user_message("x")]) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_process_does_not_keep_the_lock(tmp_path: Path) -> None:
    session = FileAgentSession("s", tmp_path)
    end_read, end_write = os.pipe()
    with process_lock(tmp_path / "s.messages.ndjson.lock", 1):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # newer Pythons warn of every fork beside threads
            child = os.fork()
        if child == 0:
            os.close(end_write)
            os.read(end_read, 1)  # lives until the parent has finished
            os._exit(0)
    try:
        start = time.monotonic()
        session.append([user_message("x")])
        assert time.monotonic() - start < 10
        assert [text_of(message) for message in session.messages()] == ["x"]
    finally:
        os.close(end_write)
        os.waitpid(child, 0)
        os.close(end_read)
