"""What is particular to the KV storer: one SQLite file per scope."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from memory_core.contracts import Clock
from memory_core.errors import CorruptEntryError, StorageUnavailableError, UnknownScopeError
from memory_core.model import MemoryId
from memory_core.solution import StandardSolution
from memory_core.testing import StorerContract
from memory_searcher_fulltext.searcher import FulltextSearcher
from memory_storer_kv import FILE_NAME
from memory_storer_kv import schema as kv_schema
from memory_storer_kv.storer import KvStorer
from tests.support.stores import ROOT, Follower, StillClock, entry, raw

Make = Callable[..., KvStorer]


class TestKvStorer(StorerContract):
    many = 40_000

    @pytest.fixture
    def open_storer(self, tmp_path: Path) -> Callable[[Clock], KvStorer]:
        scopes = {"user": tmp_path / "user", "workspace": tmp_path / "workspace"}
        return lambda clock: KvStorer(scopes, clock=clock)

    @pytest.fixture
    def spoil(self, tmp_path: Path) -> Callable[[MemoryId], None]:
        statement = "UPDATE entries SET body = substr(body, 1, 20) WHERE user = ? AND key = ?"

        def cut(id: MemoryId) -> None:
            raw(tmp_path / id.scope / FILE_NAME, statement, id.user_id, id.key)

        return cut

    @pytest.fixture
    def quick_storer(self, make_kv: Make) -> KvStorer:
        return make_kv(durability="normal")


# --- what is on the disk -------------------------------------------------------------------------------------------


def test_reading_makes_nothing(make_kv: Make, tmp_path: Path) -> None:
    storer = make_kv()
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


def test_an_empty_file_reads_as_an_empty_store(make_kv: Make, kv_file: Path) -> None:
    kv_file.parent.mkdir()
    kv_file.touch()
    storer = make_kv()
    assert list(storer.scan()) == []
    assert kv_file.stat().st_size == 0
    storer.put(entry("a"))
    assert [found.id.key for found in storer.scan()] == ["a"]


def test_a_read_only_folder_can_be_read_and_refuses_writes() -> None:
    """Root may write everywhere, so that another user must try, in a folder that he may enter."""
    code = """
import os, shutil, sys, tempfile
from pathlib import Path
from memory_core.errors import StorageUnavailableError
from memory_storer_kv.storer import KvStorer
from tests.support.stores import entry
place = Path(tempfile.mkdtemp())
writer = KvStorer({"workspace": place})
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
        storer = KvStorer({"workspace": place})
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


def test_a_file_deleted_under_us_is_made_anew(make_kv: Make, kv_file: Path) -> None:
    storer = make_kv()
    follower = Follower(storer)
    storer.put(entry("a"))
    follower.follow()
    for path in kv_file.parent.iterdir():
        path.unlink()
    assert list(storer.scan()) == []
    storer.put(entry("b"))
    assert [found.id.key for found in make_kv().scan()] == ["b"]
    follower.follow()
    assert follower.keys() == {"b"}


def test_a_restored_backup_is_noticed_by_followers(make_kv: Make, kv_file: Path, tmp_path: Path) -> None:
    storer = make_kv()
    follower = Follower(storer)
    storer.put(entry("a"))
    storer.close()
    backup = kv_file.read_bytes()
    storer.put(entry("b"))
    follower.follow()
    storer.close()
    restored = tmp_path / "restored"
    restored.write_bytes(backup)
    restored.rename(kv_file)
    follower.follow()
    assert follower.keys() == {"a"} == {found.id.key for found in storer.scan()}


def put_back_beside(kv_file: Path, backup: bytes) -> None:
    """The old file stays on the disk, so that its number is not given to the copy."""
    kv_file.rename(kv_file.with_name("old"))
    kv_file.write_bytes(backup)


def put_back_over(kv_file: Path, backup: bytes) -> None:
    """The copy is written into the same file, as `cp` does; so does a file system that gives its number away again."""
    time.sleep(0.2)
    inode = kv_file.stat().st_ino
    kv_file.write_bytes(backup)
    assert kv_file.stat().st_ino == inode


