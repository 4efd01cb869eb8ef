import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from memory_core.contracts import Candidates, MemorySearcher
from memory_core.errors import IndexUnavailableError, StorageUnavailableError
from memory_core.model import ChangeBatch, MemoryEntry, SearchHit, SearchQuery
from memory_core.solution import StandardSolution
from memory_core.testing import SearcherContract, make_entry
from memory_core.testing.fake_embedder import FakeEmbedder
from memory_core.vectors import Vectors
from memory_searcher_fulltext.searcher import FulltextSearcher
from memory_searcher_hybrid import HybridOptions
from memory_searcher_hybrid.searcher import HybridSearcher
from memory_searcher_numpy.searcher import NumpySearcher
from memory_searcher_whoosh.searcher import WhooshSearcher
from memory_storer_markdown.storer import MarkdownStorer

from ._hybrids import feed, keys, query


class TestHybridOfFulltextAndNumpy(SearcherContract):
    lexical = False

    @pytest.fixture
    def open_searcher(self) -> Callable[[], HybridSearcher]:
        return lambda: HybridSearcher({"fulltext": FulltextSearcher(), "numpy": NumpySearcher(FakeEmbedder())})


class TestHybridOfTwoFiles(SearcherContract):
    persistent = True

    @pytest.fixture
    def open_searcher(self, tmp_path: Path) -> Callable[[], HybridSearcher]:
        def open_both() -> HybridSearcher:
            return HybridSearcher({name: WhooshSearcher(tmp_path / name) for name in ("one", "two")})

        return open_both


class Broken(FulltextSearcher):
    """An arm that can be made to fail."""

    error: Exception | None = None

    def search(self, query: SearchQuery) -> list[SearchHit]:
        if self.error is not None:
            raise self.error
        return super().search(query)

    def candidates(self, query: SearchQuery) -> Candidates:
        if self.error is not None:
            raise self.error
        return super().candidates(query)

    def list_all(
        self, user_id: str, limit: int, *, now: datetime | None = None, scopes: Sequence[str] | None = None
    ) -> list[MemoryEntry]:
        if self.error is not None:
            raise self.error
        return super().list_all(user_id, limit, now=now, scopes=scopes)


@pytest.fixture
def embedder() -> FakeEmbedder:
    return FakeEmbedder()


@pytest.fixture
def hybrid(embedder: FakeEmbedder) -> Iterator[HybridSearcher]:
    searcher = HybridSearcher({"fulltext": FulltextSearcher(), "numpy": NumpySearcher(embedder)})
    yield searcher
    searcher.close()


# --- what the arms give --------------------------------------------------------------------------------------------


def test_each_arm_contributes_and_says_so(hybrid: HybridSearcher) -> None:
    feed(hybrid, *(make_entry(f"k{n}", f"coffee number{n} of the day and word{n % 3}") for n in range(20)))
    hit = hybrid.search(query("coffee number7"))[0]
    assert hit.entry.id.key == "k7"
    assert hit.explain["fulltext.part"] > 0
    assert hit.explain["numpy.part"] > 0
    assert hit.score == pytest.approx(hit.explain["fulltext.part"] + hit.explain["numpy.part"], abs=1e-5)


@pytest.mark.parametrize("fusion", ["union", "minmax", "rrf"])
def test_every_fusion_finds_what_either_arm_finds(fusion: str) -> None:
    class Elsewhere(FakeEmbedder):
        """Knows that a kitten is a cat, which no word says."""

        def embed_query(self, text: str) -> Vectors:
            return super().embed_query(text.replace("kitten", "cat"))

    options = HybridOptions.model_validate({"fusion": fusion})
    searcher = HybridSearcher({"fulltext": FulltextSearcher(), "numpy": NumpySearcher(Elsewhere())}, options)
    noise = [make_entry(f"n{n}", f"entry {n} about gardens and houses") for n in range(30)]
    feed(searcher, *noise, make_entry("cat", "cat"), make_entry("word", "the kitten clause of a contract"))
    hits = searcher.search(query("kitten"))
    assert {"cat", "word"} <= set(keys(hits[:2]))
    assert all(0 <= hit.score <= 1 for hit in hits)
    searcher.close()


