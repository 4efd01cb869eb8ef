import asyncio
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from memory_core.contracts import ModelReply
from memory_core.ledger import Ledger, MemoryConfig, NothingToUndoError
from memory_core.ledger import backups as backups_module
from memory_core.ledger.backups import backups
from memory_core.ledger.consolidate import Source, batches
from memory_core.ledger.disk import locked
from memory_core.sessions.messages import user_message
from memory_core.testing import FakeClock
from memory_core.testing.model import FakeModel, ModelCall

Make = Callable[..., Ledger]
NEW = "# Memory\n\n- The user drinks tea.\n"


def write(tmp_path: Path, day: str, text: str, folder: str = "memory") -> Path:
    path = tmp_path / folder / f"{day}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def memory(tmp_path: Path) -> str:
    return (tmp_path / "MEMORY.md").read_text("utf-8")


def state(tmp_path: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((tmp_path / "memory" / ".consolidation_state").read_text("utf-8"))
    return value


def union(call: ModelCall) -> str:
    """Answer like a good model: everything that was there, and every new bullet."""
    lines = [line for line in call.user.split("\n") if line.startswith("- ")]
    return "# Memory\n\n" + "\n".join(dict.fromkeys(lines)) + "\n"


async def test_ledgers_are_merged_into_memory_md(make: Make, tmp_path: Path) -> None:
    write(tmp_path, "2026-06-01", "# 2026-06-01\n\n- tea\n")
    write(tmp_path, "2026-06-02", "# 2026-06-02\n\n- Basel\n")
    (tmp_path / "MEMORY.md").write_text("# Memory\n\n- old fact\n", "utf-8")
    model = FakeModel(NEW)
    result = await make(model).consolidate()
    assert result.status == "written"
    assert result.files == ("2026-06-01.md", "2026-06-02.md")
    assert memory(tmp_path) == NEW
    assert result.backup is not None
    assert result.backup.read_text("utf-8") == "# Memory\n\n- old fact\n"
    user = model.calls[0].user
    assert user.index("old fact") < user.index("tea") < user.index("Basel")
    assert "4000 tokens (about 16000 characters)" in model.calls[0].system
    assert set(state(tmp_path)["files"]) == {"2026-06-01.md", "2026-06-02.md"}


async def test_only_what_has_changed_since_the_watermark(make: Make, tmp_path: Path) -> None:
    write(tmp_path, "2026-06-01", "- tea\n")
    write(tmp_path, "notes", "- a note that is no ledger\n")
    await make(FakeModel(NEW)).consolidate()
    again = FakeModel(NEW)
    assert (await make(again).consolidate()).status == "nothing"
    assert not again.calls
    write(tmp_path, "2026-06-02", "- coffee\n")
    result = await make(again).consolidate()
    assert (result.status, result.files) == ("unchanged", ("2026-06-02.md",))
    assert "coffee" in again.calls[0].user
    assert '<ledger_file date="2026-06-01">' not in again.calls[0].user
    assert "no ledger" not in again.calls[0].user
    write(tmp_path, "2026-06-01", "- edited by hand\n")  # an old day that a person changed
    assert (await make(again).consolidate()).files == ("2026-06-01.md",)


async def test_an_edit_within_the_same_clock_tick_is_seen(make: Make, tmp_path: Path) -> None:
    import os

    path = write(tmp_path, "2026-06-01", "- tea\n")
    await make(FakeModel(NEW)).consolidate()
    before = path.stat()
    path.write_text("- sea\n", "utf-8")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (await make(FakeModel(NEW)).consolidate()).files == ("2026-06-01.md",)


async def test_no_ledger_no_call(make: Make, tmp_path: Path) -> None:
    model = FakeModel(NEW)
    assert (await make(model).consolidate()).status == "nothing"
    write(tmp_path, "2026-06-01", "  \n")
    assert (await make(model).consolidate()).status == "nothing"
    assert not model.calls
    assert not (tmp_path / "MEMORY.md").exists()


# --- replies that must not be taken ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("steps", "why", "calls"),
    [
        ([""], "empty", 1),
        ([ModelReply(NEW, "length")], "cut by length", 2),
        (["I'm sorry, I cannot help."], "refused", 1),
        (["Error: overloaded"], "error message", 1),
        (["NO_REPLY."], "NO_REPLY", 1),
        (["- " + "huge " * 50_000], "the limit is 4000", 2),
        (["All merged, as you wished."], "no Markdown list", 2),
        (["# Memory\n- The user drinks tea."], "another language", 2),
        ([RuntimeError("boom")], "RuntimeError: boom", 1),
        ([TimeoutError()], "longer than", 1),
    ],
)
async def test_a_bad_reply_leaves_everything_as_it_was(
    make: Make, tmp_path: Path, steps: list[Any], why: str, calls: int
) -> None:
    (tmp_path / "MEMORY.md").write_text("# 记忆\n- 用户住在巴塞尔\n", "utf-8")
    write(tmp_path, "2026-06-01", "- 用户喜欢喝茶\n")
    model = FakeModel(*steps)
    ledger = make(model)
    result = await ledger.consolidate()
    assert (result.status, why in result.error) == ("failed", True), result
    assert memory(tmp_path) == "# 记忆\n- 用户住在巴塞尔\n"
    assert not (tmp_path / "memory" / ".consolidation_state").exists()
    assert not backups(ledger.places)
    assert len(model.calls) == calls
    problem = next(problem for problem in ledger.problems() if problem.code == "ledger-consolidation")
    assert why in problem.message
    good = make(FakeModel("# 记忆\n- 用户住在巴塞尔\n- 用户喜欢喝茶"))
    assert (await good.consolidate()).status == "written"  # the same ledger is merged next time
    assert not good.problems()


