import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from memory_core.contracts import ModelReply
from memory_core.ledger.backups import backups
from memory_core.ledger.disk import locked
from memory_core.sessions.messages import user_message
from memory_core.testing.model import FakeModel, ModelCall

from .texts import Make, memory, union, write_day

NEW = "# Memory\n\n- The user drinks tea.\n"


def state(tmp_path: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((tmp_path / "memory" / ".consolidation_state").read_text("utf-8"))
    return value


async def test_ledgers_are_merged_into_memory_md(make: Make, tmp_path: Path) -> None:
    write_day(tmp_path, "2026-06-01", "# 2026-06-01\n\n- tea\n")
    write_day(tmp_path, "2026-06-02", "# 2026-06-02\n\n- Basel\n")
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
    write_day(tmp_path, "2026-06-01", "- tea\n")
    write_day(tmp_path, "notes", "- a note that is no ledger\n")
    await make(FakeModel(NEW)).consolidate()
    again = FakeModel(NEW)
    assert (await make(again).consolidate()).status == "nothing"
    assert not again.calls
    write_day(tmp_path, "2026-06-02", "- coffee\n")
    result = await make(again).consolidate()
    assert (result.status, result.files) == ("unchanged", ("2026-06-02.md",))
    assert "coffee" in again.calls[0].user
    assert '<ledger_file date="2026-06-01">' not in again.calls[0].user
    assert "no ledger" not in again.calls[0].user
    write_day(tmp_path, "2026-06-01", "- edited by hand\n")  # an old day that a person changed
    assert (await make(again).consolidate()).files == ("2026-06-01.md",)


async def test_an_edit_within_the_same_clock_tick_is_seen(make: Make, tmp_path: Path) -> None:
    import os

    path = write_day(tmp_path, "2026-06-01", "- tea\n")
    await make(FakeModel(NEW)).consolidate()
    before = path.stat()
    path.write_text("- sea\n", "utf-8")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (await make(FakeModel(NEW)).consolidate()).files == ("2026-06-01.md",)


async def test_no_ledger_no_call(make: Make, tmp_path: Path) -> None:
    model = FakeModel(NEW)
    assert (await make(model).consolidate()).status == "nothing"
    write_day(tmp_path, "2026-06-01", "  \n")
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
    write_day(tmp_path, "2026-06-01", "- 用户喜欢喝茶\n")
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
    write_day(tmp_path, "2026-06-01", "- tea\n")
    model = FakeModel("- " + "huge " * 50_000, f"```markdown\n{NEW}```")
    assert (await make(model).consolidate()).status == "written"
    assert memory(tmp_path) == NEW
    assert "the limit is 4000" in model.calls[1].user
    assert len(model.calls[1].user) < 40_000


async def test_a_memory_that_shrinks_without_reason_is_not_taken(make: Make, tmp_path: Path) -> None:
    old = "# Memory\n" + "".join(f"- The user told us fact number {n} about the project.\n" for n in range(40))
    (tmp_path / "MEMORY.md").write_text(old, "utf-8")
    write_day(tmp_path, "2026-06-01", "- tea\n")
    result = await make(FakeModel(NEW)).consolidate()
    assert "looks like a loss" in result.error
    assert memory(tmp_path) == old
    assert (await make(FakeModel(NEW)).consolidate(allow_shrink=True)).status == "written"


async def test_a_slow_model_is_given_up(make: Make, tmp_path: Path) -> None:
    write_day(tmp_path, "2026-06-01", "- tea\n")
    result = await make(FakeModel(NEW, delay_s=30), model_timeout_s=0.05).consolidate()
    assert "longer than" in result.error
    assert (await make(FakeModel(NEW)).consolidate()).status == "written"  # the lock is free again


# --- people and other processes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("before", [None, "# Memory\n- old\n"])
async def test_an_edit_made_meanwhile_is_never_overwritten(make: Make, tmp_path: Path, before: str | None) -> None:
    path = tmp_path / "MEMORY.md"
    if before is not None:
        path.write_text(before, "utf-8")
    write_day(tmp_path, "2026-06-01", "- tea\n")

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
    write_day(tmp_path, "2026-06-01", "- tea\n")

    def deleted(_: ModelCall) -> str:
        path.unlink()
        return NEW

    assert (await make(FakeModel(deleted)).consolidate()).status == "conflict"
    assert not path.exists()


async def test_a_flush_and_a_save_during_a_consolidation_are_merged_next_time(make: Make, tmp_path: Path) -> None:
    write_day(tmp_path, "2026-06-02", "- tea\n")

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

    write_day(tmp_path, "2026-06-01", "- one more\n")
    assert (await make(FakeModel(saves)).consolidate()).status == "conflict"
    assert "saved meanwhile" in memory(tmp_path)
    await make(FakeModel(union)).consolidate()
    for fact in ("saved meanwhile", "one more", "flushed meanwhile", "tea"):
        assert fact in memory(tmp_path)


async def test_one_consolidation_at_a_time(make: Make, tmp_path: Path) -> None:
    write_day(tmp_path, "2026-06-01", "- tea\n")
    model = FakeModel(NEW, delay_s=0.2)
    results = await asyncio.gather(*(make(model).consolidate() for _ in range(4)))
    assert sorted(result.status for result in results) == ["busy", "busy", "busy", "written"]
    assert len(model.calls) == 1


async def test_a_held_write_lock_is_a_failure_not_a_hang(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_day(tmp_path, "2026-06-01", "- tea\n")
    monkeypatch.setattr("memory_core.ledger.disk.LOCK_TIMEOUT_S", 0.1)
    ledger = make(FakeModel(NEW))
    with locked(ledger.places):
        result = await ledger.consolidate()
    assert result.status == "failed"
    assert "held by another process" in result.error