def test_a_blind_arm_loses_its_weight(hybrid: HybridSearcher, embedder: FakeEmbedder) -> None:
    feed(hybrid, *(make_entry(f"k{n}", f"猫 number{n}") for n in range(10)))
    embedder.unknown = frozenset({"猫"})
    half = hybrid.search(query("number3 number4 number5 猫"))[0]
    assert 0 < half.explain["numpy.sight"] < 1
    blind = hybrid.search(query("猫"))
    assert blind[0].explain["numpy.sight"] == 0
    assert all("numpy.part" not in hit.explain for hit in blind)
    alone = FulltextSearcher()
    feed(alone, *(make_entry(f"k{n}", f"猫 number{n}") for n in range(10)))
    assert keys(blind) == keys(alone.search(query("猫")))


def test_a_dense_arm_alone_and_a_lexical_arm_alone_work(embedder: FakeEmbedder) -> None:
    for arms in ({"numpy": NumpySearcher(embedder)}, {"fulltext": FulltextSearcher()}):
        searcher = HybridSearcher(arms)
        searcher.follow(lambda since, user: ChangeBatch([make_entry("k", "coffee")], (), "1", since is None), "shared")
        assert keys(searcher.search(query("coffee"))) == ["k"]
        searcher.close()


def test_filters_hold_for_what_only_one_arm_found(hybrid: HybridSearcher) -> None:
    feed(hybrid, make_entry("a", "coffee", scope="user"), make_entry("b", "coffee and tea", importance=9))
    assert keys(hybrid.search(replace(query("coffee"), scopes=("user",)))) == ["a"]
    assert keys(hybrid.search(replace(query("coffee"), min_importance=9))) == ["b"]


# --- arms that fail ------------------------------------------------------------------------------------------------


def test_an_arm_that_fails_is_reported_and_the_others_answer(
    embedder: FakeEmbedder, caplog: pytest.LogCaptureFixture
) -> None:
    broken = Broken()
    searcher = HybridSearcher({"broken": broken, "numpy": NumpySearcher(embedder)})
    feed(searcher, make_entry("k", "coffee"), make_entry("t", "tea"))
    broken.error = RuntimeError("the disk is gone")
    hits = searcher.search(query("coffee"))
    assert keys(hits)[0] == "k"
    assert hits[0].explain["broken.failed"] == 1
    assert keys(searcher.search(query("tea")))[0] == "t"
    assert [entry.id.key for entry in searcher.list_all("shared", 9)] == ["k", "t"]
    assert searcher.count("shared") == 2
    problem = searcher.problems()[0]
    assert (problem.code, problem.where) == ("arm-down", "broken")
    assert "the disk is gone" in problem.message
    assert "coffee" not in caplog.text
    broken.error = None
    assert "broken.failed" not in searcher.search(query("coffee"))[0].explain
    assert searcher.list_all("shared", 9)
    assert searcher.problems() == []
    searcher.close()


def test_when_no_arm_answers_that_is_an_error() -> None:
    one, two = Broken(), Broken()
    searcher = HybridSearcher({"one": one, "two": two})
    one.error = two.error = RuntimeError("away")
    with pytest.raises(IndexUnavailableError, match="one: away; two: away"):
        searcher.search(query("coffee"))
    with pytest.raises(IndexUnavailableError, match="No arm"):
        searcher.list_all("shared", 5)
    searcher.close()


def test_an_arm_that_is_late_is_left_out_and_then_left_alone(embedder: FakeEmbedder) -> None:
    released, asked = threading.Event(), 0

    class Late(NumpySearcher):
        def candidates(self, query: SearchQuery) -> Candidates:
            nonlocal asked
            asked += 1
            released.wait(30)
            return super().candidates(query)

    options = HybridOptions(arm_timeout_s=0.05)
    searcher = HybridSearcher({"fulltext": FulltextSearcher(), "late": Late(embedder)}, options)
    feed(searcher, make_entry("k", "coffee"))
    for _ in range(3):
        hits = searcher.search(query("coffee"))
        assert keys(hits) == ["k"]
        assert hits[0].explain["late.failed"] == 1
    assert asked == 1
    assert "no answer within" in searcher.problems()[0].message
    released.set()
    searcher.close()