@pytest.mark.parametrize("put_back", [put_back_beside, put_back_over])
def test_a_restored_backup_that_was_written_to_is_noticed_by_followers(
    make_kv: Make, kv_file: Path, put_back: Callable[[Path, bytes], None]
) -> None:
    storer = make_kv()
    follower, quiet = Follower(storer), Follower(storer, "quiet")
    storer.put_many([entry("kept"), entry("removed since"), entry("k", user="quiet")])
    storer.close()
    backup = kv_file.read_bytes()
    storer.remove(entry("removed since").id)
    storer.put(entry("stored since"))
    follower.follow()
    quiet.follow()
    storer.close()
    put_back(kv_file, backup)
    first, second = make_kv(), make_kv(durability="normal")
    first.put(entry("new"))
    second.put(entry("newer"))
    first.close()
    second.close()
    again = make_kv()
    again.put(entry("newest"))
    follower.follow(again)
    assert follower.keys() == {"kept", "removed since", "new", "newer", "newest"}
    assert follower.restarts == 2
    follower.follow(again)
    assert follower.restarts == 2
    quiet.follow(again)
    assert (quiet.keys(), quiet.restarts) == ({"k"}, 1)  # nothing was lost of this one


def test_a_file_that_is_only_moved_or_closed_late_sends_no_follower_back(
    make_kv: Make, kv_file: Path, tmp_path: Path
) -> None:
    storer = make_kv()
    follower = Follower(storer)
    for number in range(3):
        storer.put(entry(f"k{number}"))
        follower.follow()
        time.sleep(0.15)
        storer.close()
    copy = tmp_path / "moved" / kv_file.name
    copy.parent.mkdir()
    copy.write_bytes(kv_file.read_bytes())
    moved = KvStorer({"user": tmp_path / "user", "workspace": copy.parent})
    moved.put(entry("k3"))
    follower.follow(moved)
    assert (len(follower.keys()), follower.restarts) == (4, 1)
    moved.close()


def test_several_that_open_a_restored_file_at_once_note_once_what_was_lost(make_kv: Make, kv_file: Path) -> None:
    storer = make_kv()
    storer.put(entry("a"))
    storer.close()
    put_back_beside(kv_file, kv_file.read_bytes())
    before = raw(kv_file, "SELECT value FROM meta WHERE name = 'lost'")
    stores = [make_kv() for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(KvStorer.put, stores, [entry(f"k{number}") for number in range(8)]))
    ((after,),) = raw(kv_file, "SELECT value FROM meta WHERE name = 'lost'")
    assert len(json.loads(after)) == len(json.loads(before[0][0]) if before else []) + 1
    numbers = [number for (number,) in raw(kv_file, "SELECT number FROM entries WHERE key != 'a'")]
    assert min(numbers) >= json.loads(after)[-1][1]


@pytest.mark.skipif(os.name == "nt", reason="links need rights on Windows")
@pytest.mark.parametrize("ending", ["", "-wal", "-shm", "-journal"])
def test_links_in_the_place_of_the_file_are_not_followed(
    make_kv: Make, kv_file: Path, tmp_path: Path, ending: str
) -> None:
    other = tmp_path / "other.sqlite3"
    raw(other, "CREATE TABLE precious(x)")
    before = other.read_bytes()
    make_kv().put(entry("a", scope="user"))
    kv_file.parent.mkdir()
    if ending:
        kv_file.touch()
    kv_file.with_name(kv_file.name + ending).symlink_to(other)
    storer = make_kv()
    for call in (lambda: storer.put(entry("a")), lambda: storer.get(entry("a").id), lambda: list(storer.scan())):
        with pytest.raises(StorageUnavailableError, match="is a link, which is not followed"):
            call()
    assert [problem.code for problem in storer.problems()] == ["kv-unavailable"]
    assert storer.get(entry("a", scope="user").id) is not None
    assert other.read_bytes() == before


def test_damage_is_named_and_nothing_is_overwritten(make_kv: Make, kv_file: Path) -> None:
    kv_file.parent.mkdir()
    kv_file.write_text("this is not a database, it is a diary\n" * 100)
    storer = make_kv()
    for call in (lambda: storer.put(entry("a")), lambda: storer.get(entry("a").id), lambda: list(storer.scan())):
        with pytest.raises(StorageUnavailableError, match="is not a memory file; move it away"):
            call()
    assert [problem.code for problem in storer.problems()] == ["kv-unavailable"]
    assert kv_file.read_text().startswith("this is not a database")


