import multiprocessing
import os
import sqlite3
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from memory_core.cached_embedder import CachedEmbedder
from memory_core.embedding_cache import EmbeddingCache, content_hash
from memory_core.errors import IndexUnavailableError
from memory_core.vectors import TextEmbedder, Vectors, clean_text, unit_rows


class Counting(TextEmbedder):
    """Vectors from a hash of the text; counts what it was asked for."""

    def __init__(self, dim: int = 8, name: str = "counting") -> None:
        self.asked: list[str] = []
        self._dim, self._name = dim, name

    @property
    def model_id(self) -> str:
        return self._name

    @property
    def dim(self) -> int:
        return self._dim

    def encode(self, texts: list[str], *, query: bool) -> Vectors:
        self.asked += texts
        return vectors(texts, self._dim)


def vectors(texts: Sequence[str], dim: int = 8) -> Vectors:
    seeds = [int.from_bytes(content_hash(text)[:4], "big") for text in texts]
    return unit_rows([np.random.default_rng(seed).normal(size=dim) for seed in seeds])


def test_only_missing_texts_are_embedded(tmp_path: Path) -> None:
    model = Counting()
    cached = CachedEmbedder(model, EmbeddingCache(tmp_path / "e.sqlite3"), batch_size=2)
    first = cached.embed_documents(["a", "b", "a", "c"])
    assert sorted(model.asked) == ["a", "b", "c"]
    again = Counting()
    reopened = CachedEmbedder(again, EmbeddingCache(tmp_path / "e.sqlite3"))
    np.testing.assert_array_equal(reopened.embed_documents(["c", "b", "a", "a"]), first[[3, 1, 0, 0]])
    assert again.asked == []
    reopened.embed_documents(["d", "a"])
    assert again.asked == ["d"]
    cached.close()
    reopened.close()


def test_models_and_dimensions_never_mix(tmp_path: Path) -> None:
    cache = EmbeddingCache(tmp_path / "e.sqlite3")
    CachedEmbedder(Counting(8, "one"), cache).embed_documents(["a"])
    other = Counting(8, "two")
    CachedEmbedder(other, cache).embed_documents(["a"])
    wider = Counting(16, "one")
    assert CachedEmbedder(wider, cache).embed_documents(["a"]).shape == (1, 16)
    assert other.asked == wider.asked == ["a"]
    assert [(model.model_id, model.dim, model.vectors) for model in cache.status().models] == [
        ("one", 16, 1),
        ("two", 8, 1),
    ]
    cache.close()


def test_stays_within_its_limit_and_keeps_what_is_used(tmp_path: Path) -> None:
    cache = EmbeddingCache(tmp_path / "e.sqlite3", max_bytes=100 * 32)
    texts = [f"text {n}" for n in range(100)]
    cache.put("m", texts, vectors(texts))
    with sqlite3.connect(tmp_path / "e.sqlite3") as db:
        db.execute("UPDATE vectors SET used = used - 1000000")
    db.close()
    cache.get("m", 8, texts[:10])
    cache.put("m", ["one more"], vectors(["one more"]))
    assert cache.status().size_bytes <= 100 * 32
    assert sum(model.vectors for model in cache.status().models) == 90
    assert set(cache.get("m", 8, texts[:11])) == set(texts[:10])
    cache.close()


def test_discard_forgets_every_model_s_vector(tmp_path: Path) -> None:
    cache = EmbeddingCache(tmp_path / "e.sqlite3")
    cache.discard(["a"])
    assert not (tmp_path / "e.sqlite3").exists()
    for model in ("one", "two"):
        cache.put(model, ["a", "b"], vectors(["a", "b"]))
    cache.discard(["a"])
    assert set(cache.get("one", 8, ["a", "b"])) == set(cache.get("two", 8, ["a", "b"])) == {"b"}
    assert cache.status().size_bytes == 2 * 32
    cache.close()


