import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from memory_core.model import MemoryId
from memory_core.testing import SearcherContract
from memory_core.testing.searcher import OpenSearcher
from memory_embedder_static.embedder import StaticEmbedder, open_wordllama
from memory_searcher_lancedb.searcher import LanceDBSearcher, score_of

from ._vectors import NOW, batch, entry, keys, open_searcher, query


@pytest.fixture(scope="module")
def model() -> StaticEmbedder:
    return open_wordllama()


class TestLanceDBBuffered(SearcherContract):
    """Everything in memory until the end."""

    lexical = False
    persistent = True

    @pytest.fixture
    def open_searcher(self, tmp_path: Path) -> OpenSearcher:
        return lambda: open_searcher(tmp_path)


class TestLanceDBWritten(SearcherContract):
    """Every change a commit."""

    lexical = False
    persistent = True

    @pytest.fixture
    def open_searcher(self, tmp_path: Path) -> OpenSearcher:
        return lambda: open_searcher(tmp_path, buffer_rows=1)


class TestLanceDBWordllama(SearcherContract):
    """A real model."""

    lexical = False
    persistent = True

    @pytest.fixture
    def open_searcher(self, tmp_path: Path, model: StaticEmbedder) -> OpenSearcher:
        return lambda: open_searcher(tmp_path, model, buffer_rows=8)


HOSTILE = [
    "o'brien",
    "' OR 1=1 --",
    '"quoted"',
    "back\\slash\\'",
    "user' OR user != '",
    "`tick`",
    "${x} {y} %s ?",
    "用户",
    "👩‍👩‍👧",
    "é\u0302",
    "u",
    "u2",
    "x" * 512,
]


