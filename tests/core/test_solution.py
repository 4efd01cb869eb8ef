"""One store and one index in step: scopes, exact keys, lifetimes, merging, failures, threads."""

# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false
# (hooks and rules are written as lambdas here: their arguments are known by name only)

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from memory_core import AsyncMemorySolution
from memory_core.contracts import Remembered
from memory_core.errors import (
    ConfigError,
    IndexUnavailableError,
    InvalidEntryError,
    InvalidKeyError,
    StorageUnavailableError,
    StorerError,
    UnknownScopeError,
    VetoedError,
)
from memory_core.hooks import Hooks
from memory_core.model import MemoryEntry, MemoryId, SearchHit
from memory_core.solution import INSIGHT_PREFIX, StandardSolution
from memory_core.testing import FakeClock, make_entry
from memory_core.testing.samples import NASTY_KEYS
from memory_searcher_fulltext.searcher import FulltextSearcher

from .fakes import FailingStorer, down, make_solution, solution_over
from .test_plugins import with_plugin

Parts = tuple[StandardSolution, FailingStorer, FakeClock]


@pytest.fixture
def parts(tmp_path: Path) -> Any:
    made = make_solution(tmp_path)
    yield made
    made[0].close()


def keys(found: list[SearchHit] | list[MemoryEntry]) -> list[str]:
    return [(item.entry if isinstance(item, SearchHit) else item).id.key for item in found]


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


@pytest.mark.parametrize("scope", ["worspace", "users"])
def test_an_unknown_scope_names_the_nearest(parts: Parts, scope: str) -> None:
    solution, _, _ = parts
    nearest = "workspace" if scope == "worspace" else "user"
    for call in (
        lambda: solution.remember("k", "c", scope=scope),
        lambda: solution.recall("k", scope=scope),
        lambda: solution.forget("k", scope=scope),
        lambda: solution.search("k", scopes=[scope]),
        lambda: solution.hot(scopes=[scope]),
        lambda: solution.list_all(scopes=["user", scope]),
        lambda: solution.consolidate(["k"], "n", "i", scope=scope),
        lambda: solution.store(make_entry(scope=scope)),
    ):
        with pytest.raises(UnknownScopeError, match=f"Did you mean '{nearest}'"):
            call()


# --- scopes --------------------------------------------------------------------------------------------------------


def test_the_higher_scope_shadows_the_lower_in_every_read(parts: Parts) -> None:
    solution, _, _ = parts
    low = solution.remember("k", "coffee in user", 10, scope="user").entry
    high = solution.remember("k", "coffee in workspace", 5).entry
    assert solution.recall("k") == high
    assert solution.recall("k", scope="user") == low
    assert [hit.entry for hit in solution.search("coffee")] == [high]
    assert [hit.entry for hit in solution.search("coffee user")] == [high]
    assert solution.hot() == solution.list_all() == [high]
    assert solution.list_all(scopes=["user"]) == [low]
    assert [hit.entry for hit in solution.search("coffee", scopes=["user"])] == [low]
    assert solution.search("coffee", scopes=[]) == []
    assert solution.list_all(scopes=[]) == []
    assert solution.search("coffee", min_importance=9) == []


def test_shadowed_entries_never_eat_the_room_of_others(parts: Parts) -> None:
    """top_k is filled although the first hundred hits are shadowed."""
    solution, storer, _ = parts
    storer.put_many(make_entry(f"k{n}", "coffee coffee coffee", scope="user", importance=9) for n in range(100))
    storer.put_many(make_entry(f"k{n}", "something else", importance=3) for n in range(100))
    storer.put_many(
        make_entry(f"free{n}", "coffee with a good many other words around it", scope="user") for n in range(5)
    )
    assert sorted(keys(solution.search("coffee", top_k=5))) == [f"free{n}" for n in range(5)]
    assert sorted(keys(solution.hot(limit=5))) == [f"free{n}" for n in range(5)]
    assert len(solution.list_all(limit=1000)) == 105
    assert len(solution.search("coffee", top_k=3)) == 3


def test_what_expires_above_uncovers_what_lies_below(parts: Parts) -> None:
    solution, _, clock = parts
    low = solution.remember("k", "coffee low", 10, scope="user").entry
    solution.remember("k", "coffee high", 5, ttl_s=10)
    clock.advance(10)
    assert solution.recall("k") == low
    assert [hit.entry for hit in solution.search("coffee")] == [low]
    assert solution.list_all() == [low]


