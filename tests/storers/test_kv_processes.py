"""The KV storer with many at once: processes, threads, forks, sudden ends, a full disk."""

import os
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from memory_core.errors import StorageUnavailableError
from memory_core.model import MemoryId
from memory_storer_kv.storer import KvStorer
from tests.support.crashes import CrashContract, kill_after, start_writer
from tests.support.stores import entry, raw

# Python 3.12 warns of every fork beside threads; here it is what is tested.
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
Make = Callable[..., KvStorer]


# --- many at once, and sudden ends ---------------------------------------------------------------------------------


class TestKvCrashes(CrashContract):
    kind = "kv"

    @pytest.fixture
    def target(self, kv_file: Path) -> Path:
        return kv_file.parent

    @pytest.fixture
    def reopen(self, make_kv: Make) -> Make:
        return make_kv

    def test_numbers_of_many_processes_differ(self, target: Path, kv_file: Path) -> None:
        writers = [start_writer("kv", target, f"p{place}", 100) for place in range(4)]
        assert [len(writer.communicate(timeout=120)[0].split()) for writer in writers] == [100] * 4
        assert raw(kv_file, "SELECT count(DISTINCT number) FROM entries") == [(400,)]

    def test_a_killed_writer_leaves_a_sound_file(self, target: Path, reopen: Make) -> None:
        kill_after(start_writer("kv", target, "w", 100_000, 50), 30)
        assert reopen().problems() == []


def test_threads_share_a_storer(make_kv: Make) -> None:
    storer = make_kv(durability="normal")

    def work(place: int) -> int:
        for number in range(50):
            storer.put(entry(f"t{place}-{number}"))
            assert storer.get(entry(f"t{place}-{number}").id) is not None
        return sum(1 for _ in storer.scan())

    with ThreadPoolExecutor(8) as pool:
        assert max(pool.map(work, range(8))) == 400


def test_a_scan_locks_nobody_out(make_kv: Make) -> None:
    storer = make_kv(durability="normal", busy_timeout_s=1)
    storer.put_many(entry(f"k{number:04}") for number in range(1_200))
    seen = 0
    for found in storer.scan():
        if seen % 400 == 0:
            storer.put(found.model_copy(update={"content": "changed while scanning"}))
        seen += 1
    assert seen == 1_200


def in_child(work: Callable[[], None]) -> int:
    """Fork, do `work` in the child, and return its process id."""
    child = os.fork()
    if child == 0:  # pragma: no cover - measured in the parent only
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    return child


def succeeded(child: int) -> bool:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_the_last_one_out_does_not_delete_the_log_of_a_forked_child(make_kv: Make) -> None:
    storer = make_kv()
    storer.put(entry("before"))
    wrote, go_on = os.pipe(), os.pipe()

    def work() -> None:  # pragma: no cover - measured in the parent only
        storer.put(entry("child-1"))
        os.write(wrote[1], b"x")
        os.read(go_on[0], 1)
        storer.put(entry("child-2"))

    child = in_child(work)
    os.read(wrote[0], 1)
    storer.close()
    os.write(go_on[1], b"x")
    assert succeeded(child)
    assert {found.id.key for found in storer.scan()} == {"before", "child-1", "child-2"}
    for descriptor in (*wrote, *go_on):
        os.close(descriptor)


def test_forks_while_threads_write(make_kv: Make) -> None:
    storer = make_kv()
    storer.put(entry("before"))
    stop = threading.Event()

    def keep_writing() -> None:
        while not stop.is_set():
            storer.put(entry("meanwhile"))

    thread = threading.Thread(target=keep_writing)
    thread.start()

    def work() -> None:  # pragma: no cover - measured in the parent only
        for number in range(20):
            storer.put(entry(f"{os.getpid()}-{number}"))
        storer.close()

    children = [in_child(work) for _ in range(4)]
    stop.set()
    thread.join()
    assert [succeeded(child) for child in children] == [True] * 4
    assert len(list(storer.scan())) == 2 + 4 * 20
    assert storer.problems() == []


def test_a_writer_that_never_ends_is_named(make_kv: Make, kv_file: Path) -> None:
    storer = make_kv(busy_timeout_s=0.2)
    storer.put(entry("a"))
    other = sqlite3.connect(kv_file, isolation_level=None)
    try:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StorageUnavailableError, match="another process has been writing"):
            storer.put(entry("b"))
        assert storer.get(entry("a").id) == entry("a")
    finally:
        other.close()
    storer.put(entry("b"))
    assert {found.id.key for found in storer.scan()} == {"a", "b"}


def test_a_full_disk_changes_nothing(make_kv: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite's own limit on pages stands for the disk's."""
    storer = make_kv()
    storer.put(entry("a", "as it was"))
    connections = storer._files["workspace"]._connections
    with connections.writing() as db:
        assert db is not None
        (pages,) = db.execute("PRAGMA page_count").fetchone()
        db.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StorageUnavailableError, match="the disk is full"):
        storer.put(entry("a", "x" * 1_000_000))
    assert storer.get(entry("a").id) == entry("a", "as it was")


def test_closing_twice_is_harmless_and_a_closed_storer_opens_again(make_kv: Make) -> None:
    storer = make_kv()
    storer.put(entry("a"))
    storer.close()
    storer.close()
    assert storer.get(entry("a").id) == entry("a")


def test_put_many_counts_and_mixes_scopes(make_kv: Make) -> None:
    storer = make_kv(durability="normal")
    assert storer.put_many([]) == 0
    assert storer.put_many(entry(f"k{n}", scope=("user", "workspace")[n % 2]) for n in range(1_201)) == 1_201
    assert len(list(storer.scan(scope="user"))) == 601
    ids = [MemoryId(scope, "shared", f"k{n}") for n in range(4) for scope in ("user", "workspace")]
    assert {id.key for id in storer.get_many(ids)} == {"k0", "k1", "k2", "k3"}
    assert storer.users() == ["shared"]
