"""`MemorySolution.store_many` over every store: the hooks, checks and index of single stores, an answer for each."""

from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from memory_core.contracts import MemorySolution, MemoryStorer, Stored
from memory_core.errors import InvalidEntryError, PluginError, StorageUnavailableError, UnknownScopeError, VetoedError
from memory_core.hooks import Hooks
from memory_core.model import MemoryEntry
from memory_core.solution import StandardSolution
from memory_core.testing import FakeClock, make_entry
from memory_searcher_fulltext.searcher import FulltextSearcher
from memory_storer_kv.storer import KvStorer
from memory_storer_markdown.storer import MarkdownStorer

SCOPES = ("user", "workspace")
Open = Callable[[], MemoryStorer]


@pytest.fixture(params=["markdown", "kv", "redis"])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    scopes = {scope: tmp_path / scope for scope in SCOPES}
    if request.param == "markdown":
        return lambda: MarkdownStorer(scopes, fsync=False, max_file_bytes=100_000)
    if request.param == "kv":
        return lambda: KvStorer(scopes, durability="normal")
    make_redis: Open = request.getfixturevalue("make_redis")
    return make_redis


def shout(entry: MemoryEntry) -> MemoryEntry | None:
    """Refuse what is secret, fail over what is broken, and write the rest in capitals."""
    if entry.content == "secret":
        return None
    if entry.content == "broken":
        raise RuntimeError("no")
    return entry.model_copy(update={"content": entry.content.upper()})


def over(storer: MemoryStorer, *filters: Any) -> StandardSolution:
    return StandardSolution(storer, FulltextSearcher(), SCOPES, hooks=Hooks(None, list(filters)))


@pytest.fixture
def solution(open_store: Open) -> Iterator[StandardSolution]:
    made = over(open_store(), ("shout", shout))
    yield made
    made.close()


def test_many_pass_the_hooks_and_are_found(solution: StandardSolution) -> None:
    entries = [make_entry(f"k{n}", f"fact{n}", user=f"u{n % 3}", scope=SCOPES[n % 2]) for n in range(300)]
    answers = solution.store_many(entries)
    assert [answer.entry.id for answer in answers] == [entry.id for entry in entries]
    assert all(answer.error is None for answer in answers)
    assert answers[7].entry.content == "FACT7"
    for number in (0, 7, 299):
        assert [hit.entry for hit in solution.search(f"fact{number}", user_id=f"u{number % 3}")] == [
            answers[number].entry
        ]
        assert solution.search(f"fact{number}", user_id=f"u{(number + 1) % 3}") == []
    assert sum(solution.count(user_id=f"u{n}") for n in range(3)) == 300


def test_what_is_refused_keeps_none_of_the_others_out(solution: StandardSolution) -> None:
    answers = solution.store_many([
        make_entry("a", "one"),
        make_entry("b", "secret"),
        make_entry("c", "two", scope="team"),
        make_entry("d", "broken"),
        make_entry("e", "three"),
    ])  # fmt: skip
    assert [type(answer.error) for answer in answers] == [
        type(None),
        VetoedError,
        UnknownScopeError,
        PluginError,
        type(None),
    ]
    assert {entry.id.key for entry in solution.storer.scan()} == {"a", "e"}
    assert answers[1].entry.content == "secret"


def test_what_only_the_store_refuses_keeps_none_of_the_others_out(tmp_path: Path) -> None:
    solution = over(MarkdownStorer({scope: tmp_path / scope for scope in SCOPES}, fsync=False, max_file_bytes=5_000))
    entries = [make_entry(f"k{n}", "x" * (9_000 if n == 70 else 10)) for n in range(140)]
    answers = solution.store_many(entries)
    assert [n for n, answer in enumerate(answers) if answer.error is not None] == [70]
    assert isinstance(answers[70].error, InvalidEntryError)
    assert len(list(solution.storer.scan())) == solution.count() == 139
    solution.close()


def test_of_several_with_one_id_the_last_that_passed_counts(solution: StandardSolution) -> None:
    answers = solution.store_many([make_entry("k", "one"), make_entry("k", "two"), make_entry("k", "secret")])
    assert [answer.error is None for answer in answers] == [True, True, False]
    found = solution.recall("k")
    assert found is not None
    assert found.content == "TWO"
    assert [hit.entry.content for hit in solution.search("two")] == ["TWO"]
    assert solution.search("one") == []


def test_expired_ones_are_not_found_and_are_purged(open_store: Open) -> None:
    solution = over(open_store())
    clock = FakeClock()
    old = make_entry("old", "c", at=clock.now() - timedelta(days=9000), expires=clock.now() - timedelta(days=8999))
    assert [answer.error for answer in solution.store_many([old, make_entry("new")])] == [None, None]
    assert [entry.id.key for entry in solution.list_all()] == ["new"]
    assert solution.recall("old") is None
    solution.close()


def test_nothing_is_asked_of_the_store_for_nothing(solution: StandardSolution) -> None:
    assert solution.store_many([]) == []
    assert [type(answer.error) for answer in solution.store_many([make_entry("b", "secret")])] == [VetoedError]
    assert list(solution.storer.scan()) == []


def test_a_store_that_is_down_raises(open_store: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    solution = over(open_store())

    def fail(entries: Iterable[MemoryEntry]) -> int:
        raise StorageUnavailableError(f"no room for {len(list(entries))}")

    monkeypatch.setattr(solution.storer, "put_many", fail)
    with pytest.raises(StorageUnavailableError, match="no room for 2"):
        solution.store_many([make_entry("a"), make_entry("b")])
    assert list(solution.storer.scan()) == []
    solution.close()


def test_the_default_of_the_contract_gives_the_same_answers(solution: StandardSolution) -> None:
    entries = [make_entry("a", "one"), make_entry("b", "secret"), make_entry("c", "x", scope="team")]
    expected = [(answer.entry, type(answer.error)) for answer in solution.store_many(entries)]
    found: list[Stored] = MemorySolution.store_many(solution, entries)
    assert [(answer.entry, type(answer.error)) for answer in found] == expected
