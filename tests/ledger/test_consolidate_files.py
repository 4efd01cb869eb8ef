"""Consolidating what people left: a lost, linked or oddly encoded MEMORY.md, damaged watermarks."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from memory_core.ledger.consolidate import Source, batches
from memory_core.testing import FakeClock
from memory_core.testing.model import FakeModel

from .texts import Make, memory, union, write_day

NEW = "# Memory\n\n- The user drinks tea.\n"


async def test_a_lost_memory_md_is_built_anew_from_all_ledgers_archive_included(make: Make, tmp_path: Path) -> None:
    write_day(tmp_path, "2026-01-01", "- from the archive\n", "memory/archive")
    write_day(tmp_path, "2026-06-01", "- tea\n")
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
        write_day(tmp_path, f"2026-05-0{day}", f"- fact of day {day}\n")
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
    path = write_day(tmp_path, "2026-01-01", "- old\n")
    await make(FakeModel(union)).consolidate()
    (tmp_path / "memory" / "archive").mkdir()
    path.rename(tmp_path / "memory" / "archive" / path.name)
    assert (await make(FakeModel(union)).consolidate()).status == "nothing"
    write_day(tmp_path, "2026-01-01", "- the same day, beside the archive\n")
    assert (await make(FakeModel(union)).consolidate()).status == "written"
    assert (await make(FakeModel(union)).consolidate()).status == "nothing"


@pytest.mark.parametrize("damage", [b"", b"not json", b"\xff", b"[]", b'{"files": 3}', b"2026-06-01T12:00:00Z"])
async def test_a_damaged_watermark_merges_all_again(make: Make, tmp_path: Path, damage: bytes) -> None:
    write_day(tmp_path, "2026-06-01", "- tea\n")
    await make(FakeModel(union)).consolidate()
    (tmp_path / "memory" / ".consolidation_state").write_bytes(damage)
    result = await make(FakeModel(union)).consolidate()
    assert result.files == ("2026-06-01.md",)
    assert (await make(FakeModel(union)).consolidate()).status == "nothing"


async def test_files_of_another_encoding_are_left_alone(make: Make, tmp_path: Path) -> None:
    write_day(tmp_path, "2026-06-01", "- tea\n")
    bad = tmp_path / "memory" / "2026-05-31.md"
    bad.write_bytes("- 用户".encode("gbk"))
    ledger = make(FakeModel(union))
    result = await ledger.consolidate()
    assert result.status == "written"
    assert "2026-05-31.md, line 1: this is not UTF-8" in result.error
    assert bad.read_bytes() == "- 用户".encode("gbk")
    assert any("not UTF-8" in problem.message for problem in ledger.problems())
    (tmp_path / "MEMORY.md").write_bytes("- 记忆".encode("gbk"))
    write_day(tmp_path, "2026-06-02", "- more\n")
    model = FakeModel(union)
    assert (await make(model).consolidate()).status == "failed"
    assert not model.calls
    assert (tmp_path / "MEMORY.md").read_bytes() == "- 记忆".encode("gbk")
    assert any(problem.code == "memory-md" for problem in make().problems())


async def test_line_ends_and_byte_order_marks_stay(make: Make, tmp_path: Path, clock: FakeClock) -> None:
    before = "\ufeff# Memory\r\n\r\n- old\r\n".encode()
    (tmp_path / "MEMORY.md").write_bytes(before)
    write_day(tmp_path, "2026-06-01", "- tea\n")
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
    write_day(tmp_path, "2026-06-01", "- tea\n")
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
    write_day(tmp_path, "2026-06-01", "- tea\n")
    assert (await make(FakeModel(NEW)).consolidate()).status == "written"
    assert (tmp_path / "MEMORY.md").is_symlink()
    assert real.read_text("utf-8") == NEW
    assert real.stat().st_mode & 0o777 == 0o640