def test_a_damaged_page_is_reported(make_kv: Make, kv_file: Path) -> None:
    storer = make_kv(durability="normal")
    storer.put_many(entry(f"k{number}", "x" * 300) for number in range(500))
    storer.close()
    with kv_file.open("r+b") as handle:
        handle.seek(kv_file.stat().st_size // 2)
        handle.write(b"\xff" * 8192)
    codes = {problem.code for problem in make_kv().problems()}
    assert codes & {"kv-damaged", "kv-unavailable"}


def test_a_file_of_a_newer_version_is_left_alone(make_kv: Make, kv_file: Path) -> None:
    storer = make_kv()
    storer.put(entry("a"))
    storer.close()
    raw(kv_file, f"PRAGMA user_version = {kv_schema.VERSION + 1}")
    calls: list[Callable[[], object]] = [lambda: storer.put(entry("b")), lambda: storer.get(entry("a").id)]
    for call in calls:
        with pytest.raises(StorageUnavailableError, match="install a newer one"):
            call()


def test_a_solution_goes_on_and_mends_an_unreadable_entry_as_doctor_advises(make_kv: Make, tmp_path: Path) -> None:
    storer = make_kv()
    solution = StandardSolution(storer, FulltextSearcher(), ["user", "workspace"])
    for key, scope in (("k", "user"), ("other", "user"), ("k", "workspace")):
        solution.remember(key, f"apples of {scope}", scope=scope)
    raw(tmp_path / "workspace" / FILE_NAME, "UPDATE entries SET body = 'no JSON' WHERE key = 'k'")
    solution = StandardSolution(storer, FulltextSearcher(), ["user", "workspace"])
    assert {hit.entry.id.key for hit in solution.search("apples")} == {"k", "other"}
    assert {found.id.key for found in solution.list_all()} == {"k", "other"}
    assert {found.id.key for found in solution.hot()} == {"k", "other"}
    assert solution.search("k")[0].entry.id.scope == "user"
    assert storer.get_many([MemoryId("workspace", "shared", "k")]) == {}
    (problem,) = solution.problems()
    assert "Store this memory again" in problem.advice
    assert solution.remember("k", "apples again", scope="workspace").previous is None
    assert solution.problems() == []
    assert solution.search("k")[0].entry.content == "apples again"
    solution.close()


def test_an_unreadable_entry_is_reported_and_stops_no_other(make_kv: Make, kv_file: Path) -> None:
    storer = make_kv()
    storer.put_many([entry("a"), entry("b"), entry("c")])
    raw(kv_file, "UPDATE entries SET body = ? WHERE key = 'b'", '{"content": "torn')
    raw(kv_file, "UPDATE entries SET body = ? WHERE key = 'c'", "[1]")
    assert {found.id.key for found in storer.scan()} == {"a"}
    assert [found.id.key for found in storer.changes(None, "shared").upserts] == ["a"]
    for key in "bc":
        with pytest.raises(CorruptEntryError, match=f"memory '{key}' of 'shared'"):
            storer.get(MemoryId("workspace", "shared", key))
    assert [problem.code for problem in storer.problems()] == ["kv-unreadable-entry"] * 2


def test_the_row_decides_whose_memory_it_is(make_kv: Make, kv_file: Path) -> None:
    storer = make_kv()
    storer.put(entry("a", user="alice"))
    raw(kv_file, "UPDATE entries SET body = replace(body, 'alice', 'mallory')")
    assert [found.id.user_id for found in storer.scan()] == ["alice"]
    assert list(storer.scan("mallory")) == []


def test_no_file_can_be_made(make_kv: Make, tmp_path: Path) -> None:
    (tmp_path / "workspace").write_text("in the way")
    with pytest.raises(StorageUnavailableError, match="cannot be written"):
        make_kv().put(entry("a"))


def test_an_unknown_scope_is_refused_everywhere(make_kv: Make, tmp_path: Path) -> None:
    storer, id = make_kv(), MemoryId("workspaces", "shared", "a")
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
def test_durability_is_what_sqlite_is_told(make_kv: Make, durability: str, level: int) -> None:
    storer = make_kv(durability=durability)
    storer.put(entry("a"))
    connections = storer._files["workspace"]._connections
    with connections.writing() as db:
        assert db is not None
        assert db.execute("PRAGMA synchronous").fetchone() == (level,)
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)


