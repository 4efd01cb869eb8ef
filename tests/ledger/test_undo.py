"""Backups of MEMORY.md: bounded, compared, undone."""

from pathlib import Path

import pytest

from memory_core.ledger import MemoryConfig, NothingToUndoError
from memory_core.ledger import backups as backups_module
from memory_core.ledger.backups import backups
from memory_core.ledger.disk import locked
from memory_core.testing import FakeClock
from memory_core.testing.model import FakeModel

from .texts import Make, memory, union, write_day


async def test_backups_are_bounded(
    make: Make, tmp_path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backups_module, "KEEP", 3)
    for day in range(1, 8):
        write_day(tmp_path, f"2026-05-0{day}", f"- fact {day}\n")
        clock.advance(minutes=1)
        await make(FakeModel(union)).consolidate()
    folder = tmp_path / "memory" / ".backups"
    assert len(list(folder.glob("*.json"))) == 3
    assert len(list(folder.glob("*.md"))) == 3
    assert "fact 6" in (backups(make().places)[0].data or b"").decode()


async def test_diff_and_undo(make: Make, tmp_path: Path, clock: FakeClock) -> None:
    ledger = make(FakeModel(union))
    with pytest.raises(NothingToUndoError, match="nothing has been consolidated"):
        ledger.diff()
    with pytest.raises(NothingToUndoError):
        ledger.undo()
    (tmp_path / "MEMORY.md").write_text("# Memory\n\n- 手写的\n", "utf-8")
    write_day(tmp_path, "2026-06-01", "- tea\n")
    await ledger.consolidate()
    assert "+- tea" in ledger.diff()
    assert " - 手写的" in ledger.diff()
    clock.advance(minutes=1)
    assert ledger.undo().data == "# Memory\n\n- 手写的\n".encode()
    assert memory(tmp_path) == "# Memory\n\n- 手写的\n"
    result = await ledger.consolidate()  # the ledger counts as new again: an undo loses no fact
    assert result.files == ("2026-06-01.md",)


async def test_undo_brings_back_that_there_was_nothing(make: Make, tmp_path: Path, clock: FakeClock) -> None:
    ledger = make(FakeModel(union))
    write_day(tmp_path, "2026-06-01", "- tea\n")
    await ledger.consolidate()
    clock.advance(minutes=1)
    assert ledger.undo().data is None
    assert not (tmp_path / "MEMORY.md").exists()
    assert any(backup.data and b"tea" in backup.data for backup in backups(ledger.places))  # what was undone is kept
    assert (await ledger.consolidate()).files == ("2026-06-01.md",)


async def test_undo_does_not_drop_a_later_edit(make: Make, tmp_path: Path, clock: FakeClock) -> None:
    ledger = make(FakeModel(union))
    (tmp_path / "MEMORY.md").write_text("- before\n", "utf-8")
    write_day(tmp_path, "2026-06-01", "- tea\n")
    await ledger.consolidate()
    with (tmp_path / "MEMORY.md").open("a", encoding="utf-8") as file:
        file.write("- my edit\n")
    with pytest.raises(NothingToUndoError, match="edited after"):
        ledger.undo()
    assert "my edit" in memory(tmp_path)
    clock.advance(minutes=1)
    ledger.undo(force=True)
    assert memory(tmp_path) == "- before\n"
    assert any(b"my edit" in (backup.data or b"") for backup in backups(ledger.places))


async def test_undo_waits_for_no_running_consolidation(make: Make, tmp_path: Path) -> None:
    ledger = make(FakeModel(union))
    write_day(tmp_path, "2026-06-01", "- tea\n")
    await ledger.consolidate()
    with locked(ledger.places, ".consolidation.lock"), pytest.raises(OSError, match="is running"):
        ledger.undo()


async def test_damaged_backups_are_passed_over(make: Make, tmp_path: Path, clock: FakeClock) -> None:
    ledger = make(FakeModel(union))
    for day in (1, 2):
        write_day(tmp_path, f"2026-06-0{day}", f"- fact {day}\n")
        clock.advance(minutes=1)
        await ledger.consolidate()
    newest = sorted((tmp_path / "memory" / ".backups").glob("*.json"))[-1]
    newest.write_text("{", "utf-8")
    assert len(backups(ledger.places)) == 1


@pytest.mark.parametrize(("before", "keep"), [(2, 20), (5, 3)])
async def test_a_clock_that_was_set_back_does_not_change_what_undo_brings_back(
    make: Make, tmp_path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, before: int, keep: int
) -> None:
    monkeypatch.setattr(backups_module, "KEEP", keep)
    ledger = make(FakeModel(union))
    for day in range(1, before + 1):
        write_day(tmp_path, f"2026-06-0{day}", f"- fact {day}\n")
        clock.advance(minutes=1)
        await ledger.consolidate()
    replaced = memory(tmp_path)
    clock.advance(days=-30)
    write_day(tmp_path, "2026-06-09", "- fact 9\n")
    done = await ledger.consolidate()
    assert done.backup is not None
    assert (tmp_path / done.backup).read_text("utf-8") == replaced
    ledger.undo()
    assert memory(tmp_path) == replaced


async def test_a_memory_beyond_its_limit_is_reported(make: Make, tmp_path: Path) -> None:
    (tmp_path / "MEMORY.md").write_text("- word\n" * 500, "utf-8")
    ledger = make(config=MemoryConfig(consolidation_max_tokens=100))
    assert any(problem.code == "memory-md-size" for problem in ledger.problems())
