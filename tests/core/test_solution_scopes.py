"""Scopes of one solution: names, what shadows what, and exact keys that come first."""

# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false
# (hooks and rules are written as lambdas here: their arguments are known by name only)

import pytest

from memory_core.errors import (
    StorageUnavailableError,
    StorerError,
    UnknownScopeError,
)
from memory_core.testing import make_entry
from memory_core.testing.samples import NASTY_KEYS

from .fakes import Parts, down, keys

# --- remembering ---------------------------------------------------------------------------------------------------


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
