import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from memory_core.contracts import ModelReply
from memory_core.ledger import FlushTrigger, Ledger, MemoryConfig
from memory_core.sessions.messages import (
    Message,
    TextPart,
    user_message,
)
from memory_core.testing import FakeClock
from memory_core.testing.model import FakeModel, ModelCall

from .texts import FACTS, TALK, Make, today


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def test_facts_are_appended_under_a_heading_with_the_time(make: Make, tmp_path: Path) -> None:
    model = FakeModel(FACTS)
    result = await make(model).flush(TALK)
    assert result.status == "written"
    assert result.path == tmp_path / "memory" / "2026-06-02.md"
    assert today(tmp_path) == (
        "# 2026-06-02\n\n## 12:00:00 +00:00\n\n- The user drinks tea.\n- The user lives in Basel.\n"
    )
    assert len(model.calls) == 1


async def test_append_only(make: Make, tmp_path: Path, clock: FakeClock) -> None:
    ledger = make(FakeModel(FACTS, "- The user switched to coffee."))
    await ledger.flush(TALK)
    before = today(tmp_path)
    clock.advance(minutes=5)
    await ledger.flush(TALK)
    assert today(tmp_path) == before + "\n## 12:05:00 +00:00\n\n- The user switched to coffee.\n"


async def test_no_block_is_written_twice(make: Make, tmp_path: Path, clock: FakeClock) -> None:
    ledger = make(FakeModel(FACTS, "*  the user DRINKS tea\n* The user lives  in Ｂasel。"))
    await ledger.flush(TALK)
    before = today(tmp_path)
    clock.advance(minutes=5)
    assert (await ledger.flush(TALK)).status == "duplicate"
    assert today(tmp_path) == before


async def test_nothing_is_no_failure(make: Make, tmp_path: Path) -> None:
    result = await make(FakeModel("`NO_REPLY`.")).flush(TALK)
    assert (result.status, result.error) == ("nothing", "")
    assert not today(tmp_path)


async def test_an_empty_conversation_makes_no_call(make: Make, tmp_path: Path) -> None:
    model = FakeModel(FACTS)
    messages = [Message("system", (TextPart("You are"),)), user_message("", kind="injected"), user_message("   ")]
    assert (await make(model).flush(messages)).status == "nothing"
    assert (await make(model).flush([])).status == "nothing"
    assert not model.calls
    assert names(tmp_path) == []


def nothing_at_all(_: ModelCall) -> Any:
    return None


def bytes_for_text(_: ModelCall) -> ModelReply:
    data: Any = b"bytes"
    return ModelReply(data)


# --- a model that misbehaves -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "why"),
    [
        ("", "empty"),
        ("   \n", "empty"),
        (ModelReply("- half a fa", "length"), "cut by length"),
        ("I'm sorry, but I can't do that.", "refused"),
        ("Error: 503 overloaded", "error message"),
        ("- " + "x" * 2_000_000, "more than 2000 characters"),
        (ModelReply("- fine", "content_filter"), "content_filter"),
        (RuntimeError("connection reset"), "RuntimeError: connection reset"),
        (OSError(28, "No space left on device"), "No space left"),
        (TimeoutError(), "longer than"),
        (nothing_at_all, "NoneType"),
        (bytes_for_text, "not a ModelReply with text"),
    ],
)
async def test_a_failure_is_a_failure_everywhere(make: Make, tmp_path: Path, step: Any, why: str, caplog: Any) -> None:
    ledger = make(FakeModel(step))
    result = await ledger.flush(TALK)
    assert result.status == "failed"
    assert why in result.error
    assert not today(tmp_path)
    assert any(why in record.message for record in caplog.records)
    problem = next(problem for problem in ledger.problems() if problem.code == "ledger-flush")
    assert why in problem.message
    assert problem.advice
    good = make(FakeModel(FACTS))
    assert (await good.flush(TALK)).status == "written"
    assert not good.problems()  # the next good run clears it


async def test_a_slow_model_is_given_up(make: Make, tmp_path: Path) -> None:
    ledger = make(FakeModel(FACTS, delay_s=30), model_timeout_s=0.05)
    result = await ledger.flush(TALK)
    assert (result.status, "longer than 0.05 s" in result.error) == ("failed", True)
    assert not today(tmp_path)


async def test_no_model_is_said(make: Make) -> None:
    assert "there is no model" in (await make().flush(TALK)).error


async def test_one_bad_chunk_does_not_take_the_good_ones_back(make: Make, tmp_path: Path) -> None:
    messages = [user_message(f"message {n} " + "words " * 6_000) for n in range(12)]
    result = await make(FakeModel(FACTS, RuntimeError("down"))).flush(messages)
    assert result.status == "failed"
    assert "The user drinks tea." in today(tmp_path)
    assert result.facts


