"""Several logs as one feed: floors, epochs, pages, and followers that never miss anything."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_core.feed import Change, LogState, Place, format_cursor, merge_changes, parse_cursor
from memory_core.model import ChangeBatch, MemoryEntry, MemoryId
from memory_core.testing import make_entry


class Log:
    """The smallest honest log: last state of each key with its number, tombstones that may be trimmed."""

    def __init__(self, scope: str, epoch: str = "e1") -> None:
        self.scope, self.epoch = scope, epoch
        self.latest: dict[str, Change] = {}
        self.number = self.floor = 0

    def put(self, key: str, content: str = "c") -> None:
        self._record(key, make_entry(key, content, scope=self.scope))

    def remove(self, key: str) -> None:
        self._record(key, None)

    def _record(self, key: str, entry: MemoryEntry | None) -> None:
        self.number += 1
        self.latest[key] = Change(self.number, MemoryId(self.scope, "shared", key), entry)

    def trim(self, keep: int = 0) -> None:
        dead = sorted((c.number, key) for key, c in self.latest.items() if c.entry is None)
        for number, key in dead[: len(dead) - keep]:
            self.floor = number
            del self.latest[key]

    def state(self, user_id: str) -> LogState:
        return LogState(self.epoch, self.floor, self.number)

    def page(self, user_id: str, after: int, limit: int) -> Sequence[Change]:
        return sorted((c for c in self.latest.values() if c.number > after), key=lambda c: c.number)[:limit]

    def live(self) -> dict[MemoryId, MemoryEntry]:
        return {c.id: c.entry for c in self.latest.values() if c.entry is not None}


class Follower:
    def __init__(self, logs: dict[str, Log]) -> None:
        self.logs = logs
        self.cursor: str | None = None
        self.entries: dict[MemoryId, MemoryEntry] = {}
        self.completes = 0

    def step(self, limit: int) -> ChangeBatch:
        batch = merge_changes(self.logs, self.cursor, "shared", limit)
        if batch.complete:
            self.completes += 1
            self.entries.clear()
        for id in batch.removals:
            self.entries.pop(id, None)
        self.entries.update((entry.id, entry) for entry in batch.upserts)
        self.cursor = batch.cursor
        return batch

    def follow(self, limit: int = 3) -> None:
        for _ in range(10_000):
            if not self.step(limit).more:
                return
        raise AssertionError("the feed never ends")

    def agrees(self) -> bool:
        return self.entries == {id: entry for log in self.logs.values() for id, entry in log.live().items()}


def two_logs(count: int = 10) -> dict[str, Log]:
    logs = {"user": Log("user"), "workspace": Log("workspace", "e2")}
    for number in range(count):
        for log in logs.values():
            log.put(f"k{number}")
    return logs


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 10, 19, 20, 21, 1000])
def test_pages_run_over_all_scopes(limit: int) -> None:
    follower = Follower(two_logs())
    sizes: list[int] = []
    while True:
        batch = follower.step(limit)
        sizes.append(len(batch.upserts))
        assert batch.complete == (len(sizes) == 1)
        if not batch.more:
            break
    assert max(sizes) <= limit
    assert sum(sizes) == 20
    assert follower.agrees()
    assert not merge_changes(follower.logs, follower.cursor, "shared", limit)


@pytest.mark.parametrize("limit", [0, -1])
def test_a_page_without_room_still_moves(limit: int) -> None:
    follower = Follower(two_logs(2))
    follower.follow(limit)
    assert follower.agrees()


def test_a_first_reading_has_no_removals() -> None:
    logs = two_logs(3)
    logs["user"].remove("k0")
    batch = merge_changes(logs, None, "shared")
    assert batch.complete
    assert batch.removals == []
    assert len(batch.upserts) == 5


def test_a_follower_below_the_floor_starts_over() -> None:
    logs = two_logs(5)
    follower = Follower(logs)
    follower.follow()
    logs["user"].remove("k1")
    logs["user"].remove("k2")
    logs["user"].trim()
    assert "k1" in {id.key for id in follower.entries if id.scope == "user"}
    follower.follow()
    assert follower.completes == 2
    assert follower.agrees()


def test_a_follower_at_the_floor_goes_on() -> None:
    logs = two_logs(5)
    follower = Follower(logs)
    logs["user"].remove("k1")
    follower.follow()
    logs["user"].trim()
    logs["user"].put("new")
    follower.follow()
    assert follower.completes == 1
    assert follower.agrees()


def test_trimming_during_a_long_first_reading_does_not_send_it_back() -> None:
    logs = two_logs(30)
    for number in range(10):
        logs["user"].remove(f"k{number}")
    follower = Follower(logs)
    follower.step(2)
    logs["user"].trim()  # the floor rises above what was read; those removals were before the reading began
    follower.follow(2)
    assert follower.completes == 1
    assert follower.agrees()


def test_removals_made_during_a_first_reading_and_then_trimmed_do_send_it_back() -> None:
    logs = two_logs(30)
    follower = Follower(logs)
    follower.step(5)
    for number in range(5):
        logs["user"].remove(f"k{number}")
    logs["user"].trim()
    follower.follow(5)
    assert follower.completes == 2
    assert follower.agrees()


def test_a_new_epoch_of_one_log_starts_all_over() -> None:
    logs = two_logs(4)
    follower = Follower(logs)
    follower.follow()
    rebuilt = Log("workspace", "another")
    rebuilt.put("k1")
    logs["workspace"] = rebuilt
    follower.follow()
    assert follower.completes == 2
    assert follower.agrees()


def test_a_log_that_lost_its_tail_starts_over() -> None:
    logs = two_logs(4)
    follower = Follower(logs)
    follower.follow()
    logs["user"].number -= 1
    assert merge_changes(logs, follower.cursor, "shared").complete


def test_a_scope_that_came_or_went_starts_over() -> None:
    logs = two_logs(2)
    cursor = merge_changes(logs, None, "shared").cursor
    assert merge_changes({"user": logs["user"]}, cursor, "shared").complete
    assert merge_changes({**logs, "team": Log("team")}, cursor, "shared").complete
    assert not merge_changes(logs, cursor, "shared").complete


def test_no_logs_give_an_empty_feed() -> None:
    batch = merge_changes({}, None, "shared")
    assert (batch.upserts, batch.removals, batch.more) == ([], [], False)


def test_a_cursor_round_trips() -> None:
    places = {"user": Place("e", 5, 7), "工作区": Place("e:2", 0, 0)}
    assert parse_cursor(format_cursor(places)) == places


@pytest.mark.parametrize(
    "text",
    [
        "", "x", "null", "[]", "3", '{"a": 1}', '{"a": []}', '{"a": ["e", "x", 0]}', '{"a": ["e", 1]}', '{"a": ["e", null, 0]}',
        '{"a": ["e", Infinity, 0]}', '{"a": ["e", NaN, 0]}', "[" * 100_000, '{"a": {"e": 1, "f": 2, "g": 3}}', "\ud800", '"text"',
    ],
    ids=lambda text: ascii(text[:20]),
)  # fmt: skip
def test_what_is_no_cursor_is_no_place(text: str) -> None:
    logs = two_logs(1)
    assert merge_changes(logs, text, "shared").complete


@given(
    st.lists(
        st.tuples(
            st.sampled_from("pprrtfs"), st.integers(0, 5), st.sampled_from(["user", "workspace"]), st.integers(1, 4)
        ),
        max_size=40,
    )
)
def test_a_follower_always_ends_up_with_what_is_there(steps: list[tuple[str, int, str, int]]) -> None:
    logs = two_logs(0)
    follower = Follower(logs)
    for number, (step, key, scope, limit) in enumerate(steps):
        log = logs[scope]
        if step == "p":
            log.put(f"k{key}", f"c{number}")
        elif step == "r" and f"k{key}" in log.latest:
            log.remove(f"k{key}")
        elif step == "t":
            log.trim(keep=key % 2)
        elif step == "f":
            follower.follow(limit)
        elif step == "s":
            follower.step(limit)  # a reader that stops in the middle
    follower.follow()
    assert follower.agrees()