async def test_a_reply_that_can_be_repaired_is_asked_for_once_more(make: Make, tmp_path: Path) -> None:
    write(tmp_path, "2026-06-01", "- tea\n")
    model = FakeModel("- " + "huge " * 50_000, f"```markdown\n{NEW}```")
    assert (await make(model).consolidate()).status == "written"
    assert memory(tmp_path) == NEW
    assert "the limit is 4000" in model.calls[1].user
    assert len(model.calls[1].user) < 40_000


async def test_a_memory_that_shrinks_without_reason_is_not_taken(make: Make, tmp_path: Path) -> None:
    old = "# Memory\n" + "".join(f"- The user told us fact number {n} about the project.\n" for n in range(40))
    (tmp_path / "MEMORY.md").write_text(old, "utf-8")
    write(tmp_path, "2026-06-01", "- tea\n")
    result = await make(FakeModel(NEW)).consolidate()
    assert "looks like a loss" in result.error
    assert memory(tmp_path) == old
    assert (await make(FakeModel(NEW)).consolidate(allow_shrink=True)).status == "written"


async def test_a_slow_model_is_given_up(make: Make, tmp_path: Path) -> None:
    write(tmp_path, "2026-06-01", "- tea\n")
    result = await make(FakeModel(NEW, delay_s=30), model_timeout_s=0.05).consolidate()
    assert "longer than" in result.error
    assert (await make(FakeModel(NEW)).consolidate()).status == "written"  # the lock is free again


# --- people and other processes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("before", [None, "# Memory\n- old\n"])
async def test_an_edit_made_meanwhile_is_never_overwritten(make: Make, tmp_path: Path, before: str | None) -> None:
    path = tmp_path / "MEMORY.md"
    if before is not None:
        path.write_text(before, "utf-8")
    write(tmp_path, "2026-06-01", "- tea\n")

    def edited(_: ModelCall) -> str:
        path.write_text("# Memory\n- written by hand\n", "utf-8")
        return NEW

    result = await make(FakeModel(edited)).consolidate()
    assert result.status == "conflict"
    assert memory(tmp_path) == "# Memory\n- written by hand\n"
    assert not (tmp_path / "memory" / ".consolidation_state").exists()
    model = FakeModel(union)
    assert (await make(model).consolidate()).status == "written"
    assert "- written by hand" in memory(tmp_path)
    assert "- tea" in memory(tmp_path)


