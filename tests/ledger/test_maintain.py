import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from memory_core.ledger import Ledger, MemoryConfig
from memory_core.sessions.messages import Message, TextPart, user_message
from memory_core.sessions.transcript import TranscriptLog
from memory_core.testing import FakeClock
from memory_core.testing.model import FakeModel

Make = Callable[..., Ledger]
NEW = "# Memory\n\n- tea\n"


def write(tmp_path: Path, name: str, text: str) -> Path:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def log_of(tmp_path: Path, session: str, at: datetime) -> Path:
    log = TranscriptLog(tmp_path / "sessions")
    log.write(session, [Message("user", (TextPart("hello"),), time=at)])
    path = log.path(session)
    os.utime(path, (at.timestamp(), at.timestamp()))
    return path


async def test_archive_consolidate_prune(make: Make, tmp_path: Path, clock: FakeClock) -> None:
    now = clock.now()
    old = (now - timedelta(days=91)).date().isoformat()
    kept = (now - timedelta(days=90)).date().isoformat()
    write(tmp_path, f"memory/{old}.md", "- old\n")
    write(tmp_path, f"memory/{kept}.md", "- kept\n")
    write(tmp_path, "memory/2020-notes.md", "- no ledger\n")
    stale = log_of(tmp_path, "stale", now - timedelta(days=181))
    fresh = log_of(tmp_path, "fresh", now - timedelta(days=179))
    session = write(tmp_path, "sessions/stale.messages.ndjson", "{}\n")
    report = await make(FakeModel(NEW)).maintain()
    assert report.ran
    assert report.archived == (f"{old}.md",)
    assert report.consolidation is not None
    assert report.consolidation.files == (
        f"{old}.md",
        f"{kept}.md",
    )  # what was archived unmerged is merged all the same
    assert report.pruned == ("stale",)
    assert report.errors == ()
    assert (tmp_path / "memory" / "archive" / f"{old}.md").read_text("utf-8") == "- old\n"
    assert (tmp_path / "memory" / f"{kept}.md").exists()
    assert (tmp_path / "memory" / "2020-notes.md").exists()
    assert (stale.exists(), fresh.exists(), session.exists()) == (False, True, True)


async def test_throttled_across_handles(make: Make, clock: FakeClock) -> None:
    assert (await make(FakeModel(NEW)).maintain()).ran
    clock.advance(minutes=29)
    assert not (await make(FakeModel(NEW)).maintain()).ran
    assert (await make(FakeModel(NEW)).maintain(force=True)).ran
    clock.advance(minutes=30)
    assert (await make(FakeModel(NEW)).maintain()).ran
    assert (await make(FakeModel(NEW), MemoryConfig(consolidation_min_gap=timedelta(0))).maintain()).ran


async def test_a_day_that_is_in_the_archive_already(make: Make, tmp_path: Path) -> None:
    write(tmp_path, "memory/archive/2026-01-01.md", "- first\n")
    write(tmp_path, "memory/2026-01-01.md", "- second\n")
    write(tmp_path, "memory/archive/2026-01-02.md", "- moved before a crash\n")
    write(tmp_path, "memory/2026-01-02.md", "- moved before a crash\n")
    await make(FakeModel(NEW)).maintain()
    assert (tmp_path / "memory/archive/2026-01-01.md").read_text("utf-8") == "- first\n\n- second\n"
    assert (tmp_path / "memory/archive/2026-01-02.md").read_text("utf-8") == "- moved before a crash\n"
    assert not list((tmp_path / "memory").glob("*.md"))


async def test_today_follows_the_time_zone(make: Make, tmp_path: Path, clock: FakeClock) -> None:
    clock.advance(hours=11)  # 23:00 UTC is tomorrow in Shanghai
    write(tmp_path, "memory/2026-03-04.md", "- ninety days before the second of June\n")
    assert not (await make(FakeModel(NEW)).maintain(force=True)).archived
    assert (await make(FakeModel(NEW), timezone="Asia/Shanghai").maintain(force=True)).archived == ("2026-03-04.md",)


