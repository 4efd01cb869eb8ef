import shutil
import sys
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from memory_core.errors import EmbeddingMismatchError, IndexUnavailableError
from memory_core.model import ChangeBatch, MemoryId
from memory_core.testing import SearcherContract
from memory_core.testing.searcher import OpenSearcher
from memory_embedder_static.embedder import StaticEmbedder, open_wordllama
from memory_searcher_lancedb.searcher import LanceDBSearcher, score_of

from ._vectors import NOW, HashEmbedder, entry, keys, open_searcher, query


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


def batch(*upserts: Any, removals: tuple[MemoryId, ...] = (), cursor: str = "1", complete: bool = False) -> ChangeBatch:
    return ChangeBatch(upserts, removals, cursor, complete)


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


def test_the_cursor_is_kept_with_the_rows(tmp_path: Path) -> None:
    first = open_searcher(tmp_path)
    assert first.cursor("u") is None
    first.apply(batch(entry("a", "apple"), cursor="c1", complete=True), "u")
    first.apply(batch(entry("b", "pear"), removals=(entry("x", "x").id,), cursor="c2"), "u")
    assert first.cursor("u") == "c2"
    first.close()
    first.close()
    second = open_searcher(tmp_path)
    assert second.cursor("u") == "c2"
    assert second.cursor("v") is None
    assert keys(second.search(query("pear", top_k=1))) == ["b"]
    second.clear("u")
    assert second.cursor("u") is None
    assert second.search(query("pear")) == []
    second.close()
    third = open_searcher(tmp_path)
    assert third.cursor("u") is None
    third.close()


def test_an_unwritten_buffer_is_told_again(tmp_path: Path) -> None:
    lost = open_searcher(tmp_path)
    lost.apply(batch(entry("a", "apple"), cursor="c1", complete=True), "u")
    lost.flush()
    lost.apply(batch(entry("b", "pear"), cursor="c2"), "u")
    after = open_searcher(tmp_path)  # the first one is never closed, as after a crash
    assert after.cursor("u") == "c1"
    assert keys(after.search(query("apple pear"))) == ["a"]
    after.close()
    lost._table.close()


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


def test_two_writers_never_make_two_rows(tmp_path: Path) -> None:
    one, two = open_searcher(tmp_path), open_searcher(tmp_path)
    for searcher in (one, two):
        searcher.apply(batch(entry("a", "apple"), cursor="c1", complete=True), "u")
    threads = [threading.Thread(target=searcher.flush) for searcher in (one, two)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    fresh = open_searcher(tmp_path)
    assert fresh._table.read(lambda table: table.count_rows()) == 2  # the entry and the cursor
    assert keys(fresh.search(query("apple"))) == ["a"]
    for searcher in (one, two, fresh):
        assert searcher.cursor("u") == "c1"
        searcher.close()


def test_a_faster_process_wins_and_nothing_is_lost_meanwhile(tmp_path: Path) -> None:
    slow, fast = open_searcher(tmp_path), open_searcher(tmp_path)
    slow.apply(batch(entry("a", "apple"), cursor="c1", complete=True), "u")
    fast.apply(batch(entry("a", "apple"), entry("b", "pear"), cursor="c2", complete=True), "u")
    fast.flush()
    slow.flush()
    assert keys(slow.search(query("apple", top_k=1))) == ["a"]
    assert slow.cursor("u") == "c2"
    assert sorted(keys(slow.search(query("apple pear")))) == ["a", "b"]
    slow.apply(batch(removals=(entry("a", "x").id,), cursor="c3"), "u")
    slow.flush()
    assert fast.cursor("u") == "c3"
    assert keys(fast.search(query("apple pear"))) == ["b"]
    slow.close()
    fast.close()


def test_another_model_is_refused_with_advice(tmp_path: Path) -> None:
    old = open_searcher(tmp_path, HashEmbedder(model_id="old"))
    old.update_index(entry("a", "apple"))
    assert old.problems() == []
    old.close()
    new = open_searcher(tmp_path, HashEmbedder(32, "new"))
    for act in (
        lambda: new.search(query("apple")),
        lambda: new.cursor("u"),
        lambda: new.update_index(entry("b", "pear")),
    ):
        with pytest.raises(EmbeddingMismatchError, match="memory-core reindex"):
            act()
    assert new.problems()[0].code == "embedding-mismatch"
    new.clear()
    assert new.cursor("u") is None
    new.update_index(entry("b", "pear"))
    assert keys(new.search(query("pear"))) == ["b"]
    new.close()


@pytest.mark.parametrize("damage", ["folder", "data", "manifest", "emptied", "missing data", "garbage"])
@pytest.mark.parametrize("when", ["open", "closed"])
def test_damage_is_repaired_from_the_store(tmp_path: Path, damage: str, when: str) -> None:
    searcher = open_searcher(tmp_path)
    told = batch(entry("a", "apple"), entry("b", "pear"), cursor="c1", complete=True)
    searcher.apply(told, "u")
    searcher.flush()
    if when == "closed":
        searcher.close()
        searcher = open_searcher(tmp_path)
    folder = tmp_path / "table" / "entries.lance"
    if damage == "folder":
        shutil.rmtree(tmp_path / "table")
    elif damage == "emptied":
        shutil.rmtree(folder / "_versions")
    else:
        part = "_versions" if damage == "manifest" else "data"
        for path in (folder / part).iterdir():
            if damage == "missing data":
                path.unlink()
            elif damage == "garbage":
                path.write_bytes(b"x" * 999)
            else:
                path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    for attempt in (1, 2):  # damage under an open handle may cost one failed search, never a second one
        try:
            if searcher.cursor("u") is None:
                searcher.apply(told, "u")
            assert keys(searcher.search(query("apple", top_k=1))) == ["a"]
            break
        except IndexUnavailableError as error:
            if attempt == 2 or when == "closed" or "memory-core reindex" not in str(error):
                raise
    searcher.flush()
    assert sorted(keys(searcher.search(query("apple pear")))) == ["a", "b"]
    searcher.close()
    again = open_searcher(tmp_path)
    assert again.cursor("u") == "c1"
    assert sorted(keys(again.search(query("apple pear")))) == ["a", "b"]
    again.close()


def test_reads_never_write(tmp_path: Path) -> None:
    searcher = open_searcher(tmp_path)
    searcher.search(query("apple"))
    searcher.list_all("u", 5)
    searcher.scores(query("apple"), [entry("a", "x").id])
    assert list(tmp_path.rglob("*")) == []
    searcher.close()
    writer = open_searcher(tmp_path)
    writer.update_index(entry("a", "apple"))
    writer.close()
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "table").rglob("*")}
    reader = open_searcher(tmp_path)
    reader.search(query("apple"))
    reader.list_all("u", 5)
    reader.hot("u", 5)
    reader.cursor("u")
    reader.score_stats(query("apple"))
    reader.close()
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "table").rglob("*")} == before