def test_a_change_reaches_the_other_arms_when_one_cannot_take_it(embedder: FakeEmbedder) -> None:
    def refuse(texts: Sequence[str]) -> None:
        raise IndexUnavailableError(f"no model for {len(texts)} texts")

    embedder.before = refuse
    searcher = HybridSearcher({"numpy": NumpySearcher(embedder), "fulltext": FulltextSearcher()})
    with pytest.raises(IndexUnavailableError, match="no model"):
        feed(searcher, make_entry("k", "coffee"))
    assert keys(searcher.search(query("coffee"))) == ["k"]
    assert searcher.cursor("shared") is None
    searcher.close()


# --- following -----------------------------------------------------------------------------------------------------


def solution(folder: Path, embedder: FakeEmbedder, **options: object) -> StandardSolution:
    arms: dict[str, MemorySearcher] = {"whoosh": WhooshSearcher(folder / "index"), "numpy": NumpySearcher(embedder)}
    searcher = HybridSearcher(arms, HybridOptions.model_validate(options))
    return StandardSolution(MarkdownStorer({"workspace": folder / "memory"}, fsync=False), searcher, ["workspace"])


def test_an_entry_is_found_by_words_at_once_and_by_meaning_later(tmp_path: Path, embedder: FakeEmbedder) -> None:
    released = threading.Event()

    def slow(texts: Sequence[str]) -> None:
        if "coffee at noon" in texts:
            assert released.wait(30)

    embedder.before = slow
    memory = solution(tmp_path, embedder, wait_ms=0)
    searcher = memory.searcher
    assert isinstance(searcher, HybridSearcher)
    memory.remember("other", "tea")  # of a single entry, a distance from the mean of all says nothing
    memory.remember("k", "coffee at noon")
    first = memory.search("noon")
    assert keys(first) == ["k"]
    assert first[0].explain["numpy.pending"] == 1
    assert "numpy" not in first[0].explain
    assert [problem.code for problem in searcher.problems()] == ["arm-behind"]
    assert searcher.drain(0.01) is False
    released.set()
    assert searcher.drain(30)
    later = memory.search("noon")
    assert "numpy.pending" not in later[0].explain
    assert later[0].explain["numpy"] > 0.5
    assert searcher.problems() == []
    memory.close()


@pytest.mark.parametrize("fusion", ["union", "minmax", "rrf"])
def test_an_arm_that_is_behind_shows_nothing_that_was_removed_or_replaced(
    tmp_path: Path, embedder: FakeEmbedder, fusion: str
) -> None:
    released = threading.Event()

    def slow(texts: Sequence[str]) -> None:
        if any("Monday" in text for text in texts):
            assert released.wait(30)

    embedder.before = slow
    memory = solution(tmp_path, embedder, wait_ms=0, fusion=fusion)
    searcher = memory.searcher
    assert isinstance(searcher, HybridSearcher)
    memory.remember("gone", "coffee at noon")
    memory.remember("changed", "coffee at midnight")
    memory.remember("stays", "coffee in the evening")
    memory.search("coffee")
    assert searcher.drain(30)
    assert set(keys(memory.search("coffee"))) == {"gone", "changed", "stays"}
    memory.forget("gone")
    memory.remember("changed", "tea at midnight")
    memory.remember("plan", "meeting on Monday")
    for text in ("coffee", "coffee at noon", "coffee at midnight", "midnight"):
        hits = memory.search(text, top_k=9)
        assert "gone" not in keys(hits)
        assert {hit.entry.content for hit in hits if hit.entry.id.key == "changed"} <= {"tea at midnight"}
        assert text != "midnight" or "changed" in keys(hits)
        assert "stays" in keys(hits) or "coffee" not in text
    assert searcher.drain(0.01) is False, "it was behind all the while"
    released.set()
    assert searcher.drain(30)
    assert "gone" not in keys(memory.search("coffee", top_k=9))
    memory.close()


