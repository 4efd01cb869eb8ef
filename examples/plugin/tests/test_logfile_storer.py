"""The store against the contract suite that `memory-talent` ships."""

from collections.abc import Callable
from pathlib import Path

import pytest
from memory_storer_logfile.storer import LogfileStorer

from memory_core.contracts import Clock
from memory_core.testing import FakeClock, StorerContract, make_entry

OpenStorer = Callable[[Clock], LogfileStorer]


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    return {scope: tmp_path / scope / "memories.jsonl" for scope in ("user", "workspace")}


class TestLogfileStorer(StorerContract):
    @pytest.fixture
    def open_storer(self, files: dict[str, Path]) -> OpenStorer:
        return lambda clock: LogfileStorer(files, clock=clock)


def test_half_a_line_of_a_crash_is_cut_off(files: dict[str, Path]) -> None:
    clock = FakeClock()
    storer = LogfileStorer(files, clock=clock)
    storer.put(make_entry("one", "kept"))
    with files["workspace"].open("ab") as file:
        file.write(b'{"put": {"key": "half')
    assert [entry.id.key for entry in LogfileStorer(files, clock=clock).scan()] == ["one"]
    storer.put(make_entry("two", "after the crash"))
    assert sorted(entry.id.key for entry in LogfileStorer(files, clock=clock).scan()) == ["one", "two"]


def test_a_broken_line_is_reported_and_stops_nothing(files: dict[str, Path]) -> None:
    storer = LogfileStorer(files, clock=FakeClock())
    storer.put(make_entry("one", "kept"))
    with files["workspace"].open("ab") as file:
        file.write(b"not a change\n")
    storer.put(make_entry("two", "kept too"))
    assert len(list(storer.scan())) == 2
    assert [problem.code for problem in storer.problems()] == ["broken-line"]


def test_a_file_that_was_replaced_is_read_anew(files: dict[str, Path]) -> None:
    storer = LogfileStorer(files, clock=FakeClock())
    storer.put(make_entry("one", "gone"))
    files["workspace"].unlink()
    assert list(storer.scan()) == []
    LogfileStorer(files, clock=FakeClock()).put(make_entry("two", "new"))
    assert [entry.id.key for entry in storer.scan()] == ["two"]
