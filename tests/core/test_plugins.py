"""Plugins: one broken one is named and breaks nothing else; every hook is documented and run."""

# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false
# (hooks and rules are written as lambdas here: their arguments are known by name only)

import inspect
import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from memory_core.errors import (
    DuplicateBackendError,
    MissingExtraError,
    PluginError,
    StorerError,
    UnknownBackendError,
    VetoedError,
)
from memory_core.hooks import Hooks
from memory_core.model import MemoryEntry, SearchHit, SearchQuery
from memory_core.plugins import PluginRegistry, get_registry, hookimpl, hookspecs, registry
from memory_core.plugins.registry import KINDS, NoOptions
from memory_core.testing import FakeClock, make_entry
from memory_core.testing.clock import START

from .fakes import make_solution


def plugin(**hooks: Any) -> SimpleNamespace:
    return SimpleNamespace(**{name: hookimpl(function) for name, function in hooks.items()})


def with_plugin(name: str = "theirs", **hooks: Any) -> PluginRegistry:
    found = PluginRegistry()
    found.register(plugin(**hooks), name)
    return found


def backend(name: str, kind: str = "storer", factory: Any = None, **more: Any) -> Any:
    def register_backends(register: Any) -> None:
        getattr(register, kind)(name, factory or (lambda options, context: (name, options, context)), **more)

    return register_backends


QUERY = SearchQuery("shared", "x", 5, START)


# --- the surface ---------------------------------------------------------------------------------------------------

HOOKS = {name for name, function in vars(hookspecs).items() if hasattr(function, "memory_core_spec")}


def test_there_are_five_hooks_and_each_is_documented() -> None:
    assert {"register_backends", "before_store", "after_search", "compute_ttl", "register_commands"} == HOOKS
    for name in HOOKS:
        text = inspect.getdoc(getattr(hookspecs, name)) or ""
        assert text.startswith("Called "), name
        assert "error" in text, f"{name} does not say what an error means"


def test_the_surface_fits_one_screen() -> None:
    assert len(inspect.getsource(hookspecs).splitlines()) <= 60


def test_every_hook_is_tested_here() -> None:
    tests = [source for name, source in globals().items() if name.startswith("test_") and callable(source)]
    for hook in HOOKS:
        assert any(
            f"{hook}=" in inspect.getsource(test) for test in tests if test is not test_every_hook_is_tested_here
        ), hook


