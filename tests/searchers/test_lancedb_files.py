"""The LanceDB table on disk: cursors, buffers, two writers, damage, locks, few files, object storage."""

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memory_core.errors import EmbeddingMismatchError, IndexUnavailableError
from memory_embedder_static.embedder import StaticEmbedder, open_wordllama
from memory_searcher_lancedb.searcher import LanceDBSearcher

from ._vectors import HashEmbedder, batch, entry, keys, open_searcher, query


@pytest.fixture(scope="module")
def model() -> StaticEmbedder:
    return open_wordllama()


@pytest.fixture(params=["buffered", "written"])
def searcher(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[LanceDBSearcher]:
    """Both ways an entry can be held: in memory, and in the table."""
    searcher = open_searcher(tmp_path, buffer_rows=1 if request.param == "written" else 256)
    yield searcher
    searcher.close()


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


@pytest.mark.parametrize("written", [True, False])
@pytest.mark.parametrize("first", [True, False])
def test_removed_memories_leave_the_vector_cache(tmp_path: Path, written: bool, first: bool) -> None:
    searcher = open_searcher(tmp_path)
    kept = [entry("a", "secret"), entry("b", "plain"), entry("c", "also secret")]
    searcher.apply(batch(*kept, complete=first), "u")
    if written:
        searcher.flush()
    searcher.remove_index(kept[0].id)
    searcher.apply(batch(removals=(kept[2].id,), cursor="2"), "u")
    searcher.flush()
    cache: Any = searcher.embedder
    assert set(cache.cache.get("hash", 64, [one.content for one in kept])) == {"plain"}
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