# --- the change feed -----------------------------------------------------------------------------------------------


def test_followers_of_other_users_stay_where_they_are(make_kv: Make) -> None:
    storer = make_kv()
    storer.put_many([entry("a", user="alice"), entry("b", user="bob")])
    cursor = storer.changes(None, "alice").cursor
    storer.put(entry("c", user="bob"))
    storer.remove(entry("b", user="bob").id)
    after = storer.changes(cursor, "alice")
    assert not after
    assert after.cursor == cursor


def test_the_first_write_to_another_scope_does_not_send_followers_back(make_kv: Make) -> None:
    storer = make_kv()
    follower = Follower(storer)
    storer.put(entry("a"))
    follower.follow()
    storer.put(entry("b", scope="user"))
    assert follower.follow() == 1
    assert (follower.keys(), follower.restarts) == ({"a", "b"}, 1)


def test_tombstones_are_trimmed_and_late_followers_start_over(make_kv: Make, kv_file: Path) -> None:
    storer = make_kv(tombstones=20, durability="normal")
    late, timely = Follower(storer), Follower(storer)
    storer.put_many(entry(f"k{number}") for number in range(100))
    late.follow()
    timely.follow()
    for number in range(90):
        storer.remove(entry(f"k{number}").id)
        timely.follow()
    assert 20 <= len(raw(kv_file, "SELECT key FROM entries WHERE body IS NULL")) <= 22
    late.follow()
    kept = {f"k{number}" for number in range(90, 100)}
    assert late.keys() == timely.keys() == kept
    assert (late.restarts, timely.restarts) == (2, 1)


def test_a_long_first_reading_survives_removals(make_kv: Make) -> None:
    storer = make_kv(tombstones=5, durability="normal")
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
    make_kv: Make, kv_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a power failure with `durability="normal"`: the newest write is gone, and the machine was booted."""
    storer = make_kv(durability="normal")
    follower = Follower(storer)
    storer.put(entry("a"))
    storer.close()
    earlier = kv_file.read_bytes()
    storer.put(entry("lost"))
    follower.follow()
    storer.close()
    (tmp_path / "earlier").write_bytes(earlier)
    (tmp_path / "earlier").rename(kv_file)
    monkeypatch.setattr(kv_schema, "boot_id", lambda: "the next boot")
    storer.put(entry("b"))
    follower.follow()
    assert follower.keys() == {"a", "b"}


def test_a_full_writer_after_a_normal_one(make_kv: Make, kv_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loose, strict = make_kv(durability="normal"), make_kv(durability="full")
    loose.put(entry("a"))
    epoch = raw(kv_file, "SELECT value FROM meta WHERE name = 'epoch'")
    strict.put(entry("b"))
    assert raw(kv_file, "SELECT value FROM meta WHERE name = 'epoch'") == epoch
    strict.close()
    monkeypatch.setattr(kv_schema, "boot_id", lambda: "the next boot")
    strict.put(entry("c"))
    assert raw(kv_file, "SELECT value FROM meta WHERE name = 'epoch'") != epoch
    assert raw(kv_file, "SELECT value FROM meta WHERE name = 'boot'") == []


def test_users_without_memories_are_forgotten_after_a_while(
    make_kv: Make, kv_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = StillClock()
    storer = make_kv(clock=clock)
    follower = Follower(storer, "session-1")
    storer.put(entry("a", user="session-1"))
    storer.put(entry("a", user="session-2"))
    follower.follow()
    storer.remove(entry("a", user="session-1").id)
    assert storer.purge_expired(clock.now()) == 0
    assert raw(kv_file, "SELECT count(*) FROM users") == [(2,)]
    later = time.time_ns() + 91 * 86_400 * 10**9
    monkeypatch.setattr(time, "time_ns", lambda: later)
    assert storer.purge_expired(clock.now()) == 0
    assert raw(kv_file, "SELECT user FROM users") == [("session-2",)]
    assert raw(kv_file, "SELECT user FROM entries") == [("session-2",)]
    storer.put(entry("b", user="session-1"))
    follower.follow()
    assert follower.keys() == {"b"}