def test_built_ins_come_through_the_same_door() -> None:
    found = get_registry()
    assert "markdown" in found.names("storer")
    assert "fulltext" in found.names("searcher")
    assert "workspace" in found.names("provider")
    assert found.plugins["storer-markdown"] == registry.DISTRIBUTION
    assert [b.plugin for b in found.backends() if (b.kind, b.name) == ("storer", "markdown")] == ["storer-markdown"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_backend_can_be_registered(kind: Any) -> None:
    found = with_plugin(register_backends=backend("mine", kind))
    assert found.names(kind) == ["mine"]
    assert found.backend(kind, "mine").build(NoOptions(), "context") == ("mine", NoOptions(), "context")


# --- loading -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Point:
    """An entry point as the registry sees it."""

    name: str
    result: Any
    dist: Any = None

    def load(self) -> Any:
        if isinstance(self.result, BaseException):
            raise self.result
        return self.result


def load(monkeypatch: pytest.MonkeyPatch, *points: Point) -> PluginRegistry:
    def entry_points(*, group: str) -> list[Point]:
        assert group == "memory_core"
        return list(points)

    monkeypatch.setattr(registry, "entry_points", entry_points)
    found = PluginRegistry()
    found.load()
    return found


@pytest.mark.parametrize(
    "error", [ImportError("no such\nthing"), SyntaxError("bad"), RuntimeError("boom"), SystemExit(3), MemoryError()]
)
def test_a_plugin_that_cannot_be_imported_is_named_and_breaks_nothing(
    monkeypatch: pytest.MonkeyPatch, error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    found = load(monkeypatch, Point("a-broken", error), Point("b-good", plugin(register_backends=backend("mine"))))
    assert found.names("storer") == ["mine"]
    assert [failure.plugin for failure in found.failures] == ["a-broken"]
    message = str(found.failures[0].error)
    assert type(error).__name__ in message
    assert "\n" not in message
    assert "a-broken" in caplog.text
    with pytest.raises(UnknownBackendError, match=r"Installed are: mine\. Plugins that failed to load: a-broken\."):
        found.backend("storer", "other")


def test_an_interrupt_is_nobody_s_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KeyboardInterrupt):
        load(monkeypatch, Point("x", KeyboardInterrupt()))


def test_a_real_entry_point_that_names_nothing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    point: Any = EntryPoint("ghost", "memory_core_no_such_module_at_all", "memory_core")
    assert "ModuleNotFoundError" in str(load(monkeypatch, point).failures[0].error)


def test_our_own_come_first_so_that_nobody_takes_a_name_away(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = SimpleNamespace(name=registry.DISTRIBUTION)
    found = load(
        monkeypatch,
        Point("aaa", plugin(register_backends=backend("markdown")), SimpleNamespace(name="evil")),
        Point("storer-markdown", plugin(register_backends=backend("markdown")), ours),
    )
    assert found.backend("storer", "markdown").plugin == "storer-markdown"
    assert isinstance(found.failures[0].error, DuplicateBackendError)
    assert "'aaa'" in str(found.failures[0].error)
    assert "'storer-markdown'" in str(found.failures[0].error)


def test_two_packages_with_one_plugin_name_keep_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    found = load(
        monkeypatch,
        Point("same", plugin(register_backends=backend("one"))),
        Point("same", plugin(register_backends=backend("two"))),
    )
    assert found.names("storer") == ["one"]
    assert "Two installed packages" in str(found.failures[0].error)


@pytest.mark.parametrize(
    ("hooks", "said"),
    [
        ({"before_stroe": lambda entry: entry}, "before_stroe"),
        ({"before_store": lambda memory: memory}, "memory"),
        ({"register_backends": lambda register: 1 / 0}, "ZeroDivisionError"),
        ({"register_backends": lambda register: register.storr("x")}, "AttributeError"),
    ],
)
def test_a_plugin_that_breaks_the_rules_is_out_as_a_whole(hooks: dict[str, Any], said: str) -> None:
    found = PluginRegistry()
    found.register(
        plugin(**{"register_backends": backend("mine"), "compute_ttl": lambda importance: 5, **hooks}), "bad"
    )
    found.register(plugin(register_backends=backend("other")), "good")
    assert found.names("storer") == ["other"]
    assert list(found.hooks("compute_ttl")) == []
    assert said in str(found.failures[0].error)
    assert set(found.plugins) == {"good"}


def test_a_plugin_that_fails_half_way_leaves_nothing_behind() -> None:
    def half(register: Any) -> None:
        register.storer("half", lambda options, context: None)
        raise RuntimeError("then it broke")

    assert with_plugin(register_backends=half).names("storer") == []


@pytest.mark.parametrize("same_object", [True, False])
def test_registering_a_name_twice_keeps_the_first_one_whole(same_object: bool) -> None:
    first = plugin(register_backends=backend("mine"), compute_ttl=lambda importance: 7)
    found = PluginRegistry()
    found.register(first, "x")
    found.register(first if same_object else plugin(register_backends=backend("other")), "x")
    assert found.names("storer") == ["mine"]
    assert [hook(importance=1) for _, hook in found.hooks("compute_ttl")] == [7]
    assert len(found.failures) == 1


def test_a_missing_package_becomes_an_instruction() -> None:
    def needs(options: Any, context: Any) -> None:
        raise ModuleNotFoundError("No module named 'redis'", name="redis.asyncio")

    found = with_plugin("p", register_backends=backend("redis", factory=needs, extra="redis"))
    with pytest.raises(
        MissingExtraError, match=r"needs the package 'redis.asyncio'.*pip install 'memory-talent\[redis\]'"
    ):
        found.backend("storer", "redis").build(NoOptions(), None)
    found = with_plugin("p", register_backends=backend("theirs", factory=needs))
    with pytest.raises(MissingExtraError, match="install what the plugin 'p' needs"):
        found.backend("storer", "theirs").build(NoOptions(), None)


def test_a_missing_module_of_our_own_is_not_called_a_missing_package() -> None:
    def broken(options: Any, context: Any) -> None:
        raise ModuleNotFoundError("No module named 'memory_core.nothing'", name="memory_core.nothing")

    with pytest.raises(ModuleNotFoundError) as caught:
        with_plugin(register_backends=backend("x", factory=broken)).backend("storer", "x").build(NoOptions(), None)
    assert not isinstance(caught.value, MissingExtraError)


def test_the_nearest_name_is_given() -> None:
    found = with_plugin(register_backends=backend("markdown"))
    with pytest.raises(UnknownBackendError, match="Did you mean 'markdown'"):
        found.backend("storer", "markdwn")
    with pytest.raises(LookupError, match="Installed are: none"):
        found.backend("searcher", "x")


# --- hooks ---------------------------------------------------------------------------------------------------------


def shout(entry: MemoryEntry) -> MemoryEntry:
    return entry.model_copy(update={"content": entry.content + "!"})


def test_each_plugin_sees_what_the_one_before_returned() -> None:
    found = with_plugin("one", before_store=shout)
    found.register(plugin(before_store=lambda entry: shout(shout(entry))), "two")
    hooks = Hooks(found, [("filter", shout)])
    assert hooks.before_store(make_entry("k", "c")).content == "c!!!!"


def test_a_hook_may_take_no_argument_at_all() -> None:
    assert Hooks(with_plugin(compute_ttl=lambda: 9)).compute_ttl(5) == 9


def test_a_veto_names_the_plugin_and_the_key_and_not_the_content() -> None:
    hooks = Hooks(with_plugin("censor", before_store=lambda entry: None))
    with pytest.raises(VetoedError, match="'censor' refused to store 'k'") as caught:
        hooks.before_store(make_entry("k", "secret"))
    assert "secret" not in str(caught.value)
    with pytest.raises(VetoedError, match="'redact'"):
        Hooks(None, [("redact", lambda entry: None)]).before_store(make_entry())


def test_a_veto_with_a_reason_keeps_it() -> None:
    def veto(entry: MemoryEntry) -> MemoryEntry:
        raise VetoedError("it looks like a password")

    with pytest.raises(VetoedError, match="looks like a password"):
        Hooks(with_plugin(before_store=veto)).before_store(make_entry())


@pytest.mark.parametrize(
    "result",
    [
        make_entry("other"),
        make_entry("key", user="else"),
        make_entry("key", scope="user"),
        "text",
        {"content": "x"},
        True,
    ],
    ids=["key", "user", "scope", "text", "dict", "bool"],
)
def test_an_entry_must_come_back_under_its_id(result: Any) -> None:
    with pytest.raises(PluginError, match="'theirs' must return the entry under the same id"):
        Hooks(with_plugin(before_store=lambda entry: result)).before_store(make_entry())


UNSTORABLE: dict[str, Any] = {
    "content": " \n",
    "importance": 50,
    "created_at": None,
    "updated_at": datetime(2026, 3, 1),
    "expires_at": datetime(2026, 3, 1),
    "source": "lone \ud800 surrogate",
    "metadata": {"ratio": float("nan")},
}
SPOILED: list[dict[str, Any]] = [
    *({field: value} for field, value in UNSTORABLE.items()),
    *({"metadata": {"x": value}} for value in ({1, 2}, "\udfff", b"bytes", FakeClock().now(), 10**5000)),
    *({"content": value} for value in ("\ud800", None, 7)),
]


@pytest.mark.parametrize("change", SPOILED, ids=[f"{n}-{next(iter(spoiled))}" for n, spoiled in enumerate(SPOILED)])
def test_what_a_plugin_made_unstorable_is_not_stored(change: dict[str, Any], tmp_path: Path) -> None:
    hooks = [
        Hooks(with_plugin(before_store=lambda entry: entry.model_copy(update=change))),
        Hooks(None, [("theirs", lambda entry: entry.model_copy(update=change))]),
    ]
    for hook in hooks:
        solution, storer, _ = make_solution(tmp_path, hooks=hook)
        with pytest.raises(PluginError, match="'theirs' left a memory that cannot be stored: "):
            solution.remember("k", "c")
        (answer,) = solution.store_many([make_entry("k", "c")])
        assert isinstance(answer.error, PluginError)
        assert list(storer.scan()) == []
        assert list(tmp_path.rglob("*.md")) == []
        solution.close()


def test_what_a_plugin_changed_in_place_is_checked_too() -> None:
    def tag(entry: MemoryEntry) -> MemoryEntry:
        entry.metadata["tags"] = cast("Any", {"a", "b"})
        return entry

    def built(entry: MemoryEntry) -> MemoryEntry:
        return MemoryEntry.model_construct(id=entry.id, content="c", created_at=START, updated_at=cast("Any", "today"))

    for hook in (tag, built):
        with pytest.raises(PluginError, match="'theirs' left a memory that cannot be stored: "):
            Hooks(with_plugin(before_store=lambda entry, hook=hook: hook(entry))).before_store(make_entry())


@pytest.mark.parametrize("error", [ValueError("boom"), KeyError("x"), StorerError("y"), RecursionError()])
def test_a_hook_that_fails_refuses_the_write(error: Exception) -> None:
    def fail(entry: Any = None, importance: Any = None) -> Any:
        raise error

    with pytest.raises(PluginError, match="'theirs'") as caught:
        Hooks(with_plugin(before_store=lambda entry: fail())).before_store(make_entry())
    assert caught.value.__cause__ is error
    with pytest.raises(PluginError, match="'theirs'"):
        Hooks(with_plugin(compute_ttl=lambda importance: fail())).compute_ttl(5)


def hits() -> list[SearchHit]:
    return [SearchHit(make_entry(f"k{n}"), 1 - n / 10) for n in range(3)]


def test_hits_may_be_reordered_rescored_and_dropped() -> None:
    def rerank(query: SearchQuery, hits: list[SearchHit]) -> list[SearchHit]:
        return [replace(hit, score=0.5) for hit in reversed(hits[1:])]

    found = Hooks(with_plugin(after_search=rerank)).after_search(QUERY, hits())
    assert [(hit.entry.id.key, hit.score) for hit in found] == [("k2", 0.5), ("k1", 0.5)]


@pytest.mark.parametrize("result", [None, "text", 5, [1, 2], [None], (), {"a": 1}], ids=ascii)
def test_a_reranker_that_returns_nonsense_changes_nothing(result: Any, caplog: pytest.LogCaptureFixture) -> None:
    assert Hooks(with_plugin(after_search=lambda query, hits: result)).after_search(QUERY, hits()) == hits()
    assert "theirs" in caplog.text


def test_a_reranker_that_fails_changes_nothing_even_after_it_emptied_its_list(caplog: pytest.LogCaptureFixture) -> None:
    def fail(query: SearchQuery, hits: list[SearchHit]) -> list[SearchHit]:
        hits.clear()
        raise RuntimeError("boom")

    with caplog.at_level(logging.WARNING):
        assert Hooks(with_plugin(after_search=fail)).after_search(QUERY, hits()) == hits()
    assert "boom" in caplog.text


def test_a_reranker_cannot_bring_in_what_the_query_does_not_admit() -> None:
    smuggled = [SearchHit(make_entry("k", user="other"), 1.0), SearchHit(make_entry("gone", expires=START), 1.0)]
    found = Hooks(with_plugin(after_search=lambda query, hits: smuggled + hits)).after_search(QUERY, hits())
    assert found == hits()


@pytest.mark.parametrize("score", [5.0, -1.0, float("nan"), float("inf")])
def test_scores_stay_in_their_range_whatever_a_reranker_says(score: float) -> None:
    found = Hooks(with_plugin(after_search=lambda query, hits: [replace(h, score=score) for h in hits]))
    assert all(0.0 <= hit.score <= 1.0 for hit in found.after_search(QUERY, hits()))


def test_the_first_plugin_with_an_answer_decides_the_lifetime() -> None:
    found = with_plugin("one", compute_ttl=lambda importance: None)
    found.register(plugin(compute_ttl=lambda importance: importance * 10), "two")
    assert Hooks(found).compute_ttl(7) == 70
    assert Hooks(with_plugin(compute_ttl=lambda importance: None)).compute_ttl(7) is None
    assert Hooks().compute_ttl(7) is None


@pytest.mark.parametrize("ttl_s", ["5", 5.0, True, [5]])
def test_a_lifetime_is_a_whole_number(ttl_s: Any) -> None:
    with pytest.raises(PluginError, match="must be a number of seconds"):
        Hooks(with_plugin(compute_ttl=lambda importance: ttl_s)).compute_ttl(5)


def test_commands_are_asked_for_by_the_command_line() -> None:
    found = with_plugin(register_commands=lambda cli: cli.append("mine"))
    commands: list[str] = []
    for name, hook in found.hooks("register_commands"):
        hook(cli=commands)
        assert name == "theirs"
    assert commands == ["mine"]


@pytest.fixture(autouse=True)
def real_registry_untouched() -> Iterator[None]:
    before = get_registry().backends()
    yield
    assert get_registry().backends() == before