def test_an_unwritable_index_says_so_and_keeps_what_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "table").write_text("in the way")
    searcher = open_searcher(tmp_path)
    searcher.update_index(entry("a", "apple"))
    with pytest.raises(IndexUnavailableError, match="could not be written"):
        searcher.flush()
    assert keys(searcher.search(query("apple"))) == ["a"]
    searcher.close()
    assert (tmp_path / "table").read_text() == "in the way"


def test_a_busy_lock_delays_writing_only(tmp_path: Path) -> None:
    from filelock import FileLock

    searcher = open_searcher(tmp_path, buffer_rows=1, lock_timeout_s=0)
    with FileLock(tmp_path / "write.lock"):
        searcher.update_index(entry("a", "apple"))
        assert keys(searcher.search(query("apple"))) == ["a"]
        assert not (tmp_path / "table").exists()
        with pytest.raises(IndexUnavailableError, match="another process"):
            searcher.clear("u")
    searcher.update_index(entry("b", "pear"))
    searcher.flush()
    assert (tmp_path / "table").exists()
    searcher.close()


def test_removed_memories_leave_the_vector_cache(tmp_path: Path) -> None:
    searcher = open_searcher(tmp_path)
    searcher.update_index(entry("a", "secret"))
    searcher.update_index(entry("b", "plain"))
    searcher.flush()
    searcher.remove_index(entry("a", "x").id)
    searcher.flush()
    cache: Any = searcher.embedder
    assert set(cache.cache.get("hash", 64, ["secret", "plain"])) == {"plain"}
    searcher.close()


def test_a_reindex_embeds_nothing_twice(tmp_path: Path) -> None:
    model = HashEmbedder()
    searcher = open_searcher(tmp_path, model)
    told = batch(*(entry(f"k{n}", f"text {n}") for n in range(50)), complete=True)
    searcher.apply(told, "u")
    searcher.clear()
    searcher.apply(told, "u")
    assert len(model.asked) == 50
    searcher.close()


def test_files_stay_few(tmp_path: Path) -> None:
    searcher = open_searcher(tmp_path, buffer_rows=1)
    for n in range(80):
        searcher.update_index(entry(f"k{n % 40}", f"text {n}"))
    fragments: Any = searcher._table.read(lambda table: table.stats()["fragment_stats"]["num_fragments"])
    assert fragments <= 13
    searcher._table.compact()
    assert sum(path.is_file() for path in (tmp_path / "table").rglob("*")) < 20
    assert len(searcher.search(query("text", top_k=100))) == 40
    searcher.close()


def test_above_the_threshold_an_index_answers(tmp_path: Path) -> None:
    searcher = open_searcher(tmp_path, index_rows=1_000, buffer_rows=1_200)
    searcher.apply(batch(*(entry(f"k{n}", f"word{n} and number{n % 7}") for n in range(1_200)), complete=True), "u")
    searcher.flush()
    assert searcher._table.indexed
    expected = {n: keys(searcher.search(query(f"word{n}", top_k=1))) for n in range(0, 1_200, 100)}
    assert expected == {n: [f"k{n}"] for n in expected}
    import memory_searcher_lancedb.writer as writer

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writer, "EXACT_ROWS", 10)
        assert not searcher._writer.few_rows("u")
        found = {n: keys(searcher.search(query(f"word{n}", top_k=1))) for n in expected}
        assert found == expected
        searcher.update_index(entry("fresh", "zebra"))
        searcher.flush()
        assert keys(searcher.search(query("zebra", top_k=1))) == ["fresh"]
        searcher.remove_index(entry("k100", "x").id)
        searcher.flush()
        assert keys(searcher.search(query("word100", top_k=1))) != ["k100"]
        assert searcher.search(query("word0", user="v")) == []
    searcher.close()
    again = open_searcher(tmp_path)
    assert again.cursor("u") == "1"
    assert again._table.indexed
    again.close()


def test_object_storage_goes_the_same_way(tmp_path: Path) -> None:
    uri = (tmp_path / "bucket").as_uri()
    one = open_searcher(tmp_path / "one", uri=uri)
    two = open_searcher(tmp_path / "two", uri=uri)
    assert one.cursor("u") is None
    one.apply(batch(entry("a", "apple"), cursor="c1", complete=True), "u")
    one.flush()
    two._table._checked_at = -99.0
    assert two.cursor("u") == "c1"
    assert keys(two.search(query("apple"))) == ["a"]
    two.clear()
    one._table._checked_at = -99.0
    assert one.cursor("u") is None
    one.close()
    two.close()


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
