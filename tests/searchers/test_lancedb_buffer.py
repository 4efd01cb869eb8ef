"""What changes while a buffer is being written: the table has it already, or not yet, and nothing may be lost or stay."""

from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_core.errors import IndexUnavailableError
from memory_core.model import MemoryId
from memory_searcher_lancedb.buffer import Buffer
from memory_searcher_lancedb.rows import Row, uid_of
from memory_searcher_lancedb.searcher import LanceDBSearcher

from ._vectors import batch, entry, keys, open_searcher, query


def row(key: str, content: str) -> tuple[str, Row]:
    return uid_of(entry(key, content).id), Row(entry(key, content), None)


class Meanwhile:
    """Makes the next commit do something before or after it, as another thread would."""

    def __init__(self, searcher: LanceDBSearcher, monkeypatch: pytest.MonkeyPatch) -> None:
        self._table: Any = searcher._table  # pyright: ignore[reportPrivateUsage] - its table is the only way to a commit
        self._patch = monkeypatch

    def flush(self, searcher: LanceDBSearcher, before: Callable[[], None], after: Callable[[], None]) -> None:
        commit = self._table.commit

        def slow(*arguments: Any) -> None:
            before()
            commit(*arguments)
            after()

        with self._patch.context() as patch:
            patch.setattr(self._table, "commit", slow)
            searcher.flush()


def nothing() -> None:
    return None


def contents(searcher: LanceDBSearcher) -> dict[str, str]:
    return {found.id.key: found.content for found in searcher.list_all("u", 99)}


def test_what_is_removed_while_the_first_reading_is_written_stays_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    searcher = open_searcher(tmp_path)
    searcher.apply(batch(entry("secret", "apple hunter2"), entry("b", "apple"), complete=True), "u")
    gone = batch(entry("b", "apple pie"), removals=(entry("secret", "x").id,), cursor="2")
    Meanwhile(searcher, monkeypatch).flush(searcher, lambda: searcher.apply(gone, "u"), nothing)
    assert contents(searcher) == {"b": "apple pie"}
    assert keys(searcher.search(query("apple hunter2"))) == ["b"]
    searcher.close()
    again = open_searcher(tmp_path)
    assert again.cursor("u") == "2"
    assert contents(again) == {"b": "apple pie"}
    again.close()


def test_a_second_first_reading_while_the_first_is_written_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    searcher = open_searcher(tmp_path)
    searcher.apply(batch(entry("a", "apple"), entry("b", "pear"), complete=True), "u")
    second = batch(entry("b", "plum"), cursor="2", complete=True)
    Meanwhile(searcher, monkeypatch).flush(searcher, lambda: searcher.apply(second, "u"), nothing)
    assert contents(searcher) == {"b": "plum"}
    searcher.close()
    again = open_searcher(tmp_path)
    assert (again.cursor("u"), contents(again)) == ("2", {"b": "plum"})
    again.close()


def test_a_write_that_fails_brings_nothing_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    searcher = open_searcher(tmp_path)
    searcher.apply(batch(entry("a", "apple"), entry("b", "pear"), complete=True), "u")

    def fails() -> None:
        searcher.apply(batch(removals=(entry("a", "x").id,), cursor="2"), "u")
        raise IndexUnavailableError("full")

    with pytest.raises(IndexUnavailableError, match="full"):
        Meanwhile(searcher, monkeypatch).flush(searcher, fails, nothing)
    assert contents(searcher) == {"b": "pear"}
    searcher.flush()
    assert contents(searcher) == {"b": "pear"}
    searcher.close()


def test_a_look_at_the_cursor_while_it_is_written_costs_a_follower_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hybrid asks where its arms stand while its background thread is between the cursor and what came after it."""
    searcher = open_searcher(tmp_path)
    searcher.apply(batch(entry("a", "apple"), entry("b", "pear"), complete=True), "u")

    def before() -> None:
        searcher.apply(batch(entry("c", "plum"), removals=(entry("b", "x").id,), cursor="2"), "u")
        assert searcher.cursor("u") == "2"  # the follower asks the store for what comes after 2

    def after() -> None:
        look = Thread(target=searcher.cursor, args=("u",))
        look.start()
        look.join()
        searcher.apply(batch(entry("d", "fig"), cursor="3"), "u")

    Meanwhile(searcher, monkeypatch).flush(searcher, before, after)
    wanted = {"a": "apple", "c": "plum", "d": "fig"}
    # It may stand where the table stands and be told again, or have gone on; it never skips.
    if searcher.cursor("u") == "1":
        searcher.apply(batch(entry("c", "plum"), entry("d", "fig"), removals=(entry("b", "x").id,), cursor="3"), "u")
    assert contents(searcher) == wanted
    searcher.close()
    again = open_searcher(tmp_path)
    assert (again.cursor("u"), contents(again)) == ("3", wanted)
    again.close()


def test_a_damaged_table_is_never_replaced_by_the_latest_changes_alone(tmp_path: Path) -> None:
    """Found broken while writing: a cursor beside a part of the entries would hide the rest for good."""
    searcher = open_searcher(tmp_path)
    told = {
        user: batch(entry("a", "apple", user=user), entry("b", "pear", user=user), complete=True)
        for user in ("u", "v", "w")
    }
    for user, first in told.items():
        searcher.apply(first, user)
    searcher.close()
    searcher = open_searcher(tmp_path)
    for user in told:
        assert searcher.cursor(user) == "1"
        searcher.apply(batch(entry("c", "plum", user=user), cursor="2"), user)
    for path in (tmp_path / "table" / "entries.lance" / "data").iterdir():
        path.write_bytes(b"x" * 99)
    with pytest.raises(IndexUnavailableError):
        searcher._table.rows(None, ["uid"])  # pyright: ignore[reportPrivateUsage] - a reading finds the damage
    searcher.close()
    again = open_searcher(tmp_path)
    for user, first in told.items():
        if again.cursor(user) is None:
            again.apply(first, user)
        assert [found.id.key for found in again.list_all(user, 9)][:2] == ["a", "b"]
    again.close()


@given(
    st.booleans(),
    st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=5),
    st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=5),
)
def test_buffer_and_table_together_are_what_was_told(
    cleared: bool, first: list[tuple[str, bool]], meanwhile: list[tuple[str, bool]]
) -> None:
    """Whatever is put and removed before and during a write, in a user's first reading and later."""
    table = {} if cleared else dict([row("a", "old"), row("b", "old")])
    truth = dict(table)
    buffer = Buffer("0", object())
    if cleared:
        buffer.clear()

    def tell(steps: list[tuple[str, bool]]) -> None:
        for number, (key, put) in enumerate(steps):
            uid, new = row(key, f"{key} {number}")
            if put:
                buffer.put(uid, new)
                truth[uid] = new
            else:
                buffer.remove(uid)
                truth.pop(uid, None)

    tell(first)
    snapshot = buffer.snapshot()
    tell(meanwhile)
    table = {uid: known for uid, known in table.items() if not snapshot.hides(uid)} | snapshot.rows
    buffer.written(snapshot)
    seen = buffer.snapshot()
    assert {uid: known for uid, known in table.items() if not seen.hides(uid)} | seen.rows == truth


def test_removals_before_the_first_reading_is_written_cost_nothing() -> None:
    buffer = Buffer(None, object())
    buffer.clear()
    buffer.remove(uid_of(MemoryId("workspace", "u", "k")))
    assert not buffer.worth_writing