@pytest.mark.parametrize(
    "damage", [b"", b"not a database at all, but long enough to be one" * 40, b"SQLite format 3\0" + b"\xff" * 5000]
)
def test_a_damaged_file_is_made_anew(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "e.sqlite3"
    path.write_bytes(damage)
    model = Counting()
    cached = CachedEmbedder(model, EmbeddingCache(path))
    np.testing.assert_allclose(cached.embed_documents(["a"]), vectors(["a"]), atol=1e-6)
    cached.embed_documents(["a"])
    assert model.asked == ["a"]
    cached.close()


def test_a_row_of_the_wrong_length_counts_as_missing(tmp_path: Path) -> None:
    cache = EmbeddingCache(tmp_path / "e.sqlite3")
    cache.put("m", ["a"], vectors(["a"]))
    with sqlite3.connect(tmp_path / "e.sqlite3") as db:
        db.execute("UPDATE vectors SET vector = x'0102'")
    db.close()
    assert cache.get("m", 8, ["a"]) == {}
    cache.close()


def test_an_older_format_is_replaced(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "e.sqlite3") as db:
        db.execute("CREATE TABLE vectors (old)")
    db.close()
    cache = EmbeddingCache(tmp_path / "e.sqlite3")
    cache.put("m", ["a"], vectors(["a"]))
    assert set(cache.get("m", 8, ["a"])) == {"a"}
    cache.close()


def test_an_unwritable_place_costs_time_only(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    model = Counting()
    cached = CachedEmbedder(model, EmbeddingCache(tmp_path / "file" / "e.sqlite3"))
    np.testing.assert_allclose(cached.embed_documents(["a"]), vectors(["a"]), atol=1e-6)
    cached.embed_documents(["a"])
    assert model.asked == ["a", "a"]


def test_a_query_is_embedded_once(tmp_path: Path) -> None:
    model = Counting()
    cached = CachedEmbedder(model, EmbeddingCache(tmp_path / "e.sqlite3"))
    first = cached.embed_query("q")
    assert cached.embed_query("q") is first
    for n in range(300):
        cached.embed_query(f"other {n}")
    cached.embed_query("q")
    assert model.asked.count("q") == 2
    with pytest.raises(ValueError, match="read-only"):
        first[0] = 9


def test_threads_share_one_cache(tmp_path: Path) -> None:
    cache = EmbeddingCache(tmp_path / "e.sqlite3")
    wrong: list[str] = []

    def work(number: int) -> None:
        cached = CachedEmbedder(Counting(), cache)
        texts = [f"text {n}" for n in range(number, number + 40)]
        if not np.allclose(cached.embed_documents(texts), vectors(texts), atol=1e-6):
            wrong.append(f"thread {number}")

    threads = [threading.Thread(target=work, args=(n * 10,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert cache.status().models[0].vectors == 110
    cache.close()


def _process(path: Path, number: int) -> None:
    cached = CachedEmbedder(Counting(), EmbeddingCache(path))
    for n in range(25):
        texts = [f"{number} {n}", f"common {n}"]
        assert np.allclose(cached.embed_documents(texts), vectors(texts), atol=1e-6)
    cached.close()


def test_processes_share_one_file(tmp_path: Path) -> None:
    path = tmp_path / "e.sqlite3"
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_process, args=(path, n)) for n in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0, 0]
    cache = EmbeddingCache(path)
    assert cache.status().models[0].vectors == 75
    cache.close()


def test_a_forked_child_uses_its_own_connection(tmp_path: Path) -> None:
    cache = EmbeddingCache(tmp_path / "e.sqlite3")
    cache.put("m", ["a"], vectors(["a"]))
    with cache._handle.lock:  # held by the parent, as another thread might at the moment of the fork
        child = os.fork()
        if child == 0:
            known = cache.get("m", 8, ["a"])
            cache.put("m", ["b"], vectors(["b"]))
            os._exit(0 if set(known) == {"a"} else 1)
        assert os.waitpid(child, 0)[1] == 0
    assert set(cache.get("m", 8, ["a", "b"])) == {"a", "b"}
    cache.close()


def test_unit_rows_are_unit_or_zero() -> None:
    rows = unit_rows([[3, 4], [0, 0], [np.nan, 1], [np.inf, 1], [1e-30, 0], [1e30, 1e30]])
    assert np.linalg.norm(rows, axis=1) == pytest.approx([1, 0, 0, 0, 1, 1])
    assert unit_rows(np.empty((0, 5))).shape == (0, 5)


def test_clean_text_can_be_encoded() -> None:
    assert clean_text(" \ud800a\0b ").encode() == "\ufffd\ufffd\ufffda b".encode()
    assert len(clean_text("x" * 10**6)) == 32_768


def test_a_model_that_gives_another_shape_is_refused() -> None:
    class Wrong(Counting):
        def encode(self, texts: list[str], *, query: bool) -> Vectors:
            return vectors(texts, 3)

    with pytest.raises(IndexUnavailableError, match="shape"):
        Wrong().embed_documents(["a"])


class Glitching(Counting):
    """Gives no number for texts that hold `bad`, as a damaged model does."""

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        rows = super().embed_documents(texts)
        for place, text in enumerate(texts):
            if "bad" in text:
                rows[place, len(text) % self.dim] = np.inf if "inf" in text else np.nan
        return rows

    def embed_query(self, text: str) -> Vectors:
        row: Vectors = self.embed_documents([text])[0]
        return row


def test_what_is_no_number_counts_as_nothing_and_is_not_kept(tmp_path: Path) -> None:
    model = Glitching()
    cached = CachedEmbedder(model, EmbeddingCache(tmp_path / "e.sqlite3"), batch_size=2)
    texts = ["a", "bad", "b", "bad inf", "also bad", "bad"]
    for _ in range(2):
        rows = cached.embed_documents(texts)
        np.testing.assert_allclose(rows[[0, 2]], vectors(["a", "b"]), atol=1e-6)
        assert not rows[[1, 3, 4, 5]].any()
    assert (model.asked.count("a"), model.asked.count("bad")) == (1, 2)
    assert not cached.embed_query("bad").any()
    assert cached.embed_query("good").any()
    assert EmbeddingCache(tmp_path / "e.sqlite3").known("counting", texts) == 2


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_kept_vector_that_is_no_number_is_made_anew(tmp_path: Path, value: float) -> None:
    path = tmp_path / "e.sqlite3"
    broken = vectors(["a", "b", "c"])
    broken[1, 3] = value
    EmbeddingCache(path).put("counting", ["a", "b", "c"], broken)
    model = Counting()
    for _ in range(2):
        cached = CachedEmbedder(model, EmbeddingCache(path))
        wanted = ["c", "b", "a", "b"]
        np.testing.assert_allclose(cached.embed_documents(wanted), vectors(wanted), atol=1e-6)
        cached.close()
    assert model.asked == ["b"]
