"""Many processes and killed ones: every acknowledged entry is there, nothing is half there, the feed agrees."""

import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from memory_core.model import MemoryId
from memory_core.solution import StandardSolution
from memory_core.testing import FakeClock, make_entry
from memory_core.testing.follower import Follower
from memory_searcher_fulltext.searcher import FulltextSearcher
from memory_storer_markdown.manifest import STATE_DIR
from memory_storer_markdown.storer import MarkdownStorer

ROOT = Path(__file__).resolve().parents[2]
posix = pytest.mark.skipif(os.name != "posix", reason="needs fork and signals")
ROUNDS = 50 if os.environ.get("MEMORY_CORE_SOAK") else 10

WRITER = """
import sys
from memory_core.testing import make_entry
from memory_storer_markdown.storer import MarkdownStorer
storer = MarkdownStorer({"workspace": sys.argv[1]}, fsync=sys.argv[5] == "fsync")
for number in range(int(sys.argv[3]), int(sys.argv[4])):
    storer.put(make_entry(f"w{sys.argv[2]}-{number}", f"content {number} " + "x" * (number % 50) * 40, user=f"u{number % 3}"))
    print(number, flush=True)
"""


def writer(root: Path, name: str, start: int, stop: int, sync: str = "no") -> "subprocess.Popen[str]":
    arguments = [sys.executable, "-c", WRITER, str(root), name, str(start), str(stop), sync]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, cwd=ROOT)


def open_storer(root: Path) -> MarkdownStorer:
    return MarkdownStorer({"workspace": root}, fsync=False)


def keys(storer: MarkdownStorer) -> list[str]:
    return sorted(entry.id.key for entry in storer.scan())


def agrees(storer: MarkdownStorer) -> bool:
    """Whether feed, scan and files say the same."""
    for user in storer.users():
        follower = Follower(storer, user, page=100)
        follower.follow()
        if follower.entries != {entry.id: entry for entry in storer.scan(user)}:
            return False
    return True


def test_four_processes_write_side_by_side(tmp_path: Path) -> None:
    storer = open_storer(tmp_path)
    followers = [Follower(storer, f"u{n}", page=50) for n in range(3)]
    writers = [writer(tmp_path, str(n), 0, 250) for n in range(4)]
    while any(process.poll() is None for process in writers):
        for follower in followers:
            follower.follow()
        time.sleep(0.05)
    for process in writers:
        output, _ = process.communicate()
        assert process.returncode == 0
        assert len(output.split()) == 250
    expected = sorted(f"w{n}-{number}" for n in range(4) for number in range(250))
    assert keys(storer) == expected
    for follower in followers:
        follower.follow()
    assert sorted(id.key for follower in followers for id in follower.entries) == expected
    assert all(follower.completes <= 2 for follower in followers)  # one more when the directory appeared
    assert storer.problems() == []
    assert agrees(storer)
    storer.close()


def test_four_processes_overwrite_one_key(tmp_path: Path) -> None:
    code = WRITER.replace("w{sys.argv[2]}-{number}", "k").replace("u{number % 3}", "u")
    started = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path), str(n), "0", "60", "no"], stdout=subprocess.DEVNULL, cwd=ROOT
        )
        for n in range(4)
    ]
    assert [process.wait() for process in started] == [0] * 4
    storer = open_storer(tmp_path)
    assert keys(storer) == ["k"]
    assert len(list(tmp_path.rglob("k*.md"))) == 1
    assert list((tmp_path / STATE_DIR / "tmp").iterdir()) == []
    storer.close()