async def test_each_step_runs_whatever_happens_to_the_others(
    make: Make, tmp_path: Path, monkeypatch: Any, clock: FakeClock
) -> None:
    write(tmp_path, "memory/2026-01-01.md", "- old\n")
    stale = log_of(tmp_path, "stale", clock.now() - timedelta(days=200))

    def broken(*_: Any, **__: Any) -> Any:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr("memory_core.ledger.maintain.archive", broken)
        ledger = make(FakeModel(RuntimeError("down")))
        report = await ledger.maintain()
    assert len(report.errors) == 2
    assert "archiving" in report.errors[0]
    assert "RuntimeError: down" in report.errors[1]
    assert not stale.exists()
    codes = {problem.code for problem in ledger.problems()}
    assert {"ledger-maintenance", "ledger-consolidation"} <= codes
    with monkeypatch.context() as patch:
        patch.setattr("memory_core.ledger.maintain.consolidate", broken)
        patch.setattr("memory_core.ledger.maintain.prune_logs", broken)
        report = await make(FakeModel(NEW)).maintain(force=True)
    assert report.archived == ("2026-01-01.md",)
    assert len(report.errors) == 2
    good = make(FakeModel(NEW))
    assert (await good.maintain(force=True)).errors == ()
    assert not good.problems()


async def test_what_cannot_be_moved_is_named_and_the_rest_is(make: Make, tmp_path: Path) -> None:
    write(tmp_path, "memory/2026-01-01.md", "- a\n")
    (tmp_path / "memory/archive/2026-01-01.md").mkdir(parents=True)
    write(tmp_path, "memory/2026-01-02.md", "- b\n")
    report = await make(FakeModel(NEW)).maintain()
    assert report.archived == ("2026-01-02.md",)
    assert "2026-01-01.md" in report.errors[0]
    assert (tmp_path / "memory/2026-01-01.md").exists()


async def test_nothing_is_pruned_through_a_link_out_of_the_workspace(
    make: Make, tmp_path: Path, tmp_path_factory: Any, clock: FakeClock
) -> None:
    outside = tmp_path_factory.mktemp("home")
    stale = log_of(outside, "stale", clock.now() - timedelta(days=200))
    (tmp_path / "sessions").symlink_to(outside / "sessions")
    report = await make(FakeModel(NEW)).maintain()
    assert "leads out of the workspace" in report.errors[0]
    assert stale.exists()
    report = await make(FakeModel(NEW), sessions=outside / "sessions").maintain(force=True)  # named by the program
    assert report.pruned == ("stale",)


async def test_a_disk_that_cannot_be_written_is_reported_not_raised(make: Make, tmp_path: Path) -> None:
    (tmp_path / "memory").write_text("a file in the place of the folder")
    ledger = make(FakeModel(NEW))
    report = await ledger.maintain()
    assert not report.ran
    assert report.errors
    assert (await ledger.flush([user_message("hello")])).status == "failed"
    assert (await ledger.consolidate()).status == "failed"
    assert ledger.problems()


# --- off means off ---------------------------------------------------------------------------------------------------


def tree(folder: Path) -> dict[str, tuple[int, int]]:
    return {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.stat().st_size)
        for path in sorted(folder.rglob("*"))
    }


@pytest.mark.parametrize("tools_off", [True, False])
async def test_disabled_hooks_make_no_call_and_write_nothing(make: Make, tmp_path: Path, *, tools_off: bool) -> None:
    write(tmp_path, "memory/2026-06-01.md", "- tea\n")
    write(tmp_path, "memory/2020-01-01.md", "- old\n")
    write(tmp_path, "MEMORY.md", "- Basel\n")
    log_of(tmp_path, "stale", datetime(2020, 1, 1, tzinfo=UTC))
    before = tree(tmp_path)
    model = FakeModel("- fact")
    ledger = make(model, disable_memory_hooks=True, disable_memory_tools=tools_off)
    for reason in ("call", "compaction", "overflow", "manual"):
        assert (await ledger.flush([user_message("hello")], reason=reason)).status == "off"
    assert (await ledger.consolidate()).status == "off"
    assert not (await ledger.maintain()).ran
    assert not (await ledger.maintain(force=True)).ran
    assert bool(ledger.context_block()) != tools_off
    assert len(model.calls) == 0
    assert tree(tmp_path) == before