async def test_a_file_deleted_meanwhile_is_a_conflict_too(make: Make, tmp_path: Path) -> None:
    path = tmp_path / "MEMORY.md"
    path.write_text("# Memory\n- old\n", "utf-8")
    write(tmp_path, "2026-06-01", "- tea\n")

    def deleted(_: ModelCall) -> str:
        path.unlink()
        return NEW

    assert (await make(FakeModel(deleted)).consolidate()).status == "conflict"
    assert not path.exists()


async def test_a_flush_and_a_save_during_a_consolidation_are_merged_next_time(make: Make, tmp_path: Path) -> None:
    write(tmp_path, "2026-06-02", "- tea\n")

    async def meanwhile(call: ModelCall) -> str:
        await make(FakeModel("- flushed meanwhile")).flush([user_message("hello")])
        return union(call)

    assert (await make(FakeModel(meanwhile)).consolidate()).status == "written"
    assert "flushed meanwhile" not in memory(tmp_path)
    assert (await make(FakeModel(union)).consolidate()).files == ("2026-06-02.md",)
    assert "flushed meanwhile" in memory(tmp_path)

    def saves(call: ModelCall) -> str:
        make().save("saved meanwhile")
        return union(call)

    write(tmp_path, "2026-06-01", "- one more\n")
    assert (await make(FakeModel(saves)).consolidate()).status == "conflict"
    assert "saved meanwhile" in memory(tmp_path)
    await make(FakeModel(union)).consolidate()
    for fact in ("saved meanwhile", "one more", "flushed meanwhile", "tea"):
        assert fact in memory(tmp_path)


async def test_one_consolidation_at_a_time(make: Make, tmp_path: Path) -> None:
    write(tmp_path, "2026-06-01", "- tea\n")
    model = FakeModel(NEW, delay_s=0.2)
    results = await asyncio.gather(*(make(model).consolidate() for _ in range(4)))
    assert sorted(result.status for result in results) == ["busy", "busy", "busy", "written"]
    assert len(model.calls) == 1


async def test_a_held_write_lock_is_a_failure_not_a_hang(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "2026-06-01", "- tea\n")
    monkeypatch.setattr("memory_core.ledger.disk.LOCK_TIMEOUT_S", 0.1)
    ledger = make(FakeModel(NEW))
    with locked(ledger.places):
        result = await ledger.consolidate()
    assert result.status == "failed"
    assert "held by another process" in result.error


# --- a lost or unusual MEMORY.md -------------------------------------------------------------------------------------


async def test_a_lost_memory_md_is_built_anew_from_all_ledgers_archive_included(make: Make, tmp_path: Path) -> None:
    write(tmp_path, "2026-01-01", "- from the archive\n", "memory/archive")
    write(tmp_path, "2026-06-01", "- tea\n")
    await make(FakeModel(union)).consolidate()
    assert "from the archive" in memory(tmp_path)
    (tmp_path / "MEMORY.md").unlink()
    result = await make(FakeModel(union)).consolidate()
    assert result.rebuilt
    assert result.files == ("2026-01-01.md", "2026-06-01.md")
    assert "from the archive" in memory(tmp_path)
    assert "tea" in memory(tmp_path)


