"""An index follows its store: writes of others, lost indexes, threads, tenants, hooks."""

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
from memory_core.errors import (
    IndexUnavailableError,
    InvalidKeyError,
    VetoedError,
)
from memory_core.hooks import Hooks
from memory_core.model import MemoryEntry
from memory_core.testing import make_entry
from memory_searcher_fulltext.searcher import FulltextSearcher

from .fakes import Parts, keys, make_solution, solution_over
from .test_plugins import with_plugin

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
