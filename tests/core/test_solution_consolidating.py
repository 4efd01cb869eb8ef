"""Merging memories into an insight: written first, removed after, and what a failure leaves."""

# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false
# (hooks and rules are written as lambdas here: their arguments are known by name only)

import pytest

from memory_core.errors import (
    InvalidEntryError,
    InvalidKeyError,
    StorageUnavailableError,
    StorerError,
)
from memory_core.model import MemoryId
from memory_core.solution import INSIGHT_PREFIX

from .fakes import FailingStorer, Parts, down, keys


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


@pytest.mark.parametrize(("old", "new"), [("workspace", "user"), ("user", "workspace")])
def test_nothing_that_was_merged_hides_the_insight(parts: Parts, old: str, new: str) -> None:
    solution, _, _ = parts
    solution.remember("x", "one", scope=old)
    solution.remember("a", "two", scope=old)
    done = solution.consolidate(["a", "x"], "x", "both", scope=new)
    assert set(done.removed) == {MemoryId(old, "shared", "a"), MemoryId(old, "shared", "x")}
    assert done.missing == ()
    assert solution.recall("x") == done.entry
    assert keys(solution.search("both")) == ["x"]


@pytest.mark.parametrize("insight", [INSIGHT_PREFIX, INSIGHT_PREFIX.strip(), INSIGHT_PREFIX + "\n "])
def test_the_prefix_alone_is_no_insight(parts: Parts, insight: str) -> None:
    solution, _, _ = parts
    solution.remember("a", "one")
    with pytest.raises(InvalidEntryError, match="blank"):
        solution.consolidate(["a"], "n", insight)
    assert keys(solution.list_all()) == ["a"]


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
