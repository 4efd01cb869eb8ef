"""The feed over several logs: when a follower may go on, and when it must start over."""

from collections.abc import Sequence

import pytest

from memory_core.feed import Change, LogState, Place, format_cursor, merge_changes
from memory_core.model import MemoryId
from tests.support.stores import entry


class Log:
    """A log as the tests want it; `trim` happens between the question for its state and that for a page."""

    def __init__(self, state: LogState, changes: Sequence[Change] = (), trimmed: LogState | None = None) -> None:
        self._state = state
        self._changes = changes
        self._trimmed = trimmed

    def state(self, user_id: str) -> LogState:
        return self._state

    def page(self, user_id: str, after: int, limit: int) -> Sequence[Change]:
        if self._trimmed is not None:
            self._state = self._trimmed
        return [change for change in self._changes if change.number > after][:limit]


def put(number: int, key: str) -> Change:
    return Change(number, entry(key).id, entry(key))


def gone(number: int, key: str) -> Change:
    return Change(number, MemoryId("workspace", "shared", key), None)


def at(number: int, epoch: str = "e", start: int = 0) -> str:
    return format_cursor({"workspace": Place(epoch, number, start)})


CHANGES = [put(5, "a"), gone(7, "b"), put(9, "c")]


@pytest.mark.parametrize(
    ("cursor", "state", "complete"),
    [
        (at(5), LogState("e", 0, 9), False),
        (at(5), LogState("e", 5, 9), False),
        (at(5), LogState("e", 6, 9), True),  # removals up to 6 are no longer recorded
        (at(5, start=6), LogState("e", 6, 9), False),  # but this one began after them
        (at(5), LogState("other", 0, 9), True),
        (at(10), LogState("e", 0, 9), True),  # the log has gone back
        (at(8), LogState("e", 0, 9, ((7, 9),)), True),  # 8 was taken back by a crash
        (at(7), LogState("e", 0, 9, ((7, 9),)), False),
        (at(9), LogState("e", 0, 9, ((7, 9),)), False),
        (at(3), LogState("e", 0, 9, ((1, 3), (3, 5), (7, 9))), False),
        (at(4), LogState("e", 0, 9, ((1, 3), (3, 5), (7, 9))), True),  # taken back by an earlier one
        (at(0), LogState("e", 0, 9), False),
        (at(0, epoch=""), LogState("e", 6, 9), False),  # who has read nothing has missed nothing
    ],
)
def test_who_may_go_on(cursor: str, state: LogState, complete: bool) -> None:
    batch = merge_changes({"workspace": Log(state, CHANGES)}, cursor, "shared")
    assert batch.complete is complete
    if complete:
        assert [found.id.key for found in batch.upserts] == ["a", "c"]
        assert list(batch.removals) == []
    after = merge_changes({"workspace": Log(LogState("e", 0, 9), CHANGES)}, batch.cursor, "shared")
    assert not after or state.epoch == "other"


def test_removals_dropped_while_the_log_is_read_send_the_follower_back() -> None:
    trimmed = LogState("e", 7, 9)
    log = Log(LogState("e", 0, 9), [put(5, "a"), put(9, "c")], trimmed)
    batch = merge_changes({"workspace": log}, at(5), "shared")
    assert batch.complete
    assert [found.id.key for found in batch.upserts] == ["a", "c"]


def test_a_log_that_begins_later_joins_without_a_restart() -> None:
    never = {"user": Log(LogState("", 0, 0)), "workspace": Log(LogState("e", 0, 9), CHANGES)}
    first = merge_changes(never, None, "shared")
    assert first.complete
    begun = {"user": Log(LogState("new", 0, 3), [put(3, "u")]), "workspace": Log(LogState("e", 0, 9), CHANGES)}
    second = merge_changes(begun, first.cursor, "shared")
    assert not second.complete
    assert [found.id.key for found in second.upserts] == ["u"]
    assert not merge_changes(begun, second.cursor, "shared")
