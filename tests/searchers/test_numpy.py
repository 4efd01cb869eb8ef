from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_core.cached_embedder import CachedEmbedder
from memory_core.contracts import BackendContext
from memory_core.embedding_cache import FILE_NAME, EmbeddingCache
from memory_core.errors import IndexUnavailableError
from memory_core.model import ChangeBatch, SearchQuery, listing_order
from memory_core.testing import FakeClock, SearcherContract, make_entry
from memory_core.testing.clock import START
from memory_core.testing.fake_embedder import FakeEmbedder
from memory_searcher_numpy import NumpyOptions, build
from memory_searcher_numpy.searcher import NumpySearcher


class TestNumpySearcher(SearcherContract):
    lexical = False

    @pytest.fixture
    def open_searcher(self) -> Callable[[], NumpySearcher]:
        return lambda: NumpySearcher(FakeEmbedder())


def query(text: str, top_k: int = 5, user: str = "shared") -> SearchQuery:
    return SearchQuery(user, text, top_k, START)


def test_is_exact() -> None:
    embedder = FakeEmbedder()
    searcher = NumpySearcher(embedder)
    entries = [make_entry(f"k{n}", f"word{n % 17} word{n % 23} word{n}") for n in range(300)]
    searcher.apply(ChangeBatch(entries, (), "1", complete=True), "shared")
    rows = embedder.embed_documents([entry.content for entry in entries])
    cosines = rows @ embedder.embed_query("word3 word5")
    hits = searcher.search(query("word3 word5", 10))
    assert [round(2 * hit.score - 1, 4) for hit in hits] == [round(float(c), 4) for c in np.sort(cosines)[::-1][:10]]
    mean, deviation = searcher.score_stats(query("word3 word5")) or (0.0, 0.0)
    assert mean == pytest.approx(float(((1 + cosines) / 2).mean()), abs=1e-5)
    assert deviation == pytest.approx(float(((1 + cosines) / 2).std()), abs=1e-5)


def test_text_without_content_is_never_near_anything() -> None:
    searcher = NumpySearcher(FakeEmbedder())
    searcher.apply(ChangeBatch([make_entry("dots", "…"), make_entry("k", "coffee")], (), "1"), "shared")
    assert [hit.entry.id.key for hit in searcher.search(query("coffee", 10))] == ["k"]
    assert searcher.search(query("…")) == []
    assert searcher.score_stats(query("…")) is None
    assert searcher.scores(query("coffee"), [make_entry("dots").id]) == {}


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 2)), max_size=12), st.integers(1, 13))
def test_the_first_of_a_listing_are_those_of_the_whole(facts: list[tuple[int, int]], limit: int) -> None:
    searcher = NumpySearcher(FakeEmbedder())
    entries = [
        make_entry(f"k{n:02}", "tea", importance=importance, at=START + timedelta(seconds=age))
        for n, (importance, age) in enumerate(facts)
    ]
    searcher.apply(ChangeBatch(entries[::-1], [], "1", complete=True), "shared")
    assert searcher.list_all("shared", limit) == sorted(entries, key=listing_order)[:limit]
    searcher.close()


def test_a_failing_model_leaves_the_index_as_it_was() -> None:
    def refuse(texts: Sequence[str]) -> None:
        if "boom" in texts:
            raise IndexUnavailableError("the model is away")

    searcher = NumpySearcher(FakeEmbedder(before=refuse))
    searcher.apply(ChangeBatch([make_entry("k", "coffee")], (), "1", complete=True), "shared")
    with pytest.raises(IndexUnavailableError, match="away"):
        searcher.apply(ChangeBatch([make_entry("b", "boom")], [make_entry("k").id], "2"), "shared")
    assert searcher.cursor("shared") == "1"
    assert [hit.entry.id.key for hit in searcher.search(query("coffee"))] == ["k"]


def test_a_reindex_embeds_nothing_twice_and_a_removed_memory_leaves_no_vector(tmp_path: Path) -> None:
    embedder = FakeEmbedder()
    searcher = NumpySearcher(CachedEmbedder(embedder, EmbeddingCache(tmp_path / FILE_NAME)))
    entries = [make_entry("a", "coffee"), make_entry("b", "tea")]
    searcher.apply(ChangeBatch(entries, (), "1", complete=True), "shared")
    searcher.clear()
    searcher.apply(ChangeBatch(entries, (), "1", complete=True), "shared")
    assert sorted(embedder.embedded) == ["coffee", "tea"]
    searcher.apply(ChangeBatch((), [entries[0].id], "2"), "shared")
    searcher.remove_index(entries[1].id)
    assert [model.vectors for model in EmbeddingCache(tmp_path / FILE_NAME).status().models] == [0]
    searcher.close()
    assert embedder.closed


def test_a_user_that_was_dropped_between_reading_and_applying_starts_over() -> None:
    searcher = NumpySearcher(FakeEmbedder(), max_users=1)
    searcher.apply(ChangeBatch([make_entry("a", "coffee")], (), "1", complete=True), "shared")
    assert searcher.cursor("shared") == "1"
    searcher.apply(ChangeBatch([make_entry("x", "tea", user="other")], (), "1", complete=True), "other")
    searcher.apply(ChangeBatch([make_entry("b", "milk")], (), "2"), "shared")
    assert searcher.cursor("shared") is None


def test_threads_may_share_it() -> None:
    searcher = NumpySearcher(FakeEmbedder())
    searcher.apply(ChangeBatch([make_entry("k", "coffee")], (), "1", complete=True), "shared")
    errors: list[Exception] = []

    def write(name: str) -> None:
        try:
            for n in range(50):
                searcher.update_index(make_entry(f"{name}{n}", f"coffee {n}"))
                searcher.search(query("coffee"))
                searcher.remove_index(make_entry(f"{name}{n // 2}").id)
        except Exception as error:  # noqa: BLE001 - told to the main thread
            errors.append(error)

    threads = [Thread(target=write, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    left = searcher.list_all("shared", 1000)
    assert len(left) == searcher.count("shared") == 1 + 3 * 25
    assert searcher.count("shared", below=5) == 0


def test_the_factory_puts_the_cache_before_the_embedder(tmp_path: Path) -> None:
    asked: list[str | None] = []

    def build_embedder(name: str | None = None) -> FakeEmbedder:
        asked.append(name)
        embedder = FakeEmbedder()
        embedder.unknown = frozenset({"猫"})
        return embedder

    def no_searcher(name: str) -> NumpySearcher:
        raise AssertionError(name)

    context = BackendContext(
        (), tmp_path / "index", FakeClock(), "english", no_searcher, build_embedder, cache_dir=tmp_path
    )
    searcher = build(NumpyOptions(embedder="mine"), context)
    searcher.update_index(make_entry())
    assert asked == ["mine"]
    assert (tmp_path / FILE_NAME).exists()
    assert searcher.unknown_share("猫") == 1.0
    searcher.close()
