"""From one store to another: nothing lost, verified, resumed."""

from collections.abc import Iterable
from datetime import timedelta

import pytest

from memory_core.contracts import MemoryStorer
from memory_core.errors import StorageUnavailableError, UnknownScopeError
from memory_core.model import MemoryEntry
from memory_core.solution import StandardSolution
from memory_core.testing import FakeClock, make_entry
from memory_core.transfer import migrate
from memory_core.transfer.migrate import content_hash
from tests.transfer.conftest import OpenSolution
from tests.transfer.test_jsonl import everything, nasty_entries


@pytest.fixture
def source(open_solution: OpenSolution, clock: FakeClock) -> MemoryStorer:
    storer = open_solution("source").storer
    storer.put_many(nasty_entries(clock))
    return storer


@pytest.fixture
def target_solution(open_solution: OpenSolution) -> StandardSolution:
    return open_solution("target")


@pytest.fixture
def target(target_solution: StandardSolution) -> MemoryStorer:
    return target_solution.storer


def test_everything_arrives_and_the_source_stays(source: MemoryStorer, target: MemoryStorer, clock: FakeClock) -> None:
    before = everything(source)
    report = migrate(source, target, clock=clock)
    assert everything(target) == before == everything(source)
    assert report.complete
    assert report.copied == report.verified == report.source == report.target == len(before)
    again = migrate(source, target, clock=clock)
    assert (again.copied, again.unchanged, again.complete) == (0, len(before), True)


def test_a_dry_run_counts_and_writes_nothing(source: MemoryStorer, target: MemoryStorer, clock: FakeClock) -> None:
    report = migrate(source, target, dry_run=True, clock=clock)
    assert (report.copied, report.target, report.complete) == (len(everything(source)), 0, False)
    assert everything(target) == {}


def test_it_resumes_after_an_interruption(
    source: MemoryStorer, target: MemoryStorer, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = type(target).put_many
    limit = 10

    def failing(self: MemoryStorer, entries: Iterable[MemoryEntry]) -> int:
        real(self, list(entries)[:limit])
        raise StorageUnavailableError("the power went out")

    monkeypatch.setattr(type(target), "put_many", failing)
    with pytest.raises(StorageUnavailableError):
        migrate(source, target, clock=clock)
    monkeypatch.setattr(type(target), "put_many", real)
    report = migrate(source, target, clock=clock)
    assert (report.unchanged, report.complete) == (limit, True)
    assert report.copied == len(everything(source)) - limit
    assert everything(target) == everything(source)


def test_what_is_newer_in_the_target_stays(open_solution: OpenSolution, clock: FakeClock) -> None:
    source, target = open_solution("a").storer, open_solution("b").storer
    day = timedelta(days=1)
    source.put_many([make_entry("older", "from source", at=clock.now() - day), make_entry("newer", "from source")])
    target.put_many([make_entry("older", "in target"), make_entry("newer", "in target", at=clock.now() - day)])
    target.put(make_entry("own", "of the target"))
    report = migrate(source, target, clock=clock)
    assert (report.copied, report.kept, report.verified, report.target) == (1, 1, 1, 3)
    assert report.complete
    assert {entry.id.key: entry.content for entry in target.scan()} == {
        "older": "in target", "newer": "from source", "own": "of the target",
    }  # fmt: skip
    forced = migrate(source, target, replace_newer=True, clock=clock)
    assert (forced.copied, forced.kept, forced.verified) == (1, 0, 2)


def test_a_target_that_changes_what_it_stores_is_found_out(
    source: MemoryStorer, target: MemoryStorer, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = type(target).put_many

    def lossy(self: MemoryStorer, entries: Iterable[MemoryEntry]) -> int:
        changed = [entry.model_copy(update={"metadata": {}}) for entry in entries]
        return real(self, changed[1:])

    monkeypatch.setattr(type(target), "put_many", lossy)
    report = migrate(source, target, clock=clock)
    lost = [entry for entry in source.scan() if target.get(entry.id) != entry]
    assert not report.complete
    assert {id.key for id in report.mismatched} == {entry.id.key for entry in lost}
    assert report.verified == report.source - len(lost)
    assert report.to_json()["complete"] is False


def test_what_expires_or_goes_on_the_way_is_no_mismatch(
    open_solution: OpenSolution, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = open_solution("a").storer, open_solution("b").storer
    entries = [make_entry("short", "x", expires=clock.now() + timedelta(seconds=5)), make_entry("long", "y")]
    source.put_many(entries)
    real = type(target).get_many

    def late(self: MemoryStorer, ids: list[object]) -> dict[object, MemoryEntry]:
        clock.advance(4)  # between the two readings the entry expires
        return real(self, ids)  # type: ignore[arg-type, return-value]  # pyright: ignore

    monkeypatch.setattr(type(target), "get_many", late)
    report = migrate(source, target, clock=clock)
    assert (report.source, report.verified, report.mismatched) == (1, 1, ())


def test_scopes_must_exist_in_the_target(source: MemoryStorer, clock: FakeClock, open_solution: OpenSolution) -> None:
    target = open_solution("c").storer

    class Narrow(type(target)):  # type: ignore[misc]
        def put_many(self, entries: Iterable[MemoryEntry]) -> int:
            raise UnknownScopeError("There is no scope 'user'.")

    target.__class__ = Narrow
    with pytest.raises(UnknownScopeError):
        migrate(source, target, clock=clock)


def test_the_order_of_metadata_does_not_count() -> None:
    one = make_entry(metadata={"a": {"x": 1, "y": [{"p": 1, "q": 2}]}, "b": 2})
    other = make_entry(metadata={"b": 2, "a": {"y": [{"q": 2, "p": 1}], "x": 1}})
    assert content_hash(one) == content_hash(other)
    assert content_hash(one) != content_hash(make_entry(metadata={"a": 1}))
    assert content_hash(make_entry("a", "b")) != content_hash(make_entry("a", "c"))


def test_more_than_a_batch(open_solution: OpenSolution, clock: FakeClock) -> None:
    source, target = open_solution("a").storer, open_solution("b").storer
    source.put_many(make_entry(f"k{n}", f"text {n}", user=f"u{n % 3}") for n in range(1_001))
    told: list[int] = []
    report = migrate(source, target, clock=clock, progress=lambda done, _: told.append(done))
    assert report.complete
    assert report.verified == 1_001
    assert told == [500, 1_000, 1_001, 500, 1_000, 1_001]
