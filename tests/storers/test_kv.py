"""What is particular to the KV storer: one SQLite file per scope."""

import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from memory_core.contracts import Clock
from memory_core.errors import CorruptEntryError, StorageUnavailableError, UnknownScopeError
from memory_core.model import MemoryId
from memory_core.testing import StorerContract
from memory_storer_kv import FILE_NAME
from memory_storer_kv import schema as kv_schema
from memory_storer_kv.storer import KvStorer
from tests.support.stores import ROOT, Follower, StillClock, entry, kill_after, start_writer

Make = Callable[..., KvStorer]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[KvStorer] = []

    def build(**options: object) -> KvStorer:
        scopes = {"user": tmp_path / "user", "workspace": tmp_path / "workspace"}
        made.append(KvStorer(scopes, **options))  # type: ignore[arg-type] # pyright: ignore[reportArgumentType] - each test gives its own
        return made[-1]

    yield build
    for storer in made:
        storer.close()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "workspace" / FILE_NAME


def raw(file: Path, statement: str, *arguments: object) -> list[tuple[object, ...]]:
    db = sqlite3.connect(file)
    try:
        with db:
            return db.execute(statement, arguments).fetchall()
    finally:
        db.close()


class TestKvStorer(StorerContract):
    @pytest.fixture
    def open_storer(self, tmp_path: Path) -> Callable[[Clock], KvStorer]:
        scopes = {"user": tmp_path / "user", "workspace": tmp_path / "workspace"}
        return lambda clock: KvStorer(scopes, clock=clock)


# --- what is on the disk -------------------------------------------------------------------------------------------


def test_reading_makes_nothing(make: Make, tmp_path: Path) -> None:
    storer = make()
    id = MemoryId("workspace", "shared", "a")
    assert storer.get(id) is None
    assert storer.get_many([id]) == {}
    assert not storer.remove(id)
    assert list(storer.scan()) == []
    assert storer.users() == []
    assert storer.purge_expired(StillClock().now()) == 0
    assert storer.problems() == []
    assert storer.changes(None, "shared").complete
    assert list(tmp_path.iterdir()) == []


def test_an_empty_file_reads_as_an_empty_store(make: Make, file: Path) -> None:
    file.parent.mkdir()
    file.touch()
    storer = make()
    assert list(storer.scan()) == []
    assert file.stat().st_size == 0
    storer.put(entry("a"))
    assert [found.id.key for found in storer.scan()] == ["a"]


