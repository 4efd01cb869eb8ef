"""One store and one index in step: scopes, exact keys, lifetimes, merging, failures, threads."""

# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false
# (hooks and rules are written as lambdas here: their arguments are known by name only)

from datetime import timedelta
from typing import Any

import pytest

from memory_core.contracts import Remembered
from memory_core.errors import (
    ConfigError,
    CorruptEntryError,
    InvalidEntryError,
    InvalidKeyError,
    StorageUnavailableError,
    UnknownScopeError,
)

from .fakes import Parts, down, keys

# --- remembering ---------------------------------------------------------------------------------------------------


def test_what_is_remembered_is_found_everywhere(parts: Parts) -> None:
    solution, _, clock = parts
    done = solution.remember("user-tech-stack", "Uses Python and 使用Solon框架", 8, metadata={"a": 1}, source="cli")
    assert done.previous is None
    assert done.entry.created_at == done.entry.updated_at == clock.now()
    assert solution.recall("user-tech-stack") == done.entry
    assert [hit.entry for hit in solution.search("框架")] == [done.entry]
    assert solution.hot() == solution.list_all() == [done.entry]
    assert (solution.count(), solution.count(below=8), solution.count(below=9)) == (1, 0, 1)


def test_overwriting_keeps_the_birthday_and_gives_the_old_entry(parts: Parts) -> None:
    solution, _, clock = parts
    first = solution.remember("k", "old", 3).entry
    clock.advance(60)
    assert solution.remember("k", "new", 9) == Remembered(
        first.model_copy(update={
            "content": "new", "importance": 9, "updated_at": clock.now(), "expires_at": clock.now() + timedelta(days=30),
        }),
        first,
    )  # fmt: skip


def test_an_expired_entry_is_no_previous_one(parts: Parts) -> None:
    solution, _, clock = parts
    solution.remember("k", "old", ttl_s=10)
    done = solution.remember("k2", "x")
    clock.advance(10)
    done = solution.remember("k", "new")
    assert done.previous is None
    assert done.entry.created_at == clock.now()


@pytest.mark.parametrize(("importance", "days"), [(1, 7), (4, 7), (5, 30), (9, 30), (10, None)])
def test_importance_decides_the_lifetime(parts: Parts, importance: int, days: int | None) -> None:
    solution, _, clock = parts
    entry = solution.remember("k", "c", importance).entry
    assert entry.expires_at == (None if days is None else clock.now() + timedelta(days=days))


def test_the_boundary_second_is_gone_from_every_read(parts: Parts) -> None:
    solution, storer, clock = parts
    solution.remember("k", "coffee", 9, ttl_s=60)
    solution.remember("low", "tea", 2, ttl_s=60)
    clock.advance(59.999999)
    assert keys(solution.search("coffee")) == ["k"]
    clock.advance(0.000001)
    assert solution.recall("k") is None
    assert solution.search("coffee") == solution.search("k") == []
    assert solution.hot() == solution.list_all() == []
    assert solution.count() == solution.count(below=5) == 0
    assert list(storer.scan()) == []
    assert solution.forget("k") == ()


@pytest.mark.parametrize("ttl_s", [0, -2])
def test_a_lifetime_of_nothing_stores_nothing(parts: Parts, ttl_s: int) -> None:
    solution, storer, _ = parts
    with pytest.raises(ConfigError, match="TTL"):
        solution.remember("k", "c", ttl_s=ttl_s)
    assert "put" not in storer.calls


def test_a_huge_lifetime_means_for_ever(parts: Parts) -> None:
    assert parts[0].remember("k", "c", ttl_s=10**18).entry.expires_at is None


@pytest.mark.parametrize(
    ("error", "change"),
    [
        (InvalidKeyError, {"key": " "}), (InvalidKeyError, {"key": "a\x00"}), (InvalidKeyError, {"user_id": ""}),
        (InvalidKeyError, {"key": "x" * 513}), (InvalidEntryError, {"content": "\n"}), (InvalidEntryError, {"importance": 0}),
        (InvalidEntryError, {"importance": 11}), (InvalidEntryError, {"metadata": {"a": float("nan")}}),
        (UnknownScopeError, {"scope": "team"}), (UnknownScopeError, {"scope": ""}), (InvalidEntryError, {"content": "\ud800"}),
    ],
)  # fmt: skip
def test_what_cannot_be_stored_changes_nothing(parts: Parts, error: type[Exception], change: dict[str, Any]) -> None:
    solution, storer, _ = parts
    fields: dict[str, Any] = {"key": "k", "content": "c", **change}
    with pytest.raises(error):
        solution.remember(**fields)
    assert "put" not in storer.calls
    assert solution.count() == 0


def test_a_store_that_is_down_raises_and_says_so(parts: Parts) -> None:
    solution, storer, _ = parts
    solution.remember("k", "before")
    storer.fails = down("put")
    with pytest.raises(StorageUnavailableError, match="put failed"):
        solution.remember("k", "after")
    assert [hit.entry.content for hit in solution.search("before")] == ["before"]
    storer.fails = down("changes")
    for read in (lambda: solution.search("x"), solution.hot, solution.list_all, solution.count):
        with pytest.raises(StorageUnavailableError):
            read()


def test_an_entry_that_cannot_be_read_stops_no_search_and_is_stored_anew(
    parts: Parts, caplog: pytest.LogCaptureFixture
) -> None:
    solution, storer, _ = parts
    solution.remember("k", "apples in general", scope="user")
    broken = solution.remember("k", "apples here").entry.id
    storer.fails = lambda operation, id: (
        CorruptEntryError("'k' cannot be read") if (operation, id) == ("get", broken) else None
    )
    assert solution.search("k")[0].entry.id.scope == "user"
    assert "'k' cannot be read" in caplog.text
    with pytest.raises(CorruptEntryError):
        solution.recall("k")
    assert solution.remember("k", "again").previous is None
    storer.fails = lambda operation, id: None
    found = solution.recall("k")
    assert found is not None
    assert found.content == "again"


# --- purging -------------------------------------------------------------------------------------------------------


def test_purging_happens_with_the_first_write_and_then_hourly_and_never_in_a_read(parts: Parts) -> None:
    solution, storer, clock = parts
    for _ in range(2):
        solution.search("x")
        solution.recall("x")
        solution.list_all()
    assert "purge" not in storer.calls
    solution.remember("a", "c", ttl_s=5)
    solution.remember("b", "c", ttl_s=5)
    assert storer.calls.count("purge") == 1
    clock.advance(3599)
    solution.forget("zzz")
    assert storer.calls.count("purge") == 1
    clock.advance(1)
    solution.forget("zzz")
    assert storer.calls.count("purge") == 2


def test_a_clock_that_was_set_back_does_not_stop_purging(parts: Parts) -> None:
    solution, storer, clock = parts
    solution.remember("a", "c")
    assert storer.calls.count("purge") == 1
    clock.advance(days=-365)
    solution.remember("b", "c")
    assert storer.calls.count("purge") == 2
    clock.advance(3599)
    solution.remember("c", "c")
    assert storer.calls.count("purge") == 2
    clock.advance(1)
    solution.remember("d", "c")
    assert storer.calls.count("purge") == 3


@pytest.mark.parametrize("error", [StorageUnavailableError("no"), OSError("no"), RuntimeError("no")])
def test_purging_that_fails_does_not_fail_the_write(
    parts: Parts, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    solution, storer, _ = parts
    storer.fails = lambda operation, id: error if operation == "purge" else None
    assert solution.remember("k", "c").entry == solution.recall("k")
    assert "could not be purged" in caplog.text