@pytest.fixture(params=["buffered", "written"])
def searcher(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[LanceDBSearcher]:
    """Both ways an entry can be held: in memory, and in the table."""
    searcher = open_searcher(tmp_path, buffer_rows=1 if request.param == "written" else 256)
    yield searcher
    searcher.close()


@pytest.mark.parametrize("number", range(len(HOSTILE)))
def test_hostile_names_stay_values(searcher: LanceDBSearcher, number: int) -> None:
    name = HOSTILE[number]
    for user in HOSTILE:
        searcher.update_index(entry(f"key of {user[:20]}", "apple pie", user=user))
    assert keys(searcher.search(query("apple", name))) == [f"key of {name[:20]}"]
    assert [e.id.user_id for e in searcher.list_all(name, 99)] == [name]
    searcher.update_index(entry(name, "second", user="owner", scope=name))
    assert keys(searcher.search(query("second", "owner", scopes=(name,)))) == [entry(name, "x").id.key]
    searcher.remove_index(MemoryId(name, "owner", name))
    assert searcher.search(query("second", "owner")) == []
    searcher.clear(name)
    assert searcher.search(query("apple", name)) == []
    others = [user for user in HOSTILE if user != name]
    assert all(searcher.search(query("apple", user)) for user in others)


def test_what_memory_hides_is_made_up_for_and_what_is_new_in_it_costs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    searcher = open_searcher(tmp_path, buffer_rows=4_000)
    searcher.apply(batch(*(entry(f"k{n}", f"apple pie {n}") for n in range(500)), complete=True), "u")
    searcher.flush()
    limits: list[int] = []
    nearest = searcher._table.nearest

    def spy(vector: Any, condition: Any, limit: int, *, exact: bool) -> Any:
        limits.append(limit)
        return nearest(vector, condition, limit, exact=exact)

    monkeypatch.setattr(searcher._table, "nearest", spy)
    searcher.apply(batch(*(entry(f"new{n}", f"green train {n}") for n in range(900)), cursor="2"), "u")
    assert len(searcher.search(query("apple pie", top_k=5))) == 5
    assert len(limits) == 1
    assert limits[0] < 100, "new entries hide nothing"
    replaced = [entry(f"k{n}", f"blue boat {n}") for n in range(470)]
    gone = tuple(entry(f"k{n}", "x").id for n in range(470, 490))
    searcher.apply(batch(*replaced, removals=gone, cursor="3"), "u")
    found = [hit.entry for hit in searcher.search(query("apple pie", top_k=10))]
    assert {e.id.key for e in found} == {f"k{n}" for n in range(490, 500)}
    assert all(e.content.startswith("apple pie") for e in found)
    searcher.close()


def test_update_replaces_and_remove_removes(searcher: LanceDBSearcher) -> None:
    searcher.update_index(entry("a", "green apple"))
    searcher.update_index(entry("a", "blue train"))
    searcher.update_index(entry("b", "green pear"))
    assert keys(searcher.search(query("blue train", top_k=1))) == ["a"]
    assert [hit.entry.content for hit in searcher.search(query("green"))].count("green apple") == 0
    searcher.remove_index(entry("a", "x").id)
    searcher.remove_index(entry("never", "x").id)
    assert keys(searcher.search(query("blue train"))) == ["b"]


def test_filters_count_before_top_k(searcher: LanceDBSearcher) -> None:
    for n in range(30):
        searcher.update_index(entry(f"low {n}", "apple apple", importance=2))
    searcher.update_index(entry("high", "apple and some other words", importance=9))
    searcher.update_index(entry("global", "apple with many more words besides", scope="user"))
    searcher.update_index(entry("old", "apple", expires=NOW))
    assert keys(searcher.search(query("apple", top_k=1, min_importance=8))) == ["high"]
    assert keys(searcher.search(query("apple", top_k=1, scopes=("user",)))) == ["global"]
    assert "old" not in keys(searcher.search(query("apple", top_k=50)))
    assert "old" in keys(searcher.search(query("apple", top_k=50, now=NOW - timedelta(microseconds=1))))
    assert searcher.search(query("apple", scopes=())) == []


def test_equal_scores_go_by_importance_then_newest_then_key(searcher: LanceDBSearcher) -> None:
    for n in range(60):
        searcher.update_index(entry(f"plain {n:02}", "apple", importance=3))
    searcher.update_index(entry("b", "apple", importance=8, minutes=1))
    searcher.update_index(entry("a", "apple", importance=8, minutes=1))
    searcher.update_index(entry("new", "apple", importance=8, minutes=2))
    assert keys(searcher.search(query("apple", top_k=4))) == ["new", "a", "b", "plain 00"]


def test_scores_are_true_and_in_range(searcher: LanceDBSearcher) -> None:
    searcher.update_index(entry("same", "apple pie"))
    searcher.update_index(entry("half", "apple tree in the garden"))
    searcher.update_index(entry("other", "quarterly revenue"))
    hits = searcher.search(query("apple pie"))
    assert keys(hits)[0] == "same"
    assert hits[0].score == pytest.approx(1.0, abs=1e-5)
    assert all(0 <= hit.score <= 1 and hit.explain == {"lancedb": hit.score} for hit in hits)
    ids = [hit.entry.id for hit in hits]
    unknown, foreign = MemoryId("workspace", "u", "no"), MemoryId("workspace", "v", "same")
    assert searcher.scores(query("apple pie"), [*ids, unknown, foreign]) == pytest.approx(
        {hit.entry.id: hit.score for hit in hits}, abs=2e-6
    )
    stats = searcher.score_stats(query("apple pie"))
    assert stats is not None
    assert stats[0] == pytest.approx(sum(hit.score for hit in hits) / 3, abs=1e-5)


def test_what_has_no_vector_is_listed_but_not_found(searcher: LanceDBSearcher) -> None:
    searcher.update_index(entry("symbols", "!!! ???"))
    searcher.update_index(entry("words", "apple"))
    assert keys(searcher.search(query("apple"))) == ["words"]
    assert searcher.search(query("?!")) == []
    assert searcher.search(query("  ")) == []
    assert searcher.search(query("apple", top_k=0)) == []
    assert searcher.scores(query("?!"), [entry("words", "x").id]) == {}
    assert searcher.score_stats(query("?!")) is None
    assert searcher.score_stats(query("")) is None
    assert searcher.scores(query(""), [entry("words", "x").id]) == {}
    assert searcher.scores(query("apple"), [entry("symbols", "x").id]) == {}
    assert [e.id.key for e in searcher.list_all("u", 9)] == ["symbols", "words"]


def test_lists_go_by_importance_then_newest_then_key(searcher: LanceDBSearcher) -> None:
    searcher.update_index(entry("b", "1", importance=5))
    searcher.update_index(entry("a", "2", importance=5))
    searcher.update_index(entry("new", "3", importance=5, minutes=1))
    searcher.update_index(entry("top", "4", importance=9, scope="user"))
    searcher.update_index(entry("low", "5", importance=2))
    searcher.update_index(entry("gone", "6", importance=9, expires=NOW))
    listed = searcher.list_all("u", 9, now=NOW)
    assert [e.id.key for e in listed] == ["top", "new", "a", "b", "low"]
    assert [e.id.key for e in searcher.list_all("u", 2, now=NOW)] == ["top", "new"]
    assert [e.id.key for e in searcher.list_all("u", 9, now=NOW, scopes=["user"])] == ["top"]
    assert [e.id.key for e in searcher.hot("u", 3, now=NOW)] == ["top", "new", "a"]
    assert {e.id.key for e in searcher.list_all("u", 9)} >= {"gone"}
    assert searcher.list_all("u", 0) == []
    assert searcher.list_all("nobody", 5) == []
    assert searcher.count("u") == 6
    assert searcher.count("u", now=NOW) == 5
    assert searcher.count("u", now=NOW, below=5) == 1


def test_a_complete_batch_forgets_what_was(searcher: LanceDBSearcher) -> None:
    searcher.apply(batch(entry("a", "apple"), entry("b", "pear"), cursor="1", complete=True), "u")
    searcher.apply(batch(entry("z", "apple", user="v"), cursor="1", complete=True), "v")
    searcher.apply(batch(entry("c", "apple"), cursor="2", complete=True), "u")
    assert keys(searcher.search(query("apple pear"))) == ["c"]
    assert [e.id.key for e in searcher.list_all("u", 9)] == ["c"]
    searcher.flush()
    assert keys(searcher.search(query("apple pear"))) == ["c"]
    assert keys(searcher.search(query("apple", "v"))) == ["z"]
    assert searcher.cursor("u") == "2"


def test_lancedb_is_imported_at_its_first_use_only() -> None:
    import subprocess

    code = (
        "import sys; from memory_core.plugins import get_registry; r = get_registry(); "
        "assert 'lancedb' in r.names('searcher'), r.failures; "
        "sys.exit(any(m.split('.')[0] in ('lancedb', 'pyarrow', 'numpy', 'torch') for m in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_score_is_monotone_and_bounded() -> None:
    assert [score_of(c) for c in (-1.1, -1, 0, 0.5, 1, 1.1)] == [0, 0, 0.5, 0.75, 1, 1]