@posix
@pytest.mark.parametrize("sync", ["fsync", "no"])
def test_killed_at_any_moment_every_acknowledged_entry_is_there(tmp_path: Path, sync: str) -> None:
    """ROUNDS times: a writer is killed in the middle; what it had acknowledged is whole, nothing is half."""
    chance = random.Random(sync)
    acknowledged: set[str] = set()
    survivor = open_storer(tmp_path)
    solution = StandardSolution(survivor, FulltextSearcher(), ["workspace"])
    for round_ in range(ROUNDS if sync == "no" else max(3, ROUNDS // 3)):
        process = writer(tmp_path, str(round_), 0, 10_000, sync)
        assert process.stdout is not None
        seen = [process.stdout.readline().strip() for _ in range(chance.randint(1, 25))]
        time.sleep(chance.random() / 200)
        os.kill(process.pid, signal.SIGKILL)
        seen += process.stdout.read().split()
        process.wait()
        process.stdout.close()
        acknowledged |= {f"w{round_}-{number}" for number in seen if number}
        assert acknowledged <= set(keys(survivor))
    again = open_storer(tmp_path)
    for storer in (survivor, again):
        found = {entry.id.key: entry.content for entry in storer.scan()}
        assert acknowledged <= set(found)
        assert all(content.startswith("content ") for content in found.values())
        assert storer.problems() == []
        assert agrees(storer)
    hits = {hit.entry.id.key for n in range(3) for hit in solution.search("content", user_id=f"u{n}", top_k=100_000)}
    assert hits == set(keys(again))
    again.close()
    solution.close()


def test_stray_temporary_files_are_no_entries_and_old_ones_are_cleaned(tmp_path: Path) -> None:
    storer = open_storer(tmp_path)
    storer.put(make_entry("k", "x"))
    storer.close()
    tmp = tmp_path / STATE_DIR / "tmp"
    old, new = tmp / "1-1-1.tmp", tmp / "2-2-2.tmp"
    for path in (old, new):
        path.write_text("---\nkey: half\n")
    long_ago = time.time() - 7200
    os.utime(old, (long_ago, long_ago))
    again = open_storer(tmp_path)
    assert keys(again) == ["k"]
    again.put(make_entry("k2", "y"))
    assert not old.exists()
    assert new.exists()
    assert again.problems() == []
    again.close()


@posix
def test_a_crash_between_file_and_manifest_is_healed(tmp_path: Path) -> None:
    """The file is in place, the manifest never heard of it: what a kill between the two leaves."""
    storer = open_storer(tmp_path)
    storer.put(make_entry("k", "old"))
    follower = Follower(storer)
    follower.follow()
    other = MarkdownStorer({"workspace": tmp_path / "elsewhere"}, fsync=False)
    other.put(make_entry("k", "new words"))
    other.put(make_entry("k2", "second"))
    other.close()
    for name in ("k.md", "k2.md"):
        os.replace(tmp_path / "elsewhere" / "shared" / name, tmp_path / "shared" / name)
    follower.follow()
    assert {id.key: entry.content for id, entry in follower.entries.items()} == {"k": "new words", "k2": "second"}
    storer.close()


# --- fork, threads, users ------------------------------------------------------------------------------------------


def _child(storer: MarkdownStorer, number: int, failed: "multiprocessing.Queue[str]") -> None:
    try:
        for place in range(20):
            storer.put(make_entry(f"c{number}-{place}", "x"))
            assert storer.get(MemoryId("workspace", "shared", f"c{number}-{place}")) is not None
        assert storer.get(MemoryId("workspace", "shared", "before")) is not None
    except BaseException as error:  # noqa: BLE001 - told to the parent
        failed.put(repr(error))


@posix
def test_a_store_survives_forking(tmp_path: Path) -> None:
    storer = open_storer(tmp_path)
    storer.put(make_entry("before", "x"))
    context = multiprocessing.get_context("fork")
    failed: multiprocessing.Queue[str] = context.Queue()
    children = [context.Process(target=_child, args=(storer, n, failed)) for n in range(3)]
    for child in children:
        child.start()
    for place in range(20):
        storer.put(make_entry(f"parent-{place}", "x"))
    for child in children:
        child.join()
        assert child.exitcode == 0
    assert failed.empty(), failed.get()
    assert len(keys(storer)) == 1 + 20 + 60
    assert agrees(storer)
    storer.close()


def test_a_scan_goes_on_while_others_write(tmp_path: Path) -> None:
    storer = open_storer(tmp_path)
    storer.put_many(make_entry(f"k{n:04}", "x") for n in range(1200))
    stop = threading.Event()

    def write() -> None:
        number = 0
        while not stop.is_set():
            storer.put(make_entry(f"new{number % 50}", "y"))
            storer.remove(MemoryId("workspace", "shared", f"new{(number - 25) % 50}"))
            number += 1

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for _ in range(3):
            found = [entry.id.key for entry in storer.scan()]
            assert len(found) == len(set(found))
            assert {f"k{n:04}" for n in range(1200)} <= set(found)
    finally:
        stop.set()
        thread.join()
    storer.close()


def test_two_users_with_alike_names_have_folders_of_their_own(tmp_path: Path) -> None:
    users = ("user", "User", "USER", "us/er", "us\\er", "us-er", "..", "user ", "user2", "CON")
    storer = MarkdownStorer({"workspace": tmp_path}, clock=FakeClock(), fsync=False)
    for user in dict.fromkeys(name.strip() for name in users):
        storer.put(make_entry("k", f"of {user}", user=user))
    for user in dict.fromkeys(name.strip() for name in users):
        assert [entry.content for entry in storer.scan(user)] == [f"of {user}"]
        assert [entry.content for entry in storer.changes(None, user).upserts] == [f"of {user}"]
    folders = [path.name for path in tmp_path.iterdir() if not path.name.startswith(".")]
    assert len({name.casefold() for name in folders}) == len(storer.users()) == 9
    storer.close()
