"""The model in memory: what a read may show, for one writer and for many."""

from hypothesis import given, settings
from hypothesis import strategies as st

from memory_core.evaluation.long_run import Fault, History, Seen, Write
from memory_core.evaluation.long_run.history import NEVER, read_line


def judged(writes: list[Write], seen: Seen) -> str | None:
    fault = History(writes).judge(seen)
    return None if fault is None else fault.kind


def seen(stamp: str | None, begin: float, end: float | None = None) -> Seen:
    return Seen("k", stamp, begin, begin + 1 if end is None else end, "search")


OLD, NEW = Write("k", "old", 10, 11), Write("k", "new", 20, 21)
GONE = Write("k", None, 30, 31)


def test_a_read_after_a_write_must_show_it() -> None:
    assert judged([OLD], seen("old", 12)) is None
    assert judged([OLD], seen(None, 12)) == "lost"
    assert judged([OLD], seen(None, 10.5)) is None, "the write had not returned when the read began"
    assert judged([OLD], seen("old", 8, 10.5)) is None, "the write had begun when the read ended"
    assert judged([OLD], seen("old", 8, 9)) == "ghost", "the write had not begun"
    assert judged([OLD], seen("never", 12)) == "ghost"
    assert judged([], seen(None, 12)) is None


def test_a_replaced_version_may_be_seen_only_by_a_read_that_was_under_way() -> None:
    assert judged([OLD, NEW], seen("old", 22)) == "ghost"
    assert judged([OLD, NEW], seen("old", 20.5)) is None
    assert judged([OLD, NEW], seen("new", 22)) is None
    assert judged([OLD, NEW], seen(None, 22)) == "lost"


def test_a_removed_memory_is_gone_and_may_come_back() -> None:
    assert judged([OLD, NEW, GONE], seen("new", 32)) == "ghost"
    assert judged([OLD, NEW, GONE], seen(None, 32)) is None
    assert judged([OLD, NEW, GONE], seen("new", 30.5)) is None
    assert judged([OLD, NEW, GONE], seen(None, 25, 30.5)) is None, "the removal had begun when the read ended"
    back = Write("k", "back", 40, 41)
    assert judged([OLD, GONE, back], seen(None, 42)) == "lost"
    assert judged([OLD, GONE, back], seen("back", 42)) is None


def test_what_expires_is_there_until_then_and_not_after() -> None:
    short = Write("k", "short", 10, 11, expires=15)
    assert judged([short], seen("short", 12)) is None
    assert judged([short], seen(None, 12, 13)) == "lost"
    assert judged([short], seen(None, 14, 16)) is None
    assert judged([short], seen("short", 14, 16)) is None
    assert judged([short], seen("short", 15)) == "ghost"
    assert judged([short, NEW], seen(None, 22)) == "lost", "it was stored anew and expires no more"
    assert History([short]).current("k", 12) == short
    assert History([short]).current("k", 15) is None


def test_two_writers_at_once_leave_either_text_and_nothing_older() -> None:
    one, two = Write("k", "one", 20, 25), Write("k", "two", 21, 24)
    for stamp in ("one", "two"):
        assert judged([OLD, one, two], seen(stamp, 30)) is None
    assert judged([OLD, one, two], seen("old", 30)) == "ghost"
    assert judged([OLD, one, two], seen(None, 30)) == "lost"
    removing = Write("k", None, 21, 24)
    assert judged([OLD, one, removing], seen(None, 30)) is None
    assert judged([OLD, one, removing], seen("one", 30)) is None


def test_a_write_that_never_returned_may_have_happened_or_not() -> None:
    unsure = Write("k", "new", 20, NEVER)
    for stamp in ("old", "new"):
        assert judged([OLD, unsure], seen(stamp, 100)) is None
    assert judged([OLD, unsure], seen(None, 100)) == "lost"
    unsure_removal = Write("k", None, 20, NEVER)
    for shown in ("old", None):
        assert judged([OLD, unsure_removal], seen(shown, 100)) is None


def test_stale_versions_are_those_that_something_came_after() -> None:
    history = History([OLD, NEW, GONE, Write("other", "stays", 5, 6)])
    assert history.stale() == [("k", "old"), ("k", "new")]
    assert set(history.keys) == {"k", "other"}
    assert history.current("k", 99) is None
    assert history.current("other", 99) is not None
    assert history.current("unknown", 99) is None


def test_a_fault_says_what_where_and_since_when() -> None:
    assert History([OLD, NEW]).judge(seen("old", 22)) == Fault(
        "ghost", "search: k shows old, which was replaced by new 1.000 s before"
    )
    assert History([OLD]).judge(seen(None, 12)) == Fault(
        "lost", "search: k is not there; old was stored 1.000 s before"
    )


@given(st.lists(st.tuples(st.sampled_from(["write", "remove", "read"]), st.floats(0, 3), st.floats(0, 3)), max_size=30))
@settings(deadline=None)
def test_a_store_that_does_one_thing_after_the_other_is_never_blamed(steps: list[tuple[str, float, float]]) -> None:
    """Each operation takes effect at one moment; begin and end lie around it, and may overlap those of others."""
    history, reads = History(), list[Seen]()
    holds: str | None = None
    for moment, (what, before, after) in enumerate(steps):
        begin, end = moment - before, moment + after
        if what == "read":
            reads.append(Seen("k", holds, begin, end, "read"))
        else:
            holds = f"v{moment}" if what == "write" else None
            history.add(Write("k", holds, begin, end))
    assert [history.judge(read) for read in reads] == [None] * len(reads)


@given(st.integers(2, 20), st.data())
@settings(deadline=None)
def test_a_store_that_answers_with_an_older_version_is_always_found_out(count: int, data: st.DataObject) -> None:
    writes = [Write("k", f"v{number}", number, number + 0.5) for number in range(count)]
    stale = data.draw(st.integers(0, count - 2))
    assert judged(writes, seen(f"v{stale}", count)) == "ghost"
    assert judged(writes, seen(None, count)) == "lost"
    assert judged(writes, seen(f"v{count - 1}", count)) is None


def test_events_survive_their_journal() -> None:
    for event in (OLD, GONE, Write("k", "x", 1, NEVER), seen(None, 3), seen("old", 3)):
        assert read_line(event.to_json()) == event
    assert read_line({"op": ["list", 1, 2]}) is None
