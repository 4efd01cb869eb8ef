"""mem0's get_all output."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from memory_core.errors import CorruptEntryError
from memory_core.model import MemoryId
from memory_core.solution import StandardSolution
from memory_core.testing import FakeClock
from memory_core.transfer import import_mem0

RECORD: dict[str, Any] = {
    "id": "892db2ae-06d9-49e5-8b3e-585ef9b85b8e",
    "memory": "User is learning 游戏开发 in India",
    "hash": "47c9b3aa",
    "metadata": {"category": "hobby", "importance": 8},
    "created_at": "2026-01-02T03:04:05.678901-08:00",
    "updated_at": None,
    "user_id": "alice",
    "agent_id": "helper",
    "score": None,
}


def saved(tmp_path: Path, data: Any) -> Path:
    path = tmp_path / "mem0.json"
    path.write_text(json.dumps(data), "utf-8")
    return path


@pytest.mark.parametrize("wrap", [True, False])
def test_a_record(tmp_path: Path, solution: StandardSolution, clock: FakeClock, wrap: bool) -> None:
    path = saved(tmp_path, {"results": [RECORD], "relations": []} if wrap else [RECORD])
    assert import_mem0(solution, path, clock=clock).stored == 1
    entry = solution.storer.get(MemoryId("workspace", "alice", f"mem0-{RECORD['id']}"))
    assert entry is not None
    assert entry.content == RECORD["memory"]
    assert entry.importance == 8
    assert entry.created_at == entry.updated_at == datetime(2026, 1, 2, 11, 4, 5, 678901, tzinfo=UTC)
    assert entry.expires_at == clock.now() + timedelta(days=30)
    assert entry.metadata["category"] == "hobby"
    assert entry.metadata["mem0_hash"] == "47c9b3aa"
    assert entry.metadata["mem0_agent_id"] == "helper"
    assert [hit.entry for hit in solution.search("游戏开发", user_id="alice")] == [entry]
    assert solution.search("游戏开发") == []
    clock.advance(60)
    again = import_mem0(solution, path, clock=clock)
    assert (again.stored, again.kept) == (0, 1)


def test_the_least_that_a_record_needs(tmp_path: Path, solution: StandardSolution, clock: FakeClock) -> None:
    path = saved(tmp_path, [{"memory": "just text"}, {"memory": "other", "id": 7, "metadata": None}])
    assert import_mem0(solution, path, clock=clock, scope="user").stored == 2
    keys = {entry.id.key for entry in solution.storer.scan(user_id="shared", scope="user")}
    assert "mem0-7" in keys
    assert len(keys) == 2
    assert import_mem0(solution, path, clock=clock, scope="user").stored == 0


def test_expiry_and_owner(tmp_path: Path, solution: StandardSolution, clock: FakeClock) -> None:
    records = [
        {"id": "a", "memory": "over", "expiration_date": "2026-02-01"},
        {"id": "b", "memory": "lives", "expiration_date": "2026-04-01"},
        {"id": "c", "memory": "mine", "user_id": "alice", "metadata": {"user_id": "eve"}},
    ]
    report = import_mem0(solution, saved(tmp_path, records), clock=clock)
    assert (report.expired, report.stored) == (1, 2)
    lives = solution.recall("mem0-b")
    assert lives is not None
    assert lives.expires_at == datetime(2026, 4, 1, tzinfo=UTC)
    assert solution.recall("mem0-c", user_id="alice") is not None
    assert solution.recall("mem0-c", user_id="eve") is None
    import_mem0(solution, saved(tmp_path, records), clock=clock, user_id="bob")
    assert solution.recall("mem0-c", user_id="bob") is not None


def test_bad_records_are_named_and_the_others_go_on(
    tmp_path: Path, solution: StandardSolution, clock: FakeClock
) -> None:
    records = [
        "text",
        {"id": "x"},
        {"id": "x", "memory": "  "},
        {"id": "x", "memory": "m", "created_at": "yesterday"},
        {"id": "x", "memory": "m", "created_at": 5},
        {"id": "a\u0000b", "memory": "m"},
        {"id": "x", "memory": "m", "user_id": 5},
        {"id": "x", "memory": "\ud800"},
        {"id": "list", "memory": "kept", "metadata": ["not", "an", "object"]},
        {"id": "odd", "memory": "kept too", "metadata": {"importance": 99}},
    ]
    report = import_mem0(solution, saved(tmp_path, records), clock=clock)
    assert [problem.where for problem in report.problems] == [f"record {number}" for number in range(1, 9)]
    assert report.stored == 2
    odd = solution.recall("mem0-odd")
    assert odd is not None
    assert odd.importance == 5


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"nope", "not JSON"),
        (b"\xff", "UTF-8"),
        (b'{"memories": []}', "results"),
        (b"3", "results"),
        (b"[" * 100_000, "JSON"),
    ],
)
def test_a_file_that_is_none(tmp_path: Path, solution: StandardSolution, data: bytes, says: str) -> None:
    path = tmp_path / "mem0.json"
    path.write_bytes(data)
    with pytest.raises(CorruptEntryError, match=says):
        import_mem0(solution, path)