def test_a_read_only_folder_can_be_read_and_refuses_writes(tmp_path: Path) -> None:
    """Root may write everywhere, so that another user must try."""
    tmp_path = Path("/tmp") / f"kv-{os.getpid()}-{time.time_ns()}"
    code = f"""
import os, shutil, sys
from pathlib import Path
from memory_core.errors import StorageUnavailableError
from memory_storer_kv.storer import KvStorer
from tests.support.stores import entry
place = Path({str(tmp_path)!r})
writer = KvStorer({{"workspace": place}})
writer.put(entry("a"))
writer.close()
os.chmod(place, 0o555)
os.chmod(place / "memory.kv.sqlite3", 0o444)
child = os.fork()
if child == 0:
    status = 1
    try:
        if os.getuid() == 0:
            os.setgid(65534)
            os.setuid(65534)
        storer = KvStorer({{"workspace": place}})
        assert [found.id.key for found in storer.scan()] == ["a"]
        assert storer.get(entry("a").id) == entry("a")
        assert storer.changes(None, "shared").upserts == [entry("a")]
        for write in (lambda: storer.put(entry("b")), lambda: storer.remove(entry("a").id)):
            try:
                write()
            except StorageUnavailableError as error:
                assert "read-only" in str(error) or "cannot be opened" in str(error), error
            else:
                raise AssertionError("a write into a read-only folder was reported as done")
        assert sorted(os.listdir(place)) == ["memory.kv.sqlite3"]
        status = 0
    except BaseException:
        import traceback
        traceback.print_exc()
    finally:
        os._exit(status)
_, status = os.waitpid(child, 0)
os.chmod(place, 0o755)
shutil.rmtree(place)
sys.exit(os.waitstatus_to_exitcode(status))
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_file_deleted_under_us_is_made_anew(make: Make, file: Path) -> None:
    storer = make()
    follower = Follower(storer)
    storer.put(entry("a"))
    follower.follow()
    for path in file.parent.iterdir():
        path.unlink()
    assert list(storer.scan()) == []
    storer.put(entry("b"))
    assert [found.id.key for found in make().scan()] == ["b"]
    follower.follow()
    assert follower.keys() == {"b"}


def test_a_restored_backup_is_noticed_by_followers(make: Make, file: Path, tmp_path: Path) -> None:
    storer = make()
    follower = Follower(storer)
    storer.put(entry("a"))
    storer.close()
    backup = file.read_bytes()
    storer.put(entry("b"))
    follower.follow()
    storer.close()
    restored = tmp_path / "restored"
    restored.write_bytes(backup)
    restored.rename(file)
    follower.follow()
    assert follower.keys() == {"a"} == {found.id.key for found in storer.scan()}


def test_damage_is_named_and_nothing_is_overwritten(make: Make, file: Path) -> None:
    file.parent.mkdir()
    file.write_text("this is not a database, it is a diary\n" * 100)
    storer = make()
    for call in (lambda: storer.put(entry("a")), lambda: storer.get(entry("a").id), lambda: list(storer.scan())):
        with pytest.raises(StorageUnavailableError, match="is not a memory file; move it away"):
            call()
    assert [problem.code for problem in storer.problems()] == ["kv-unavailable"]
    assert file.read_text().startswith("this is not a database")


def test_a_damaged_page_is_reported(make: Make, file: Path) -> None:
    storer = make(durability="normal")
    storer.put_many(entry(f"k{number}", "x" * 300) for number in range(500))
    storer.close()
    with file.open("r+b") as handle:
        handle.seek(file.stat().st_size // 2)
        handle.write(b"\xff" * 8192)
    codes = {problem.code for problem in make().problems()}
    assert codes & {"kv-damaged", "kv-unavailable"}


def test_a_file_of_a_newer_version_is_left_alone(make: Make, file: Path) -> None:
    storer = make()
    storer.put(entry("a"))
    storer.close()
    raw(file, f"PRAGMA user_version = {kv_schema.VERSION + 1}")
    for call in (lambda: storer.put(entry("b")), lambda: storer.get(entry("a").id)):
        with pytest.raises(StorageUnavailableError, match="install a newer one"):
            call()


def test_an_unreadable_entry_is_reported_and_stops_no_other(make: Make, file: Path) -> None:
    storer = make()
    storer.put_many([entry("a"), entry("b"), entry("c")])
    raw(file, "UPDATE entries SET body = ? WHERE key = 'b'", '{"content": "torn')
    raw(file, "UPDATE entries SET body = ? WHERE key = 'c'", "[1]")
    assert {found.id.key for found in storer.scan()} == {"a"}
    assert [found.id.key for found in storer.changes(None, "shared").upserts] == ["a"]
    for key in "bc":
        with pytest.raises(CorruptEntryError, match=f"memory '{key}' of 'shared'"):
            storer.get(MemoryId("workspace", "shared", key))
    assert [problem.code for problem in storer.problems()] == ["kv-unreadable-entry"] * 2


def test_the_row_decides_whose_memory_it_is(make: Make, file: Path) -> None:
    storer = make()
    storer.put(entry("a", user="alice"))
    raw(file, "UPDATE entries SET body = replace(body, 'alice', 'mallory')")
    assert [found.id.user_id for found in storer.scan()] == ["alice"]
    assert list(storer.scan("mallory")) == []


def test_no_file_can_be_made(make: Make, tmp_path: Path) -> None:
    (tmp_path / "workspace").write_text("in the way")
    with pytest.raises(StorageUnavailableError, match="cannot be written"):
        make().put(entry("a"))


def test_an_unknown_scope_is_refused_everywhere(make: Make, tmp_path: Path) -> None:
    storer, id = make(), MemoryId("workspaces", "shared", "a")
    stranger = entry("a", scope="workspaces")
    for call in (
        lambda: storer.put(stranger),
        lambda: storer.put_many([entry("b"), stranger]),
        lambda: storer.get(id),
        lambda: storer.get_many([id]),
        lambda: storer.remove(id),
        lambda: storer.scan(scope="workspaces"),
    ):
        with pytest.raises(UnknownScopeError, match="Did you mean 'workspace'"):
            call()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("durability", "level"), [("full", 2), ("normal", 1)])
def test_durability_is_what_sqlite_is_told(make: Make, durability: str, level: int) -> None:
    storer = make(durability=durability)
    storer.put(entry("a"))
    connections = storer._files["workspace"]._connections
    with connections.writing() as db:
        assert db is not None
        assert db.execute("PRAGMA synchronous").fetchone() == (level,)
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)


# --- the change feed -----------------------------------------------------------------------------------------------


def test_followers_of_other_users_stay_where_they_are(make: Make) -> None:
    storer = make()
    storer.put_many([entry("a", user="alice"), entry("b", user="bob")])
    cursor = storer.changes(None, "alice").cursor
    storer.put(entry("c", user="bob"))
    storer.remove(entry("b", user="bob").id)
    after = storer.changes(cursor, "alice")
    assert not after
    assert after.cursor == cursor


def test_the_first_write_to_another_scope_does_not_send_followers_back(make: Make) -> None:
    storer = make()
    follower = Follower(storer)
    storer.put(entry("a"))
    follower.follow()
    storer.put(entry("b", scope="user"))
    assert follower.follow() == 1
    assert (follower.keys(), follower.restarts) == ({"a", "b"}, 1)


def test_tombstones_are_trimmed_and_late_followers_start_over(make: Make, file: Path) -> None:
    storer = make(tombstones=20, durability="normal")
    late, timely = Follower(storer), Follower(storer)
    storer.put_many(entry(f"k{number}") for number in range(100))
    late.follow()
    timely.follow()
    for number in range(90):
        storer.remove(entry(f"k{number}").id)
        timely.follow()
    assert 20 <= len(raw(file, "SELECT key FROM entries WHERE body IS NULL")) <= 22
    late.follow()
    kept = {f"k{number}" for number in range(90, 100)}
    assert late.keys() == timely.keys() == kept
    assert (late.restarts, timely.restarts) == (2, 1)


def test_a_long_first_reading_survives_removals(make: Make) -> None:
    storer = make(tombstones=5, durability="normal")
    storer.put_many(entry(f"k{number:03}") for number in range(100))
    batch = storer.changes(None, "shared", 30)
    held = {found.id.key for found in batch.upserts}
    for number in range(60):
        storer.remove(entry(f"k{number:03}").id)
    follower = Follower(storer, limit=30)
    follower.cursor, follower.held = batch.cursor, {found.id: found for found in batch.upserts}
    assert held
    follower.follow()
    assert follower.keys() == {found.id.key for found in storer.scan()}


def test_numbers_of_a_lost_tail_are_not_given_away_again(
    make: Make, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a power failure with `durability="normal"`: the newest write is gone, and the machine was booted."""
    storer = make(durability="normal")
    follower = Follower(storer)
    storer.put(entry("a"))
    storer.close()
    earlier = file.read_bytes()
    storer.put(entry("lost"))
    follower.follow()
    storer.close()
    (tmp_path / "earlier").write_bytes(earlier)
    (tmp_path / "earlier").rename(file)
    monkeypatch.setattr(kv_schema, "boot_id", lambda: "the next boot")
    storer.put(entry("b"))
    follower.follow()
    assert follower.keys() == {"a", "b"}