async def test_a_cancelled_flush_writes_nothing_and_gives_its_turn_back(make: Make, tmp_path: Path) -> None:
    config = MemoryConfig(flush_trigger=FlushTrigger.throttled(timedelta(minutes=10)))
    task = asyncio.create_task(make(FakeModel(FACTS, delay_s=30), config).flush(TALK))
    await asyncio.sleep(0.2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not today(tmp_path)
    assert (await make(FakeModel(FACTS), config).flush(TALK)).status == "written"


# --- when ------------------------------------------------------------------------------------------------------------


async def test_never_only_concerns_the_end_of_a_call(make: Make) -> None:
    model = FakeModel(FACTS)
    ledger = make(model, MemoryConfig(flush_trigger=FlushTrigger.never()))
    assert (await ledger.flush(TALK)).status == "off"
    assert not model.calls
    assert (await ledger.flush(TALK, reason="compaction")).status == "written"
    assert len(model.calls) == 1


async def test_throttled_per_isolation_key_and_across_restarts(make: Make, clock: FakeClock) -> None:
    config = MemoryConfig(flush_trigger=FlushTrigger.throttled(timedelta(minutes=10)))
    model = FakeModel("NO_REPLY")

    async def status(key: str, **more: Any) -> str:
        return (await make(model, config).flush(TALK, key, **more)).status

    assert await status("alice") == "nothing"
    assert await status("alice") == "throttled"
    assert await status("bob") == "nothing"
    assert await status("alice\udc80") == "nothing"  # any text is a key
    clock.advance(minutes=10, seconds=-1)
    assert await status("alice") == "throttled"
    assert await status("alice", reason="overflow") == "nothing"
    clock.advance(seconds=1)
    assert await status("bob") == "nothing"
    assert await status("alice") == "throttled"  # the overflow's flush counts
    assert len(model.calls) == 5


async def test_a_failed_flush_takes_no_turn(make: Make) -> None:
    config = MemoryConfig(flush_trigger=FlushTrigger.throttled(timedelta(minutes=10)))
    assert (await make(FakeModel(RuntimeError("down")), config).flush(TALK)).status == "failed"
    assert (await make(FakeModel(FACTS), config).flush(TALK)).status == "written"


async def test_a_clock_that_was_set_back_does_not_block(make: Make, clock: FakeClock) -> None:
    config = MemoryConfig(flush_trigger=FlushTrigger.throttled(timedelta(minutes=10)))
    await make(FakeModel("NO_REPLY"), config).flush(TALK)
    clock.advance(days=-400)
    assert (await make(FakeModel("NO_REPLY"), config).flush(TALK)).status == "nothing"


@pytest.mark.parametrize(
    "damage", [b"", b"{", b"[1]", b"\xff\xfe", b'{"turns": 3, "health": []}', b'{"turns": {"flush:a": "?"}}']
)
async def test_a_damaged_state_counts_as_none(make: Make, tmp_path: Path, damage: bytes) -> None:
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory" / ".ledger_state").write_bytes(damage)
    ledger = make(FakeModel(FACTS), MemoryConfig(flush_trigger=FlushTrigger.throttled(timedelta(minutes=10))))
    assert (await ledger.flush(TALK, "a")).status == "written"
    assert (await ledger.flush(TALK, "a")).status == "throttled"
    assert not ledger.problems()


async def test_the_state_is_bounded(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memory_core.ledger.state.MAX_THROTTLE_KEYS", 3)
    for n in range(6):
        await make(FakeModel("NO_REPLY")).flush(TALK, f"user-{n}")
    state = json.loads((tmp_path / "memory" / ".ledger_state").read_text())
    assert list(state["turns"]) == ["flush:user-3", "flush:user-4", "flush:user-5"]


# --- days ------------------------------------------------------------------------------------------------------------


async def test_midnight_between_two_flushes(make: Make, tmp_path: Path, clock: FakeClock) -> None:
    clock.advance(hours=11, minutes=59)
    ledger = make(FakeModel("- late", "- early", "- LATE."))
    await ledger.flush(TALK)
    clock.advance(minutes=2)
    await ledger.flush(TALK)
    assert "- late" in today(tmp_path)
    assert today(tmp_path, "2026-06-03") == "# 2026-06-03\n\n## 00:01:00 +00:00\n\n- early\n"
    assert (await ledger.flush(TALK)).status == "duplicate"  # the day before is looked at too


async def test_a_flush_over_midnight_stays_with_its_conversation(make: Make, tmp_path: Path, clock: FakeClock) -> None:
    clock.advance(hours=11, minutes=59)

    def slow(_: Any) -> str:
        clock.advance(minutes=5)
        return "- said before midnight"

    await make(FakeModel(slow)).flush(TALK)
    assert "## 23:59:00 +00:00" in today(tmp_path)
    assert not today(tmp_path, "2026-06-03")


@pytest.mark.parametrize(
    ("zone", "day", "heading"),
    [
        ("Asia/Shanghai", "2026-06-03", "## 04:00:00 +08:00"),
        ("America/New_York", "2026-06-02", "## 16:00:00 -04:00"),
        ("Asia/Kathmandu", "2026-06-03", "## 01:45:00 +05:45"),
        (ZoneInfo("Pacific/Kiritimati"), "2026-06-03", "## 10:00:00 +14:00"),
    ],
)
async def test_one_time_zone_decides_what_today_is(
    make: Make, tmp_path: Path, clock: FakeClock, zone: Any, day: str, heading: str
) -> None:
    clock.advance(hours=8)
    await make(FakeModel(FACTS), timezone=zone).flush(TALK)
    assert heading in today(tmp_path, day)


async def test_the_hour_that_comes_twice_is_told_apart(tmp_path: Path) -> None:
    clock = FakeClock(datetime(2026, 10, 25, 0, 30, tzinfo=UTC))
    ledger = Ledger(tmp_path, FakeModel("- a", "- b"), None, clock, "Europe/Berlin")
    await ledger.flush(TALK)
    clock.advance(hours=1)
    await ledger.flush(TALK)
    text = today(tmp_path, "2026-10-25")
    assert "## 02:30:00 +02:00" in text
    assert "## 02:30:00 +01:00" in text