def test_close_waits_for_the_vectors_or_stops_in_time(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for drain_timeout_s, all_done in ((30.0, True), (0.0, False)):
        released = threading.Event()
        embedder = FakeEmbedder(before=lambda texts, released=released: released.wait(30) and None)  # type: ignore[misc]
        memory = solution(tmp_path / str(all_done), embedder, wait_ms=0, drain_timeout_s=drain_timeout_s)
        memory.remember("k", "coffee")
        memory.sync()
        threading.Timer(0.1, released.set).start()
        memory.close()
        assert ("before all vectors were made" in caplog.text) is not all_done
        assert embedder.closed


def test_only_the_arm_that_is_behind_reads_the_store_again(tmp_path: Path) -> None:
    first = solution(tmp_path, FakeEmbedder())
    for n in range(5):
        first.remember(f"k{n}", f"coffee {n}")
    first.sync()
    first.close()
    read: list[str | None] = []
    again = solution(tmp_path, FakeEmbedder(), wait_ms=30_000)
    store = again.storer

    def changes(since: str | None, user_id: str) -> ChangeBatch:
        read.append(since)
        return store.changes(since, user_id)

    again.searcher.follow(changes, "shared")
    assert [since is None for since in read] == [False, True]  # whoosh goes on, numpy starts anew
    assert again.search("coffee 3")[0].explain["numpy"] > 0.5
    read.clear()
    again.searcher.follow(changes, "shared")
    assert len(read) == 1  # nobody is behind: only the lexical arm asks
    again.close()


CRASH = """
import os, sys, threading
from pathlib import Path
from tests.searchers.test_hybrid import solution
from memory_core.testing.fake_embedder import FakeEmbedder
memory = solution(Path(sys.argv[1]), FakeEmbedder(before=lambda texts: threading.Event().wait()), wait_ms=0)
for n in range(5):
    memory.remember(f"k{n}", f"coffee {n}")
    memory.sync()
os.kill(os.getpid(), 9)
"""


def test_a_process_killed_while_embedding_loses_nothing(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", CRASH, str(tmp_path)], cwd=root, check=False, timeout=60)
    assert done.returncode == -9
    memory = solution(tmp_path, FakeEmbedder(), wait_ms=30_000)
    hits = memory.search("coffee", top_k=9)
    assert len(hits) == 5
    assert all(hit.explain["numpy"] > 0.5 for hit in hits)
    memory.close()


def test_a_failing_model_does_not_stop_writing_and_is_tried_again(
    tmp_path: Path, embedder: FakeEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memory_searcher_hybrid.searcher.RETRY_S", 0.0)

    def refuse(texts: Sequence[str]) -> None:
        raise IndexUnavailableError("the model is away")

    embedder.before = refuse
    memory = solution(tmp_path, embedder, wait_ms=30_000)
    memory.remember("other", "tea")
    memory.remember("k", "coffee")
    hits = memory.search("coffee")
    assert keys(hits) == ["k"]
    assert hits[0].explain["numpy.failed"] == 1
    assert [problem.code for problem in memory.problems()] == ["arm-down"]
    embedder.before = None
    assert memory.search("coffee")[0].explain["numpy"] > 0.5
    assert memory.problems() == []
    memory.close()


def test_the_store_s_failure_is_everybody_s(hybrid: HybridSearcher) -> None:
    def changes(since: str | None, user_id: str) -> ChangeBatch:
        raise StorageUnavailableError("the store is away")

    with pytest.raises(StorageUnavailableError):
        hybrid.follow(changes, "shared")


def test_a_reindex_during_embedding_ends_complete(tmp_path: Path, embedder: FakeEmbedder) -> None:
    memory = solution(tmp_path, embedder, wait_ms=0)
    for n in range(10):
        memory.remember(f"k{n}", f"coffee {n}")
        memory.sync()
        if n % 3 == 0:
            assert memory.reindex() == n + 1
    assert isinstance(memory.searcher, HybridSearcher)
    memory.searcher.drain()
    assert all(hit.explain["numpy"] > 0.5 for hit in memory.search("coffee", top_k=20))
    assert len(memory.search("coffee", top_k=20)) == 10
    memory.close()
