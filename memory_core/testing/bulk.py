"""What a store must do with many entries at a time."""

from collections.abc import Iterator
from datetime import timedelta

import pytest

from memory_core.contracts import MemoryStorer
from memory_core.errors import InvalidEntryError, UnknownScopeError
from memory_core.model import MemoryEntry, MemoryId
from memory_core.testing.clock import FakeClock
from memory_core.testing.follower import Follower
from memory_core.testing.samples import make_entry

_SEVERAL_PAGES = 1_203
"""More than any store here takes at a time, and no multiple of it."""


class BulkContract:
    """The part of `StorerContract` about `put_many`."""

    too_large_bytes: int | None = None
    """From how large a content on the store refuses an entry; None where it has no limit of its own."""

    def test_nothing_is_stored_of_nothing(self, storer: MemoryStorer) -> None:
        assert storer.put_many([]) == 0
        assert list(storer.scan()) == []

    def test_many_are_stored_as_they_are_one_by_one(self, storer: MemoryStorer) -> None:
        entries = [
            make_entry(f"k{n}", f"c{n}", user=f"u{n % 5}", scope="user" if n % 3 else "workspace")
            for n in range(_SEVERAL_PAGES)
        ]
        assert storer.put_many(iter(entries)) == len(entries)
        expected = {entry.id: entry for entry in entries}
        assert {entry.id: entry for entry in storer.scan()} == expected
        for user in storer.users():
            follower = Follower(storer, user, page=100)
            follower.follow()
            assert follower.entries == {id: entry for id, entry in expected.items() if id.user_id == user}

    def test_the_feed_names_many_in_the_order_given(self, storer: MemoryStorer) -> None:
        storer.put(make_entry("k7", "before"))
        follower = Follower(storer, page=50)
        follower.follow()
        keys = [f"k{n * 7 % 400}" for n in range(400)]
        storer.put_many(make_entry(key, "c") for key in keys)
        assert [entry.id.key for batch in follower.follow() for entry in batch.upserts] == keys
        assert follower.completes == 1

    def test_of_several_with_one_id_the_last_counts(self, storer: MemoryStorer) -> None:
        follower = Follower(storer)
        follower.follow()
        entries = [make_entry(f"k{n % 3}", f"c{n}", scope="user" if n % 2 else "workspace") for n in range(300)]
        assert storer.put_many(entries) == 300
        last = {entry.id: entry for entry in entries}
        assert {entry.id: entry for entry in storer.scan()} == last
        follower.follow()
        assert follower.entries == last

    def test_many_replace_what_was_there(self, storer: MemoryStorer) -> None:
        first = [make_entry(f"k{n}", "old") for n in range(150)]
        storer.put_many(first)
        storer.put_many(entry.model_copy(update={"content": "new"}) for entry in first[::2])
        found = {entry.id.key: entry.content for entry in storer.scan()}
        assert found == {f"k{n}": "old" if n % 2 else "new" for n in range(150)}

    def test_expired_ones_among_many_are_absent_and_take_their_predecessor_with_them(
        self, storer: MemoryStorer, clock: FakeClock
    ) -> None:
        over = clock.now() - timedelta(seconds=1)
        storer.put(make_entry("k1", "old", at=over - timedelta(seconds=5)))
        gone = [make_entry(f"k{n}", "c", at=over - timedelta(seconds=1), expires=over) for n in range(3)]
        kept = make_entry("kept", expires=clock.now() + timedelta(days=1))
        assert storer.put_many([*gone, kept]) == 4
        assert list(storer.scan()) == [kept]
        assert storer.get_many([entry.id for entry in (*gone, kept)]) == {kept.id: kept}
        assert list(storer.changes(None, "shared").upserts) == [kept]

    def test_one_that_is_refused_leaves_each_of_the_others_whole_or_absent(self, storer: MemoryStorer) -> None:
        good = [make_entry(f"k{n}", f"c{n}") for n in range(200)]

        def given() -> Iterator[MemoryEntry]:
            yield from good[:150]
            yield make_entry("bad", scope="team")
            yield from good[150:]

        with pytest.raises(UnknownScopeError, match="workspace"):
            storer.put_many(given())
        assert {(entry.id, entry.content) for entry in storer.scan()} <= {(entry.id, entry.content) for entry in good}
        storer.put_many(good)
        assert sorted(entry.id.key for entry in storer.scan()) == sorted(entry.id.key for entry in good)

    def test_one_that_is_too_large_among_many_is_refused(self, storer: MemoryStorer) -> None:
        if self.too_large_bytes is None:
            pytest.skip("this store has no limit of its own")
        storer.put(make_entry("k0", "before"))
        good = [make_entry(f"k{n}", f"c{n}") for n in range(20)]
        large = make_entry("large", "x" * self.too_large_bytes)
        with pytest.raises(InvalidEntryError, match="'large'"):
            storer.put_many([*good[:10], large, *good[10:]])
        assert storer.get(large.id) is None
        kept = storer.get(MemoryId("workspace", "shared", "k0"))
        assert kept is not None
        assert kept.content in ("before", "c0")
        storer.put_many(good)
        assert {entry.id: entry for entry in storer.scan()} == {entry.id: entry for entry in good}

    def test_many_of_one_handle_are_seen_by_another(self, storer: MemoryStorer) -> None:
        follower = Follower(storer)
        follower.follow()
        for round in range(3):
            storer.put_many(make_entry(f"r{round}-{n}") for n in range(100))
            follower.follow()
            assert len(follower.entries) == 100 * (round + 1)
        assert follower.completes <= 2  # one more where the store came to be with the first write
