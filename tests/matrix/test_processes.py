"""Two processes at once, and one that is killed: nothing acknowledged is lost, nothing is there twice."""

import signal

import pytest

from memory_core.clock import SystemClock

from .pairs import Pair, found_keys

WRITE_AND_SEARCH = """
name, count = sys.argv[3], int(sys.argv[4])
for number in range(count):
    solution.remember(f"{name}-{number}", f"记忆 fact{number} told by {name}")
    keys = [hit.entry.id.key for hit in solution.search(f"fact{number} told by {name}", top_k=1_000)]
    assert f"{name}-{number}" in keys, keys
    assert len(keys) == len(set(keys)), keys
    if number % 3 == 0:
        solution.forget(f"{name}-{number}")
        keys = [hit.entry.id.key for hit in solution.search(f"fact{number} told by {name}", top_k=1_000)]
        assert f"{name}-{number}" not in keys, keys
    print(number, flush=True)
provider.close()
"""
WRITE_FOR_EVER = """
import itertools
for number in itertools.count():
    solution.remember(f"key-{number}", f"fact{number} told once")
    print(number, flush=True)
    if number % 2:
        solution.search(f"fact{number}", top_k=3)
"""


@pytest.mark.soak
def test_two_processes_write_and_search_at_once(pair: Pair) -> None:
    count = 9
    running = [pair.process(WRITE_AND_SEARCH, name, count) for name in ("one", "two")]
    outputs = [process.communicate(timeout=120) for process in running]
    assert [process.returncode for process in running] == [0, 0], outputs
    expected = {f"{name}-{number}" for name in ("one", "two") for number in range(count) if number % 3}
    solution = pair.open(clock=SystemClock())
    keys = found_keys(solution.search("记忆 fact told by one two", top_k=1_000))
    assert len(keys) == len(set(keys))
    assert set(keys) <= expected
    everything = [entry.id.key for entry in solution.list_all(limit=1_000)]
    assert sorted(everything) == sorted(expected)
    for key in expected:
        name, number = key.split("-")
        assert key in found_keys(solution.search(f"fact{number} told by {name}", top_k=1_000))


@pytest.mark.soak
def test_a_killed_writer_loses_nothing_that_it_acknowledged(pair: Pair) -> None:
    acknowledged: set[int] = set()
    process = pair.process(WRITE_FOR_EVER)
    assert process.stdout is not None
    for _ in range(12):
        line = process.stdout.readline()
        assert line, "the writer died by itself"
        acknowledged.add(int(line))
    process.send_signal(signal.SIGKILL)
    rest, _ = process.communicate(timeout=30)
    acknowledged |= {int(line) for line in rest.splitlines(keepends=True) if line.endswith("\n")}
    solution = pair.open(clock=SystemClock())
    for number in acknowledged:
        entry = solution.recall(f"key-{number}")
        assert entry is not None
        assert entry.content == f"fact{number} told once"
        assert f"key-{number}" in found_keys(solution.search(f"fact{number} told once", top_k=1_000))
    stored = {entry.id.key for entry in solution.storer.scan("shared")}
    keys = found_keys(solution.search("fact told once", top_k=1_000))
    assert len(keys) == len(set(keys))
    assert set(keys) <= stored, "no ghosts"
    assert {entry.id.key for entry in solution.list_all(limit=1_000)} == stored
    assert len(stored - {f"key-{number}" for number in acknowledged}) <= 1, "at most the write that was under way"
