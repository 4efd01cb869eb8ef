"""What every storer must do."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime, timedelta
from threading import Event

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_core.contracts import Clock, MemoryStorer
from memory_core.errors import CorruptEntryError, UnknownScopeError
from memory_core.model import MemoryId
from memory_core.testing.bulk import BulkContract
from memory_core.testing.clock import FakeClock
from memory_core.testing.follower import Follower
from memory_core.testing.forks import CAN_FORK, outcome_in_child
from memory_core.testing.samples import NASTY_CONTENTS, NASTY_KEYS, RELAXED, contents, make_entry, metadata, names

OpenStorer = Callable[[Clock], MemoryStorer]
Spoil = Callable[[MemoryId], None]


class StorerContract(BulkContract):
    """Subclass it and give the fixture `open_storer`: `clock -> storer` over the scopes `user` and `workspace`.

    Each call opens the same data anew. `put_many` is tested in `BulkContract`, of which this is one. `real_clock = True` says that the store's own clock decides about expiry, so
    that a fake clock cannot. The fixture `spoil` says how an entry is made unreadable; without it that is not tested.
    """

    real_clock = False
    many = 2_000
    """How many entries of one user are stored and then removed one by one: more for a store that is made for more."""

    @pytest.fixture
    def open_storer(self) -> OpenStorer:
        """Return how to open the store under test."""
        raise NotImplementedError("give your test class a fixture `open_storer`")

    @pytest.fixture
    def spoil(self) -> Spoil | None:
        """Return how to make the stored entry of an id unreadable behind the store's back; None where nobody can."""
        return None

    @pytest.fixture
    def clock(self) -> FakeClock:
        """A clock that the test moves; it starts at the real time so that a store's own expiry agrees with it."""
        return FakeClock(datetime.now().astimezone())

    @pytest.fixture
    def storer(self, open_storer: OpenStorer, clock: FakeClock) -> Iterator[MemoryStorer]:
        """The store under test, empty."""
        storer = open_storer(clock)
        yield storer
        storer.close()

    @pytest.fixture
    def quick_storer(self, storer: MemoryStorer) -> MemoryStorer:
        """An empty store for tests with very many entries; override it where the store can wait less for the disk."""
        return storer

    # --- identity and content --------------------------------------------------------------------------------------

    def test_what_is_put_is_got(self, storer: MemoryStorer) -> None:
        entry = make_entry(
            "user-tech-stack",
            "Python and 使用Solon框架",
            importance=8,
            metadata={"a": [1, {"b": None}]},
            source="import:x",
        )
        storer.put(entry)
        assert storer.get(entry.id) == entry
        assert storer.get(MemoryId("workspace", "shared", "other")) is None

    @pytest.mark.parametrize("key", NASTY_KEYS, ids=ascii)
    def test_any_key_round_trips(self, storer: MemoryStorer, key: str) -> None:
        entry = make_entry(key, f"content of {key}", user=key)
        storer.put(entry)
        assert storer.get(entry.id) == entry
        assert list(storer.scan()) == [entry]
        assert storer.remove(entry.id) is True
        assert storer.get(entry.id) is None

    def test_all_nasty_keys_live_side_by_side(
        self, storer: MemoryStorer, open_storer: OpenStorer, clock: FakeClock
    ) -> None:
        entries = [make_entry(key, f"content {place}") for place, key in enumerate(NASTY_KEYS)]
        assert storer.put_many(entries) == len(entries)
        again = open_storer(clock)
        try:
            assert {entry.id: entry for entry in again.scan()} == {entry.id: entry for entry in entries}
            assert again.get_many([entry.id for entry in entries]) == {entry.id: entry for entry in entries}
        finally:
            again.close()

    @pytest.mark.parametrize("content", NASTY_CONTENTS, ids=lambda text: ascii(text[:20]))
    def test_any_content_round_trips(
        self, storer: MemoryStorer, open_storer: OpenStorer, clock: FakeClock, content: str
    ) -> None:
        entry = make_entry("k", content, source=content[:100])
        storer.put(entry)
        again = open_storer(clock)
        try:
            assert again.get(entry.id) == entry
        finally:
            again.close()

    @settings(max_examples=40, deadline=None, suppress_health_check=RELAXED)
    @given(data=st.data())
    def test_any_legal_entry_round_trips(self, storer: MemoryStorer, data: st.DataObject) -> None:
        entry = make_entry(data.draw(names), data.draw(contents), user=data.draw(names), metadata=data.draw(metadata))
        storer.put(entry)
        assert storer.get(entry.id) == entry
        assert entry in list(storer.scan(user_id=entry.id.user_id))

    def test_joined_ids_do_not_collide(self, storer: MemoryStorer) -> None:
        pairs = [
            ("a", "b__c"),
            ("a__b", "c"),
            ("a.b", "c"),
            ("a", "b.c"),
            ("a:b", "c"),
            ("a", "b:c"),
            ("a/b", "c"),
            ("a", "b/c"),
        ]
        entries = [make_entry(key, f"{user}|{key}", user=user) for user, key in pairs]
        storer.put_many(entries)
        for entry in entries:
            assert storer.get(entry.id) == entry

    def test_put_replaces(self, storer: MemoryStorer) -> None:
        storer.put(make_entry("k", "old", importance=3))
        storer.put(make_entry("k", "new", importance=9))
        assert [entry.content for entry in storer.scan()] == ["new"]

    def test_remove_says_whether_it_was_there(self, storer: MemoryStorer) -> None:
        entry = make_entry()
        assert storer.remove(entry.id) is False
        storer.put(entry)
        assert storer.remove(entry.id) is True
        assert storer.remove(entry.id) is False

    def test_an_unknown_scope_is_refused(self, storer: MemoryStorer) -> None:
        with pytest.raises(UnknownScopeError, match="workspace"):
            storer.put(make_entry(scope="team"))

    def test_an_entry_that_cannot_be_read_stops_no_other_and_can_be_stored_again(
        self, storer: MemoryStorer, spoil: Spoil | None
    ) -> None:
        if spoil is None:
            pytest.skip("this suite does not say how an entry of this store can be made unreadable")
        bad, good = make_entry("bad", "apples"), make_entry("good", "pears")
        storer.put_many([bad, good])
        spoil(bad.id)
        with suppress(CorruptEntryError):
            assert storer.get(bad.id) is None
        assert storer.get_many([bad.id, good.id]) == {good.id: good}
        assert list(storer.scan()) == [good]
        assert list(storer.changes(None, "shared").upserts) == [good]
        assert storer.problems()
        storer.put(bad)
        assert storer.get(bad.id) == bad
        assert storer.get_many([bad.id, good.id]) == {bad.id: bad, good.id: good}

    # --- scopes and tenants ----------------------------------------------------------------------------------------

    def test_scopes_are_separate(self, storer: MemoryStorer) -> None:
        low = make_entry("k", "low", scope="user")
        high = make_entry("k", "high", scope="workspace")
        storer.put_many([low, high])
        assert storer.get(low.id) == low
        assert storer.get(high.id) == high
        assert list(storer.scan(scope="user")) == [low]
        assert storer.remove(high.id) is True
        assert storer.get(low.id) == low

    def test_tenants_are_separate(self, storer: MemoryStorer) -> None:
        mine = make_entry("k", "mine", user="user", metadata={"user_id": "user2"})
        theirs = make_entry("k", "theirs", user="user2")
        storer.put_many([mine, theirs])
        assert list(storer.scan(user_id="user")) == [mine]
        assert [entry.content for entry in storer.changes(None, "user").upserts] == ["mine"]
        assert storer.users() == ["user", "user2"]
        storer.remove(theirs.id)
        assert storer.get(mine.id) == mine
        assert storer.users() == ["user"]

    @pytest.mark.parametrize("count", [0, 1, 100, 101, 1001])
    def test_draining_one_user_leaves_the_others(self, storer: MemoryStorer, count: int) -> None:
        self._drain(storer, count)

    def test_draining_a_user_with_very_many_leaves_the_others(self, quick_storer: MemoryStorer) -> None:
        self._drain(quick_storer, self.many)

    @staticmethod
    def _drain(storer: MemoryStorer, count: int) -> None:
        other = make_entry("k", "stays", user="other")
        storer.put(other)
        storer.put_many(
            make_entry(f"k{n}", f"c{n}", user="gone", scope="user" if n % 2 else "workspace") for n in range(count)
        )
        follower = Follower(storer, "gone", page=1_000)
        follower.follow()
        assert len(follower.entries) == count
        removed = sum(storer.remove(entry.id) for entry in list(storer.scan(user_id="gone")))
        assert removed == count
        follower.follow()
        assert follower.entries == {}
        assert list(storer.scan(user_id="gone")) == []
        assert list(storer.scan()) == [other]

    # --- time ------------------------------------------------------------------------------------------------------

    def test_expired_entries_are_absent_from_every_read(self, storer: MemoryStorer, clock: FakeClock) -> None:
        if self.real_clock:
            pytest.skip("this store's own clock decides about expiry; its own tests wait for real seconds")
        gone = make_entry("gone", at=clock.now(), expires=clock.now() + timedelta(seconds=60))
        kept = make_entry("gone", "kept", scope="user", at=clock.now())
        storer.put_many([gone, kept])
        clock.advance(59.999999)
        assert storer.get(gone.id) == gone
        clock.advance(0.000001)
        assert storer.get(gone.id) is None
        assert list(storer.scan()) == [kept]
        assert storer.get_many([gone.id, kept.id]) == {kept.id: kept}
        assert list(storer.changes(None, "shared").upserts) == [kept]
        assert storer.remove(gone.id) is False
        assert storer.get(kept.id) == kept

    def test_purging_removes_what_expired_and_nothing_else(self, storer: MemoryStorer, clock: FakeClock) -> None:
        if self.real_clock:
            pytest.skip("this store's own clock decides about expiry; its own tests wait for real seconds")
        storer.put(make_entry("gone", expires=clock.now() + timedelta(seconds=1)))
        storer.put(make_entry("late", expires=clock.now() + timedelta(seconds=9)))
        storer.put(make_entry("ever"))
        follower = Follower(storer)
        follower.follow()
        assert storer.purge_expired(clock.advance(1)) == 1
        assert storer.purge_expired(clock.now()) == 0
        follower.follow()
        assert {id.key for id in follower.entries} == {"late", "ever"}

    def test_purging_leaves_what_another_handle_stores_meanwhile(
        self, storer: MemoryStorer, open_storer: OpenStorer, clock: FakeClock
    ) -> None:
        fresh, over = make_entry("k", "fresh"), clock.now() + timedelta(seconds=600)
        other = open_storer(clock)
        try:
            with ThreadPoolExecutor(2) as pool:
                for _ in range(25):
                    storer.put(make_entry("k", "old", expires=over))
                    assert other.get(fresh.id) is not None
                    purging = pool.submit(storer.purge_expired, over)
                    storing = pool.submit(other.put, fresh)
                    storing.result()
                    assert purging.result() in (0, 1)
                    assert storer.get(fresh.id) == fresh
        finally:
            other.close()

    # --- the change feed -------------------------------------------------------------------------------------------

    def test_the_feed_starts_complete_and_goes_on(self, storer: MemoryStorer) -> None:
        follower = Follower(storer)
        follower.follow()
        assert follower.entries == {}
        entries = [make_entry(f"k{n}", f"c{n}", scope="user" if n % 3 else "workspace") for n in range(40)]
        storer.put_many(entries)
        follower.follow()
        assert follower.entries == {entry.id: entry for entry in entries}
        completes = follower.completes
        storer.put(make_entry("k1", "new", scope="user"))
        storer.remove(MemoryId("workspace", "shared", "k0"))
        batches = follower.follow()
        assert follower.completes == completes
        assert sum(len(batch.upserts) for batch in batches) == 1
        assert sum(len(batch.removals) for batch in batches) == 1
        assert follower.entries == {entry.id: entry for entry in storer.scan()}

    def test_a_quiet_feed_does_not_move(self, storer: MemoryStorer) -> None:
        storer.put(make_entry())
        follower = Follower(storer)
        follower.follow()
        storer.put(make_entry(user="somebody else"))
        batch = storer.changes(follower.cursor, "shared")
        assert not batch
        assert batch.cursor == follower.cursor

    def test_a_foreign_cursor_starts_over(self, storer: MemoryStorer) -> None:
        storer.put(make_entry())
        for cursor in (
            None,
            "",
            "nonsense",
            "{}",
            '{"workspace": ["x", 5, 5], "user": ["x", 5, 5]}',
            '{"workspace": 3}',
            "[1]",
        ):
            batch = storer.changes(cursor, "shared")
            assert batch.complete
            assert [entry.id.key for entry in batch.upserts] == ["key"]

    def test_another_handle_s_writes_are_seen(
        self, storer: MemoryStorer, open_storer: OpenStorer, clock: FakeClock
    ) -> None:
        other = open_storer(clock)
        try:
            follower = Follower(storer)
            follower.follow()
            for round in range(5):
                other.put(make_entry(f"k{round}", "from the other handle"))
                follower.follow()
                assert {id.key for id in follower.entries} == {f"k{n}" for n in range(round + 1)}
                assert storer.get(MemoryId("workspace", "shared", f"k{round}")) is not None
            completes = follower.completes
            assert other.remove(MemoryId("workspace", "shared", "k0"))
            follower.follow()
            assert "k0" not in {id.key for id in follower.entries}
            assert follower.completes == completes
        finally:
            other.close()

    @settings(max_examples=15, deadline=None, suppress_health_check=RELAXED)
    @given(
        steps=st.lists(
            st.tuples(st.sampled_from("pprf"), st.integers(0, 4), st.sampled_from(["user", "workspace"])), max_size=25
        )
    )
    def test_a_follower_always_agrees(self, storer: MemoryStorer, steps: list[tuple[str, int, str]]) -> None:
        follower = Follower(storer, page=3)
        for number, (step, key, scope) in enumerate(steps):
            if step == "p":
                storer.put(make_entry(f"k{key}", f"c{number}", scope=scope))
            elif step == "r":
                storer.remove(MemoryId(scope, "shared", f"k{key}"))
            else:
                follower.follow()
        follower.follow()
        assert follower.entries == {entry.id: entry for entry in storer.scan(user_id="shared")}

    # --- several at once -------------------------------------------------------------------------------------------

    def test_threads_write_side_by_side(self, storer: MemoryStorer) -> None:
        def write(worker: int) -> None:
            for number in range(25):
                storer.put(make_entry(f"w{worker}-{number}", f"c{number}"))
                assert storer.get(MemoryId("workspace", "shared", f"w{worker}-{number}")) is not None

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(write, range(4)))
        assert len(list(storer.scan())) == 100

    @pytest.mark.skipif(not CAN_FORK, reason="this system does not fork")
    def test_a_child_forked_while_threads_work_reads_and_writes(self, storer: MemoryStorer) -> None:
        storer.put(make_entry("before"))
        stop = Event()

        def work(worker: int) -> None:
            while not stop.is_set():
                storer.put(make_entry(f"w{worker}"))
                storer.get(MemoryId("workspace", "shared", f"w{worker}"))

        def use() -> None:
            assert storer.get(MemoryId("workspace", "shared", "before")) is not None
            storer.put(make_entry("child"))
            assert "child" in {entry.id.key for entry in storer.scan()}

        with ThreadPoolExecutor(2) as pool:
            try:
                working = [pool.submit(work, number) for number in range(2)]
                outcomes = [outcome_in_child(use) for _ in range(5)]
            finally:
                stop.set()
            for worker in working:
                worker.result()
        assert outcomes == ["done"] * 5
        assert storer.get(MemoryId("workspace", "shared", "child")) is not None

    def test_closing_twice_is_harmless(self, open_storer: OpenStorer, clock: FakeClock) -> None:
        storer = open_storer(clock)
        storer.put(make_entry())
        storer.close()
        storer.close()
        assert storer.problems() == open_storer(clock).problems()