def test_forgetting_says_from_where(parts: Parts) -> None:
    solution, _, _ = parts
    for scope in ("user", "workspace"):
        solution.remember("k", "c", scope=scope)
    solution.remember("other", "c", user_id="somebody")
    assert solution.forget("k", scope="user") == ("user",)
    assert solution.forget("k", scope="user") == ()
    solution.remember("k", "c", scope="user")
    assert solution.forget("k") == ("user", "workspace")
    assert solution.forget("k") == ()
    assert solution.search("c") == []
    assert solution.recall("other", user_id="somebody") is not None


def test_forgetting_that_fails_half_way_says_what_is_gone(parts: Parts) -> None:
    solution, storer, _ = parts
    for scope in ("user", "workspace"):
        solution.remember("k", "c", scope=scope)
    storer.fails = lambda op, id: StorageUnavailableError("no") if op == "remove" and id.scope == "workspace" else None
    with pytest.raises(StorerError, match=r"removed from user.*workspace") as caught:
        solution.forget("k")
    assert isinstance(caught.value.__cause__, StorageUnavailableError)
    assert solution.recall("k", scope="user") is None
    assert solution.recall("k") is not None
    storer.fails = down("remove")
    with pytest.raises(StorageUnavailableError, match="remove failed"):
        solution.forget("k")


# --- exact keys ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", NASTY_KEYS, ids=ascii)
def test_the_entry_whose_key_is_the_query_is_always_first(parts: Parts, key: str) -> None:
    solution, storer, _ = parts
    storer.put_many(make_entry(f"noise{n}", f"{key} {key} {key}") for n in range(8))
    storer.put(make_entry(key, "nothing of the sort"))
    for text in (key, f"  {key}\n"):
        found = solution.search(text, top_k=3)
        assert keys(found)[0] == key
        assert found[0].score == 1.0
        assert found[0].explain["exact_key"] == 1.0
        assert len(found) <= 3
        assert len({hit.entry.id for hit in found}) == len(found)


def test_an_exact_key_obeys_the_filters(parts: Parts) -> None:
    solution, _, _ = parts
    solution.remember("k", "content", 3, scope="user")
    assert solution.search("k", min_importance=5) == []
    assert solution.search("k", scopes=["workspace"]) == []
    assert solution.search("k", user_id="other") == []
    assert keys(solution.search("k", scopes=["user"])) == ["k"]


@pytest.mark.parametrize("text", ["", " ", "\n", "a\x00b", "\ud800", "x" * 5000, "word " * 50_000])
def test_no_query_raises(parts: Parts, text: str) -> None:
    solution, _, _ = parts
    solution.remember("k", "content")
    assert solution.search(text) == []


@pytest.mark.parametrize("count", [0, -1])
def test_no_room_finds_nothing(parts: Parts, count: int) -> None:
    solution, _, _ = parts
    solution.remember("k", "content")
    assert solution.search("content", top_k=count) == []
    assert solution.hot(limit=count) == solution.list_all(limit=count) == []


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