def test_a_full_writer_after_a_normal_one(make: Make, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loose, strict = make(durability="normal"), make(durability="full")
    loose.put(entry("a"))
    epoch = raw(file, "SELECT value FROM meta WHERE name = 'epoch'")
    strict.put(entry("b"))
    assert raw(file, "SELECT value FROM meta WHERE name = 'epoch'") == epoch
    strict.close()
    monkeypatch.setattr(kv_schema, "boot_id", lambda: "the next boot")
    strict.put(entry("c"))
    assert raw(file, "SELECT value FROM meta WHERE name = 'epoch'") != epoch
    assert raw(file, "SELECT value FROM meta WHERE name = 'boot'") == []


def test_users_without_memories_are_forgotten_after_a_while(
    make: Make, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = StillClock()
    storer = make(clock=clock)
    follower = Follower(storer, "session-1")
    storer.put(entry("a", user="session-1"))
    storer.put(entry("a", user="session-2"))
    follower.follow()
    storer.remove(entry("a", user="session-1").id)
    assert storer.purge_expired(clock.now()) == 0
    assert raw(file, "SELECT count(*) FROM users") == [(2,)]
    later = time.time_ns() + 91 * 86_400 * 10**9
    monkeypatch.setattr(time, "time_ns", lambda: later)
    assert storer.purge_expired(clock.now()) == 0
    assert raw(file, "SELECT user FROM users") == [("session-2",)]
    assert raw(file, "SELECT user FROM entries") == [("session-2",)]
    storer.put(entry("b", user="session-1"))
    follower.follow()
    assert follower.keys() == {"b"}


@pytest.mark.parametrize("count", [0, 1, 100, 101, 1_001, 40_000])
def test_removing_all_of_one_user_leaves_the_others(make: Make, count: int) -> None:
    storer = make(durability="normal")
    mine = [entry(f"k{number}", user="user") for number in range(count)]
    storer.put_many([*mine, entry("other", user="user2")])
    follower = Follower(storer, "user")
    assert follower.follow() == count
    assert sum(storer.remove(found.id) for found in mine) == count
    follower.follow()
    assert follower.held == {}
    assert list(storer.scan("user")) == []
    assert [found.id.user_id for found in storer.scan()] == ["user2"]


# --- many at once, and sudden ends ---------------------------------------------------------------------------------


def test_four_processes_write_250_each(make: Make, file: Path) -> None:
    writers = [start_writer("kv", file.parent, f"p{place}", 250) for place in range(4)]
    for writer in writers:
        out, _ = writer.communicate(timeout=120)
        assert writer.returncode == 0
        assert len(out.split()) == 250
    storer = make()
    keys = [found.id.key for found in storer.scan()]
    assert len(keys) == len(set(keys)) == 1_000
    follower = Follower(storer, limit=100)
    follower.follow()
    assert len(follower.held) == 1_000
    assert raw(file, "SELECT count(DISTINCT number) FROM entries") == [(1_000,)]


def test_kill_9_loses_nothing_that_was_acknowledged(make: Make, file: Path) -> None:
    acknowledged: set[str] = set()
    rounds = 50 if os.environ.get("MEMORY_CORE_SOAK") else 6
    for place in range(rounds):
        acknowledged |= kill_after(start_writer("kv", file.parent, f"w{place}", 100_000), 1 + place * 7 % 40)
    storer = make()
    found = {entry.id.key: entry.content for entry in storer.scan()}
    assert acknowledged <= found.keys()
    assert all(content.endswith("x" * 500) for content in found.values())
    assert storer.problems() == []
    follower = Follower(storer)
    follower.follow()
    assert follower.keys() == found.keys()


def test_threads_share_a_storer(make: Make) -> None:
    storer = make(durability="normal")

    def work(place: int) -> int:
        for number in range(50):
            storer.put(entry(f"t{place}-{number}"))
            assert storer.get(entry(f"t{place}-{number}").id) is not None
        return sum(1 for _ in storer.scan())

    with ThreadPoolExecutor(8) as pool:
        assert max(pool.map(work, range(8))) == 400


def test_a_scan_locks_nobody_out(make: Make) -> None:
    storer = make(durability="normal", busy_timeout_s=1)
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


def test_the_last_one_out_does_not_delete_the_log_of_a_forked_child(make: Make) -> None:
    storer = make()
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


def test_forks_while_threads_write(make: Make) -> None:
    storer = make()
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
    assert all([succeeded(child) for child in children])
    assert len(list(storer.scan())) == 2 + 4 * 20
    assert storer.problems() == []


def test_a_writer_that_never_ends_is_named(make: Make, file: Path) -> None:
    storer = make(busy_timeout_s=0.2)
    storer.put(entry("a"))
    other = sqlite3.connect(file, isolation_level=None)
    try:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StorageUnavailableError, match="another process has been writing"):
            storer.put(entry("b"))
        assert storer.get(entry("a").id) == entry("a")
    finally:
        other.close()
    storer.put(entry("b"))
    assert {found.id.key for found in storer.scan()} == {"a", "b"}


def test_a_full_disk_changes_nothing(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite's own limit on pages stands for the disk's."""
    storer = make()
    storer.put(entry("a", "as it was"))
    connections = storer._files["workspace"]._connections
    with connections.writing() as db:
        assert db is not None
        db.execute(f"PRAGMA max_page_count = {db.execute('PRAGMA page_count').fetchone()[0]}")
    with pytest.raises(StorageUnavailableError, match="the disk is full"):
        storer.put(entry("a", "x" * 1_000_000))
    assert storer.get(entry("a").id) == entry("a", "as it was")


def test_closing_twice_is_harmless_and_a_closed_storer_opens_again(make: Make) -> None:
    storer = make()
    storer.put(entry("a"))
    storer.close()
    storer.close()
    assert storer.get(entry("a").id) == entry("a")


def test_put_many_counts_and_mixes_scopes(make: Make) -> None:
    storer = make(durability="normal")
    assert storer.put_many([]) == 0
    assert storer.put_many(entry(f"k{n}", scope=("user", "workspace")[n % 2]) for n in range(1_201)) == 1_201
    assert len(list(storer.scan(scope="user"))) == 601
    ids = [MemoryId(scope, "shared", f"k{n}") for n in range(4) for scope in ("user", "workspace")]
    assert {id.key for id in storer.get_many(ids)} == {"k0", "k1", "k2", "k3"}
    assert storer.users() == ["shared"]