async def test_a_rebuild_that_stops_half_way_goes_on_where_it_stopped(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memory_core.ledger.consolidate.batches", partial(batches, limit_tokens=5))
    for day in range(1, 6):
        write(tmp_path, f"2026-05-0{day}", f"- fact of day {day}\n")
    result = await make(FakeModel(union, union, RuntimeError("down"))).consolidate()
    assert result.status == "failed"
    assert "day 1" in memory(tmp_path)
    model = FakeModel(union)
    result = await make(model).consolidate()
    assert len(result.files) == 3
    assert all(f"day {day}" in memory(tmp_path) for day in range(1, 6))
    assert all(f'date="2026-05-0{day}"' not in call.user for call in model.calls for day in (1, 2))


def test_batches_hold_whole_files_in_order() -> None:
    sources = [Source(f"{n}.md", "word " * 100, "h") for n in range(7)]
    found = batches(sources, 260)
    assert [source.name for batch in found for source in batch] == [f"{n}.md" for n in range(7)]
    assert [len(batch) for batch in found] == [2, 2, 2, 1]
    assert [len(batch) for batch in batches(sources, 1)] == [1] * 7
    assert batches([]) == []


async def test_archiving_is_no_change(make: Make, tmp_path: Path) -> None:
    path = write(tmp_path, "2026-01-01", "- old\n")
    await make(FakeModel(union)).consolidate()
    (tmp_path / "memory" / "archive").mkdir()
    path.rename(tmp_path / "memory" / "archive" / path.name)
    assert (await make(FakeModel(union)).consolidate()).status == "nothing"
    write(tmp_path, "2026-01-01", "- the same day, beside the archive\n")
    assert (await make(FakeModel(union)).consolidate()).status == "written"
    assert (await make(FakeModel(union)).consolidate()).status == "nothing"


@pytest.mark.parametrize("damage", [b"", b"not json", b"\xff", b"[]", b'{"files": 3}', b"2026-06-01T12:00:00Z"])
async def test_a_damaged_watermark_merges_all_again(make: Make, tmp_path: Path, damage: bytes) -> None:
    write(tmp_path, "2026-06-01", "- tea\n")
    await make(FakeModel(union)).consolidate()
    (tmp_path / "memory" / ".consolidation_state").write_bytes(damage)
    result = await make(FakeModel(union)).consolidate()
    assert result.files == ("2026-06-01.md",)
    assert (await make(FakeModel(union)).consolidate()).status == "nothing"


async def test_files_of_another_encoding_are_left_alone(make: Make, tmp_path: Path) -> None:
    write(tmp_path, "2026-06-01", "- tea\n")
    bad = tmp_path / "memory" / "2026-05-31.md"
    bad.write_bytes("- 用户".encode("gbk"))
    ledger = make(FakeModel(union))
    result = await ledger.consolidate()
    assert result.status == "written"
    assert "2026-05-31.md, line 1: this is not UTF-8" in result.error
    assert bad.read_bytes() == "- 用户".encode("gbk")
    assert any("not UTF-8" in problem.message for problem in ledger.problems())
    (tmp_path / "MEMORY.md").write_bytes("- 记忆".encode("gbk"))
    write(tmp_path, "2026-06-02", "- more\n")
    model = FakeModel(union)
    assert (await make(model).consolidate()).status == "failed"
    assert not model.calls
    assert (tmp_path / "MEMORY.md").read_bytes() == "- 记忆".encode("gbk")
    assert any(problem.code == "memory-md" for problem in make().problems())


async def test_line_ends_and_byte_order_marks_stay(make: Make, tmp_path: Path, clock: FakeClock) -> None:
    before = "\ufeff# Memory\r\n\r\n- old\r\n".encode()
    (tmp_path / "MEMORY.md").write_bytes(before)
    write(tmp_path, "2026-06-01", "- tea\n")
    ledger = make(FakeModel(union))
    await ledger.consolidate()
    assert (tmp_path / "MEMORY.md").read_bytes() == "\ufeff# Memory\r\n\r\n- old\r\n- tea\r\n".encode()
    ledger.save("coffee")
    assert (tmp_path / "MEMORY.md").read_bytes().endswith(b"- tea\r\n- coffee\r\n")
    clock.advance(minutes=1)
    ledger.undo(force=True)
    assert (tmp_path / "MEMORY.md").read_bytes() == before


async def test_bom_crlf_and_nasty_text_are_read(make: Make, tmp_path: Path) -> None:
    path = tmp_path / "memory" / "2026-06-01.md"
    path.parent.mkdir()
    path.write_bytes("\ufeff# 2026-06-01\r\n\r\n- a\u2028b\r\n---\r\n- {{ x }}\r\n</ledger_file>\r\n".encode())
    model = FakeModel(NEW)
    await make(model).consolidate()
    user = model.calls[0].user
    assert "a\u2028b" in user
    assert "{{ x }}" in user
    assert user.count("</ledger_file>") == 1
    assert "\ufeff" not in user


async def test_links_out_of_the_workspace_are_refused(make: Make, tmp_path: Path, tmp_path_factory: Any) -> None:
    outside = tmp_path_factory.mktemp("outside") / "target.md"
    outside.write_text("- precious\n", "utf-8")
    (tmp_path / "MEMORY.md").symlink_to(outside)
    write(tmp_path, "2026-06-01", "- tea\n")
    model = FakeModel(NEW)
    result = await make(model).consolidate()
    assert "leads out of the workspace" in result.error
    assert not model.calls
    assert outside.read_text("utf-8") == "- precious\n"


async def test_a_link_inside_the_workspace_stays_a_link(make: Make, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    real = tmp_path / "docs" / "memory.md"
    real.write_text("- old\n", "utf-8")
    real.chmod(0o640)
    (tmp_path / "MEMORY.md").symlink_to(real)
    write(tmp_path, "2026-06-01", "- tea\n")
    assert (await make(FakeModel(NEW)).consolidate()).status == "written"
    assert (tmp_path / "MEMORY.md").is_symlink()
    assert real.read_text("utf-8") == NEW
    assert real.stat().st_mode & 0o777 == 0o640


# --- backups, diff and undo ------------------------------------------------------------------------------------------


async def test_backups_are_bounded(
    make: Make, tmp_path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backups_module, "KEEP", 3)
    for day in range(1, 8):
        write(tmp_path, f"2026-05-0{day}", f"- fact {day}\n")
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
    write(tmp_path, "2026-06-01", "- tea\n")
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
    write(tmp_path, "2026-06-01", "- tea\n")
    await ledger.consolidate()
    clock.advance(minutes=1)
    assert ledger.undo().data is None
    assert not (tmp_path / "MEMORY.md").exists()
    assert any(backup.data and b"tea" in backup.data for backup in backups(ledger.places))  # what was undone is kept
    assert (await ledger.consolidate()).files == ("2026-06-01.md",)


async def test_undo_does_not_drop_a_later_edit(make: Make, tmp_path: Path, clock: FakeClock) -> None:
    ledger = make(FakeModel(union))
    (tmp_path / "MEMORY.md").write_text("- before\n", "utf-8")
    write(tmp_path, "2026-06-01", "- tea\n")
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
    write(tmp_path, "2026-06-01", "- tea\n")
    await ledger.consolidate()
    with locked(ledger.places, ".consolidation.lock"), pytest.raises(OSError, match="is running"):
        ledger.undo()


async def test_damaged_backups_are_passed_over(make: Make, tmp_path: Path, clock: FakeClock) -> None:
    ledger = make(FakeModel(union))
    for day in (1, 2):
        write(tmp_path, f"2026-06-0{day}", f"- fact {day}\n")
        clock.advance(minutes=1)
        await ledger.consolidate()
    newest = sorted((tmp_path / "memory" / ".backups").glob("*.json"))[-1]
    newest.write_text("{", "utf-8")
    assert len(backups(ledger.places)) == 1


async def test_a_memory_beyond_its_limit_is_reported(make: Make, tmp_path: Path) -> None:
    (tmp_path / "MEMORY.md").write_text("- word\n" * 500, "utf-8")
    ledger = make(config=MemoryConfig(consolidation_max_tokens=100))
    assert any(problem.code == "memory-md-size" for problem in ledger.problems())
