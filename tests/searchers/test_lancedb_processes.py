"""Several processes, killed ones, and forked ones, on one table and one store."""

import multiprocessing
import os
import subprocess
import sys
import textwrap
import time
import warnings
from pathlib import Path

from memory_core.errors import IndexUnavailableError
from memory_core.model import ChangeBatch

from ._vectors import NOW, entry, keys, open_searcher, query

SHARED = """
import sys, time
from pathlib import Path
from datetime import UTC, datetime
from memory_core.solution import StandardSolution
from memory_storer_markdown.storer import MarkdownStorer
from memory_core.clock import SystemClock
from tests.searchers._vectors import open_searcher

def open_solution(folder, buffer_rows):
    storer = MarkdownStorer({"workspace": folder / "memory"}, clock=SystemClock(), fsync=False)
    return StandardSolution(storer, open_searcher(folder / "index", buffer_rows=buffer_rows), ["workspace"])
"""
ROOT = Path(__file__).parents[2]
KILLS = 20 if os.environ.get("MEMORY_CORE_SOAK") else 3


def start(body: str, *arguments: object) -> "subprocess.Popen[str]":
    code = SHARED + textwrap.dedent(body)
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )


WRITER = """
folder, name, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
solution = open_solution(folder, 4)
for n in range(count):
    solution.remember(f"{name}-{n}", f"memory number{n} of {name}")
    hits = solution.search(f"memory number{n} of {name}", top_k=1)
    assert [hit.entry.id.key for hit in hits] == [f"{name}-{n}"], hits
    print(n, flush=True)
solution.close()
"""


def test_two_processes_write_and_search_at_once(tmp_path: Path) -> None:
    processes = [start(WRITER, tmp_path, name, 25) for name in ("one", "two")]
    for process in processes:
        process.communicate(timeout=120)
    assert [process.returncode for process in processes] == [0, 0]
    check = start(
        """
        solution = open_solution(Path(sys.argv[1]), 4)
        found = solution.search("memory number3 of one and two", top_k=100)
        assert len(found) == len({hit.entry.id for hit in found}) == 50, len(found)
        solution.searcher.flush()
        rows = solution.searcher._table.read(lambda table: table.count_rows())
        assert rows == 51, rows  # and the cursor
        solution.close()
        """,
        tmp_path,
    )
    check.communicate(timeout=60)
    assert check.returncode == 0


def test_a_killed_writer_loses_nothing(tmp_path: Path) -> None:
    acknowledged = -1
    for turn in range(KILLS):
        process = start(WRITER, tmp_path, f"turn{turn}", 10_000)
        assert process.stdout is not None
        for line in process.stdout:
            acknowledged = int(line)
            if acknowledged >= 9 + 4 * (turn % 3):
                break
        process.kill()
        process.communicate()
    check = start(
        """
        solution = open_solution(Path(sys.argv[1]), 4)
        for turn in range(int(sys.argv[2])):
            for n in range(10 + 4 * (turn % 3)):
                text = f"memory number{n} of turn{turn}"
                assert solution.search(text, top_k=1)[0].entry.content == text
        count = len(solution.search("memory", top_k=100_000))
        assert count == len(list(solution.storer.scan())), count
        solution.close()
        """,
        tmp_path,
        KILLS,
    )
    check.communicate(timeout=120)
    assert check.returncode == 0


def test_catching_up_after_an_hour_away(tmp_path: Path) -> None:
    away = open_searcher(tmp_path)
    away.apply(ChangeBatch([entry("a", "apple")], [], "c1", complete=True), "u")
    away.close()
    other = open_searcher(tmp_path)
    other.apply(ChangeBatch([entry(f"k{n}", f"pear {n}") for n in range(300)], [entry("a", "x").id], "c2"), "u")
    other.close()
    back = open_searcher(tmp_path)
    assert back.cursor("u") == "c2"
    assert "a" not in keys(back.search(query("apple", top_k=400)))
    assert len(back.list_all("u", 999, now=NOW)) == 300
    back.close()


def test_a_forked_child_is_told_so(tmp_path: Path) -> None:
    searcher = open_searcher(tmp_path)
    searcher.update_index(entry("a", "apple"))
    searcher.flush()
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # LanceDB and CPython warn of forks with threads: that is what is tested
        child = os.fork()
    if child == 0:
        try:
            searcher.search(query("apple"))
            os.write(write, b"no error")
        except IndexUnavailableError as error:
            os.write(write, str(error).encode())
        finally:
            os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    with os.fdopen(read, "rb") as answer:
        text = answer.read().decode()
    assert "forked" in text
    assert "spawn" in text
    assert keys(searcher.search(query("apple"))) == ["a"]
    searcher.close()


def _spawned(folder: Path) -> None:
    searcher = open_searcher(folder)
    assert keys(searcher.search(query("apple"))) == ["a"]
    searcher.close()


def test_a_spawned_child_searches(tmp_path: Path) -> None:
    searcher = open_searcher(tmp_path)
    searcher.update_index(entry("a", "apple"))
    searcher.flush()
    process = multiprocessing.get_context("spawn").Process(target=_spawned, args=(tmp_path,))
    process.start()
    process.join(60)
    assert process.exitcode == 0
    searcher.close()


def test_a_dead_process_s_lock_is_no_lock(tmp_path: Path) -> None:
    holder = start(
        """
        from filelock import FileLock
        lock = FileLock(sys.argv[1]); lock.acquire()
        print("held", flush=True); time.sleep(60)
        """,
        tmp_path / "write.lock",
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    holder.kill()
    holder.communicate()
    searcher = open_searcher(tmp_path, lock_timeout_s=30)
    began = time.monotonic()
    searcher.update_index(entry("a", "apple"))
    searcher.flush()
    assert time.monotonic() - began < 25  # far below the timeout: nothing was waited for
    assert (tmp_path / "table").exists()
    searcher.close()