@pytest.mark.parametrize("error", [StorageUnavailableError("no"), OSError("no"), RuntimeError("no")])
def test_purging_that_fails_does_not_fail_the_write(
    parts: Parts, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    solution, storer, _ = parts
    storer.fails = lambda operation, id: error if operation == "purge" else None
    assert solution.remember("k", "c").entry == solution.recall("k")
    assert "could not be purged" in caplog.text


# --- consolidating -------------------------------------------------------------------------------------------------


def test_merging_writes_first_and_then_removes_from_every_scope(parts: Parts) -> None:
    solution, storer, _ = parts
    solution.remember("a", "one", scope="user")
    solution.remember("a", "one too")
    solution.remember("b", "two")
    storer.calls.clear()
    done = solution.consolidate(["a", "b", "a", "ghost"], "new", "the insight")
    assert done.entry.content == INSIGHT_PREFIX + "the insight"
    assert (done.entry.importance, done.entry.expires_at) == (10, None)
    assert set(done.removed) == {
        MemoryId("user", "shared", "a"),
        MemoryId("workspace", "shared", "a"),
        MemoryId("workspace", "shared", "b"),
    }
    assert (done.missing, done.left) == (("ghost",), ())
    assert storer.calls.index("put") < storer.calls.index("remove")
    assert keys(solution.list_all()) == ["new"]


def test_the_prefix_is_not_doubled(parts: Parts) -> None:
    assert parts[0].consolidate([], "n", INSIGHT_PREFIX + "x").entry.content == INSIGHT_PREFIX + "x"


def test_a_merged_key_may_be_the_new_one(parts: Parts) -> None:
    solution, _, _ = parts
    solution.remember("a", "one")
    solution.remember("b", "two")
    done = solution.consolidate(["a", "b"], " a ", "both")
    assert [id.key for id in done.removed] == ["b"]
    entry = solution.recall("a")
    assert entry is not None
    assert entry.content == INSIGHT_PREFIX + "both"


@pytest.mark.parametrize(
    ("keys_to_merge", "new_key", "insight", "error"),
    [
        (["a"], "", "i", InvalidKeyError), (["a"], " ", "i", InvalidKeyError), (["a"], "n", "", InvalidEntryError),
        (["a"], "n", "\n", InvalidEntryError), (["a", ""], "n", "i", InvalidKeyError), (["a", "\x00"], "n", "i", InvalidKeyError),
        (["a"], "n", "\ud800", InvalidEntryError),
    ],
)  # fmt: skip
def test_blank_or_illegal_input_changes_nothing(
    parts: Parts, keys_to_merge: list[str], new_key: str, insight: str, error: type[Exception]
) -> None:
    solution, _, _ = parts
    solution.remember("a", "one")
    with pytest.raises(error):
        solution.consolidate(keys_to_merge, new_key, insight)
    assert keys(solution.list_all()) == ["a"]


def test_an_insight_that_is_not_stored_removes_nothing(parts: Parts) -> None:
    solution, storer, _ = parts
    solution.remember("a", "one")
    storer.fails = down("put")
    with pytest.raises(StorageUnavailableError):
        solution.consolidate(["a"], "n", "i")
    storer.fails = lambda operation, id: None
    assert keys(solution.list_all()) == ["a"]


def test_an_insight_that_cannot_be_read_back_removes_nothing(parts: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    solution, storer, _ = parts
    solution.remember("a", "one")
    monkeypatch.setattr(FailingStorer, "put", lambda self, entry: None)
    with pytest.raises(StorerError, match="no merged memory was removed"):
        solution.consolidate(["a"], "n", "i")
    assert storer.get(MemoryId("workspace", "shared", "a")) is not None


def test_a_partial_failure_names_what_is_left(parts: Parts) -> None:
    solution, storer, _ = parts
    for key in "abc":
        solution.remember(key, key)
    storer.fails = lambda op, id: StorageUnavailableError("disk") if op == "remove" and id.key == "b" else None
    done = solution.consolidate(["a", "b", "c"], "n", "i")
    assert [id.key for id in done.removed] == ["a", "c"]
    assert {(id.key, reason) for id, reason in done.left} == {("b", "disk")}
    assert done.missing == ()
    assert set(keys(solution.list_all())) == {"b", "n"}


# --- following -----------------------------------------------------------------------------------------------------


def test_another_solution_s_writes_are_found(parts: Parts) -> None:
    solution, storer, clock = parts
    other = solution_over(storer, clock)
    assert solution.search("coffee") == []
    other.remember("k", "coffee")
    assert keys(solution.search("coffee")) == ["k"]
    other.forget("k")
    assert solution.search("coffee") == []


def test_synchronising_counts_what_it_took_over(parts: Parts) -> None:
    solution, storer, _ = parts
    assert solution.sync() == 0
    storer.put_many(make_entry(f"k{n}") for n in range(2500))
    assert solution.sync() == 2500
    assert solution.sync() == 0


def test_an_index_that_lost_everything_is_built_anew(parts: Parts) -> None:
    solution, storer, _ = parts
    storer.put_many(make_entry(f"k{n}", f"coffee {n}", user=f"u{n % 3}") for n in range(30))
    assert solution.reindex() == 30
    assert solution.reindex("u1") == 10
    solution.searcher.clear()
    assert len(solution.search("coffee", user_id="u1", top_k=50)) == 10
    assert solution.reindex("nobody") == 0


def test_an_index_that_refuses_a_batch_does_not_lose_it(parts: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    solution, _, _ = parts
    apply = FulltextSearcher.apply

    def refuse(*args: Any) -> None:
        raise IndexUnavailableError("full")

    monkeypatch.setattr(FulltextSearcher, "apply", refuse)
    solution.remember("k", "coffee")
    with pytest.raises(IndexUnavailableError):
        solution.search("coffee")
    monkeypatch.setattr(FulltextSearcher, "apply", apply)
    assert keys(solution.search("coffee")) == ["k"]


# --- hooks ---------------------------------------------------------------------------------------------------------


def test_hooks_change_refuse_and_rerank(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def redact(entry: MemoryEntry) -> MemoryEntry | None:
        return (
            None
            if "password" in entry.content
            else entry.model_copy(update={"content": entry.content.replace("hunter2", "***")})
        )

    hooks = Hooks(
        with_plugin(before_store=redact, after_search=lambda hits: hits[::-1], compute_ttl=lambda importance: 60)
    )
    solution, storer, clock = make_solution(tmp_path, hooks=hooks)
    entry = solution.remember("k", "the word is hunter2").entry
    assert storer.get(entry.id) == entry
    assert entry.content == "the word is ***"
    assert entry.expires_at == clock.now() + timedelta(seconds=60)
    assert solution.compute_ttl(10) == 60
    assert solution.remember("k3", "x", 10, ttl_s=5).entry.expires_at == clock.now() + timedelta(seconds=5)
    with pytest.raises(VetoedError):
        solution.remember("k2", "my password")
    with pytest.raises(VetoedError):
        solution.store(make_entry("k2", "my password"))
    assert solution.recall("k2") is None
    assert caplog.text == ""
    solution.close()


def test_an_insight_that_a_hook_rewrites_is_still_verified(tmp_path: Path) -> None:
    hooks = Hooks(with_plugin(before_store=lambda entry: entry.model_copy(update={"content": entry.content.upper()})))
    solution, _, _ = make_solution(tmp_path, hooks=hooks)
    solution.remember("a", "one")
    assert [id.key for id in solution.consolidate(["a"], "n", "insight").removed] == ["a"]
    solution.close()


# --- tenants, threads, asyncio -------------------------------------------------------------------------------------


def test_tenants_never_meet(parts: Parts) -> None:
    solution, _, _ = parts
    for user in ("user", "user2", "us_r", "User", "*", "%"):
        solution.remember("k", f"coffee of {user}", 9, user_id=user, metadata={"user_id": "user"})
    for user in ("user", "user2", "us_r", "User", "*", "%"):
        for found in (solution.search("coffee", user_id=user), solution.search("k", user_id=user)):
            assert [hit.entry.id.user_id for hit in found] == [user]
        assert [entry.id.user_id for entry in solution.hot(user_id=user)] == [user]
        assert solution.count(user_id=user) == 1
    assert solution.forget("k", user_id="user") == ("workspace",)
    assert solution.count(user_id="user2") == 1


def test_threads_of_many_users_find_what_they_just_wrote(tmp_path: Path) -> None:
    """More users than the index holds at once: each read must still see its own writes, whole."""
    solution, _, _ = make_solution(tmp_path, searcher=FulltextSearcher(max_users=1))

    def work(worker: int) -> None:
        for number in range(12):
            solution.remember(f"k{number}", f"coffee {number}", user_id=f"u{worker}")
            found = solution.search("coffee", user_id=f"u{worker}", top_k=100)
            assert len(found) == number + 1, f"u{worker} sees {len(found)} of {number + 1}"

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))
    solution.close()


def test_reindexing_beside_readers_and_writers_loses_nothing(parts: Parts) -> None:
    solution, _, _ = parts

    def write(worker: int) -> None:
        for number in range(20):
            solution.remember(f"w{worker}-{number}", "coffee")
            solution.sync()

    with ThreadPoolExecutor(4) as pool:
        jobs = [pool.submit(write, n) for n in range(3)]
        for _ in range(15):
            solution.reindex()
        for job in jobs:
            job.result()
    assert len(solution.search("coffee", top_k=100)) == 60


def test_closing_twice_is_harmless_and_a_closed_solution_can_be_asked_again(
    parts: Parts, caplog: pytest.LogCaptureFixture
) -> None:
    solution, _, _ = parts
    with caplog.at_level(logging.WARNING):
        solution.remember("k", "coffee")
        solution.close()
        solution.close()
        assert keys(solution.search("coffee")) == ["k"]
    assert solution.problems() == []


async def test_the_async_facade_is_the_same_over_threads(parts: Parts) -> None:
    solution, _, _ = parts
    facade = AsyncMemorySolution(solution)
    await asyncio.gather(*(facade.remember(f"k{n}", f"coffee {n}") for n in range(10)))
    assert len(await facade.search("coffee", top_k=20)) == 10
    assert await facade.recall("k1") == solution.recall("k1")
    assert facade.scopes == ("user", "workspace")
    assert facade.default_scope == "workspace"
    with pytest.raises(InvalidKeyError):
        await facade.remember("", "x")
    with pytest.raises(AttributeError):
        _ = facade.no_such_method
    assert await facade.forget("k1") == ("workspace",)
    await facade.close()
