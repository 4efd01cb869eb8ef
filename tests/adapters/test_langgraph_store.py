"""The LangGraph store beside LangGraph's own, and what is ours: TTL, restarts, one store with the other tools."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypedDict
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langgraph.store.base import GetOp, InvalidNamespaceError, Item, ListNamespacesOp, MatchCondition, PutOp, SearchOp
from langgraph.store.memory import InMemoryStore

from memory_core.adapters.langgraph_items import memory_key
from memory_core.adapters.langgraph_store import SolutionStore
from memory_core.contracts import MemorySolution
from memory_core.errors import InvalidEntryError, InvalidKeyError
from memory_core.loading import load_provider
from memory_core.model import MemoryEntry
from memory_core.testing import FakeClock
from tests.core.fakes import make_solution


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def kept(tmp_path: Path, clock: FakeClock) -> Iterator[MemorySolution]:
    made, _, _ = make_solution(tmp_path, clock)
    yield made
    made.close()


@pytest.fixture
def store(kept: MemorySolution, clock: FakeClock) -> SolutionStore:
    return SolutionStore(kept, clock=clock)


def keys(found: Any) -> list[str]:
    return [item.key for item in found]


# --- namespaces, filters, batch, async -----------------------------------------------------------------------------


def test_an_item_is_put_read_replaced_and_deleted(store: SolutionStore, clock: FakeClock) -> None:
    store.put(("users", "ann"), "prefs", {"theme": "dark", "n": [1, None, {"x": 2.5}]})
    item = store.get(("users", "ann"), "prefs")
    assert item is not None
    assert (item.namespace, item.key, item.value) == (
        ("users", "ann"),
        "prefs",
        {"theme": "dark", "n": [1, None, {"x": 2.5}]},
    )
    clock.advance(5)
    store.put(("users", "ann"), "prefs", {"theme": "light"})
    newer = store.get(("users", "ann"), "prefs")
    assert newer is not None
    assert newer.value == {"theme": "light"}
    assert newer.created_at == item.created_at < newer.updated_at
    newer.value["theme"] = "changed outside"
    assert store.get(("users", "ann"), "prefs").value == {"theme": "light"}  # type: ignore[union-attr]  # it is there
    store.delete(("users", "ann"), "prefs")
    assert store.get(("users", "ann"), "prefs") is None


@pytest.mark.parametrize("namespace", [(), ("a.b",), ("",), ("langgraph", "x")])
def test_langgraphs_own_rules_of_namespaces_hold(store: SolutionStore, namespace: tuple[str, ...]) -> None:
    with pytest.raises(InvalidNamespaceError):
        store.put(namespace, "k", {"a": 1})


def test_a_search_pages_the_newest_first(store: SolutionStore, clock: FakeClock) -> None:
    for number in range(25):
        clock.advance(1)
        store.put(("docs", "x" if number % 2 else "y"), f"k{number:02}", {"n": number})
    assert keys(store.search(("docs",), limit=3)) == ["k24", "k23", "k22"]
    assert keys(store.search(("docs",), limit=3, offset=23)) == ["k01", "k00"]
    assert keys(store.search(("docs", "x"), limit=2)) == ["k23", "k21"]
    assert store.search(("doc",)) == []
    assert store.search(("*",)) == []  # a prefix is no pattern
    assert len(store.search((), limit=100)) == 25


def test_a_query_finds_by_text_within_namespace_and_filter(store: SolutionStore) -> None:
    store.put(("docs",), "python", {"text": "A Python tutorial", "level": 1})
    store.put(("docs",), "typescript", {"text": "A TypeScript guide", "level": 2})
    store.put(("other",), "python", {"text": "A Python tutorial", "level": 1})
    store.put(("docs",), "hidden", {"text": "A Python secret"}, index=False)
    store.put(("docs",), "partial", {"text": "A Python book", "title": "Cooking"}, index=["title"])
    store.put(("docs",), "中文", {"text": "用户喜欢使用Solon框架"})
    found = store.search(("docs",), query="python tutorial")
    assert keys(found) == ["python"]
    assert found[0].score is not None
    assert keys(store.search(("docs",), query="cooking")) == ["partial"]
    assert keys(store.search(("docs",), query="框架")) == ["中文"]
    assert store.search(("docs",), query="tutorial", filter={"level": 2}) == []
    assert keys(store.search((), query="tutorial", filter={"level": {"$lte": 1}})) == ["python", "python"]


def test_a_rare_item_is_found_behind_many_hits_of_another_namespace(store: SolutionStore) -> None:
    for number in range(300):
        store.put(("noise",), f"k{number}", {"text": "tea"})
    store.put(("mine",), "k", {"text": "tea, and a long text about many other things that are not the subject"})
    assert keys(store.search(("mine",), query="tea")) == ["k"]


def test_a_batch_reads_before_it_writes_and_its_last_write_wins(store: SolutionStore) -> None:
    store.put(("a",), "k", {"v": 0})
    results = store.batch(
        [PutOp(("a",), "k", {"v": 1}), GetOp(("a",), "k"), PutOp(("a",), "k", {"v": 2}), SearchOp(("a",))]
    )
    assert results[0] is None
    assert isinstance(results[1], Item)
    assert results[1].value == {"v": 0}
    assert store.get(("a",), "k").value == {"v": 2}  # type: ignore[union-attr]  # it is there
    with pytest.raises(ValueError, match="Unknown operation"):
        store.batch(["x"])  # type: ignore[list-item]  # wrong on purpose
    with pytest.raises(ValueError, match="Unsupported operator"):
        store.search(("a",), filter={"v": {"$regex": "x"}})


async def test_tasks_at_once(store: SolutionStore) -> None:
    await asyncio.gather(*(store.aput(("a", str(n % 3)), f"k{n}", {"n": n}) for n in range(30)))
    assert len(await store.asearch(("a",), limit=100)) == 30
    assert await store.alist_namespaces(prefix=("a",)) == [("a", "0"), ("a", "1"), ("a", "2")]
    await store.adelete(("a", "0"), "k0")
    assert await store.aget(("a", "0"), "k0") is None


def test_values_and_keys_that_cannot_be_kept_are_refused(store: SolutionStore) -> None:
    for value in ({"x": float("nan")}, {"x": {1, 2}}, {"x": object()}):
        with pytest.raises(InvalidEntryError):
            store.put(("a",), "k", value)
    with pytest.raises(InvalidKeyError):
        store.put(("a",), "k" * 600, {"v": 1})
    store.put(("a",), "empty", {})
    assert store.get(("a",), "empty").value == {}  # type: ignore[union-attr]  # it is there


LABELS = st.sampled_from(["a", "b", "x y", "中"])
NAMESPACES = st.lists(LABELS, min_size=1, max_size=3).map(tuple)
NAMES = st.sampled_from(["k", "l/m", "%", "k ", ""])
VALUES = st.fixed_dictionaries({"n": st.integers(0, 3), "t": st.sampled_from(["x", "y"]), "d": st.just({"e": [1]})})
FILTERS: "st.SearchStrategy[dict[str, Any] | None]" = st.sampled_from(
    [None, {"n": 1}, {"n": {"$gt": 1}}, {"n": {"$gte": 1, "$lt": 3}}, {"t": {"$ne": "x"}}, {"d": {"e": [1]}}, {"z": 1}]
)
OPS = st.one_of(
    st.builds(PutOp, NAMESPACES, NAMES, st.none() | VALUES, st.none(), st.none()),
    st.builds(GetOp, NAMESPACES, NAMES, st.booleans()),
    st.builds(
        SearchOp, st.lists(LABELS, max_size=2).map(tuple), FILTERS, st.just(100), st.just(0), st.none(), st.booleans()
    ),
    st.builds(
        ListNamespacesOp,
        st.none()
        | st.builds(
            MatchCondition,
            st.sampled_from(["prefix", "suffix"]),
            st.lists(LABELS | st.just("*"), min_size=1, max_size=2).map(tuple),
        ).map(lambda one: (one,)),
        st.none() | st.integers(1, 2),
        st.just(100),
        st.just(0),
    ),
)


def seen(result: Any) -> Any:
    if isinstance(result, Item):
        return (result.namespace, result.key, result.value)
    if isinstance(result, list):
        items: list[Any] = result  # pyright: ignore[reportUnknownVariableType] - a list of anything
        return sorted(map(seen, items), key=repr)
    return result


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batches=st.lists(st.lists(OPS, max_size=4), max_size=6))
def test_it_answers_as_langgraphs_own_store(kept: MemorySolution, batches: list[list[Any]]) -> None:
    ours, theirs = SolutionStore(kept, user_id=uuid4().hex), InMemoryStore()
    for ops in batches:
        got, expected = ours.batch(ops), theirs.batch(ops)
        for op, one, other in zip(ops, got, expected, strict=True):
            if isinstance(op, ListNamespacesOp):  # theirs goes on naming namespaces whose last item is gone
                assert set(seen(one)) <= set(seen(other))
            else:
                assert seen(one) == seen(other), op


@given(st.lists(st.lists(st.text(max_size=8), min_size=2, max_size=3), min_size=2, max_size=6))
def test_no_two_items_share_a_memory(paths: list[list[str]]) -> None:
    different = {tuple(path) for path in paths}
    assert len({memory_key(path[:-1], path[-1]) for path in different}) == len(different)


# --- TTL -----------------------------------------------------------------------------------------------------------


def test_an_item_lives_for_its_minutes_and_reading_renews_it(kept: MemorySolution, clock: FakeClock) -> None:
    store = SolutionStore(kept, clock=clock, ttl={"default_ttl": 10, "refresh_on_read": True})
    store.put(("a",), "default", {"v": 1})
    store.put(("a",), "short", {"v": 1}, ttl=0.5)
    store.put(("a",), "always", {"v": 1}, ttl=None)
    clock.advance(minutes=9)
    assert store.get(("a",), "short") is None
    assert store.get(("a",), "default") is not None
    clock.advance(minutes=9)
    assert store.search(("a",), refresh_ttl=False, filter={"v": 1}) != []
    assert store.get(("a",), "default", refresh_ttl=False) is not None
    clock.advance(minutes=2)
    assert keys(store.search(("a",))) == ["always"]
    assert store.list_namespaces() == [("a",)]


def test_renewing_what_was_read_undoes_no_write(kept: MemorySolution, clock: FakeClock) -> None:
    store = SolutionStore(kept, clock=clock, ttl={"default_ttl": 10, "refresh_on_read": True})
    key = memory_key(("a",), "k")
    for change in ({"v": 2}, None):
        store.put(("a",), "k", {"v": 1})
        read = kept.recall(key)
        assert read is not None
        clock.advance(minutes=5)
        store.batch([PutOp(("a",), "k", change)])
        store._refresh([read], wanted=True)
        now = store.get(("a",), "k", refresh_ttl=False)
        assert (now and now.value) == change


def test_reading_often_does_not_write_often(
    kept: MemorySolution, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SolutionStore(kept, clock=clock, ttl={"default_ttl": 10, "refresh_on_read": True})
    store.put(("a",), "k", {"v": 1})
    writes: list[MemoryEntry] = []
    monkeypatch.setattr(kept, "store", writes.append)
    for _ in range(50):
        clock.advance(seconds=0.1)
        store.get(("a",), "k")
    assert writes == []
    clock.advance(seconds=30)
    store.get(("a",), "k")
    assert len(writes) == 1


def test_a_ttl_that_is_none_is_refused_and_a_very_long_one_is_for_ever(store: SolutionStore) -> None:
    for ttl in (0, -1, float("nan")):
        with pytest.raises(InvalidEntryError, match="TTL"):
            store.put(("a",), "k", {"v": 1}, ttl=ttl)
    store.put(("a",), "k", {"v": 1}, ttl=1e300)
    assert store.get(("a",), "k") is not None


# --- one store with the rest ---------------------------------------------------------------------------------------


def test_items_outlive_the_process_and_are_memories_of_their_user(workspace: Path) -> None:
    first = load_provider(workspace)
    SolutionStore(first.get(workspace), user_id="ann").put(("prefs",), "drink", {"text": "Drinks sencha"})
    first.close()
    second = load_provider(workspace)
    solution = second.get(workspace)
    store = SolutionStore(solution, user_id="ann")
    assert store.get(("prefs",), "drink") is not None
    assert SolutionStore(solution, user_id="bob").search(()) == []
    assert [hit.entry.content for hit in solution.search("sencha", user_id="ann")] == ["Drinks sencha"]
    solution.remember("prefs/drink2", "no item", 5, user_id="ann")
    assert store.get(("prefs",), "drink2") is None
    assert keys(store.search((), query="item drinks")) == ["drink"]
    second.close()


def test_a_graph_uses_it(store: SolutionStore) -> None:
    from langgraph.graph import END, START, StateGraph
    from langgraph.runtime import Runtime

    class State(TypedDict):
        text: str

    def node(state: State, runtime: Runtime[None]) -> State:
        assert runtime.store is not None
        runtime.store.put(("notes",), "last", {"text": state["text"]})
        return {"text": str(len(runtime.store.search(("notes",), query="tea")))}

    graph: Any = StateGraph(State)
    graph.add_node("node", node)
    graph.add_edge(START, "node")
    graph.add_edge("node", END)
    assert graph.compile(store=store).invoke({"text": "Drinks tea"}) == {"text": "1"}
