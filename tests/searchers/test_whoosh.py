import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from memory_core.contracts import BackendContext
from memory_core.errors import IndexUnavailableError
from memory_core.model import ChangeBatch, MemoryEntry, SearchQuery
from memory_core.solution import StandardSolution
from memory_core.testing import FakeClock, SearcherContract, make_entry
from memory_core.testing.clock import START
from memory_searcher_whoosh import WhooshOptions, build
from memory_searcher_whoosh.files import IndexFiles
from memory_searcher_whoosh.searcher import WhooshSearcher
from memory_storer_markdown.storer import MarkdownStorer


class TestWhooshSearcher(SearcherContract):
    persistent = True

    @pytest.fixture
    def open_searcher(self, tmp_path: Path) -> Callable[[], WhooshSearcher]:
        return lambda: WhooshSearcher(tmp_path / "index")


@pytest.fixture
def searcher(tmp_path: Path) -> Iterator[WhooshSearcher]:
    searcher = WhooshSearcher(tmp_path / "index")
    yield searcher
    searcher.close()


def feed(searcher: WhooshSearcher, *entries: MemoryEntry, cursor: str = "1", complete: bool = False) -> None:
    searcher.apply(ChangeBatch(entries, (), cursor, complete=complete), "shared")


def found(searcher: WhooshSearcher, text: str, top_k: int = 10) -> list[str]:
    return [hit.entry.id.key for hit in searcher.search(SearchQuery("shared", text, top_k, START))]


def solution(folder: Path) -> StandardSolution:
    store = MarkdownStorer({"workspace": folder / "memory"}, fsync=False)
    return StandardSolution(store, WhooshSearcher(folder / "index"), ["workspace"])


# --- statistics ----------------------------------------------------------------------------------------------------


def test_scores_do_not_depend_on_how_the_index_was_built(tmp_path: Path) -> None:
    entries = [make_entry(f"k{n}", f"word{n % 7} word{n % 5} coffee" + " tea" * (n % 3)) for n in range(60)]
    once, piecemeal = WhooshSearcher(tmp_path / "once"), WhooshSearcher(tmp_path / "piecemeal")
    feed(once, *entries, complete=True)
    for entry in entries:
        feed(piecemeal, entry.model_copy(update={"content": "something else entirely"}))
    for entry in entries:
        feed(piecemeal, entry)
    for text in ("word3 tea", "coffee", "word1 word2 nowhere"):
        query = SearchQuery("shared", text, 60, START)
        assert [(h.entry, h.score) for h in once.search(query)] == [(h.entry, h.score) for h in piecemeal.search(query)]
    once.close()
    piecemeal.close()


def test_segments_and_files_stay_few(searcher: WhooshSearcher, tmp_path: Path) -> None:
    for n in range(150):
        feed(searcher, make_entry(f"k{n % 40}", f"coffee {n}"), cursor=str(n))
    files = list((tmp_path / "index" / "shared").iterdir())
    assert len({file.name.split(".")[0] for file in files if file.name.startswith("MAIN_")}) < 16
    assert len(files) < 100
    assert len(found(searcher, "coffee", 100)) == 40


def test_a_seeded_process_writes_over_nothing(searcher: WhooshSearcher) -> None:
    for n in range(6):
        random.seed(1)
        feed(searcher, make_entry(f"k{n}", "coffee"), cursor=str(n))
    assert len(found(searcher, "coffee")) == 6


# --- several processes, crashes ------------------------------------------------------------------------------------


def test_another_handle_s_commit_is_seen_at_the_next_search(searcher: WhooshSearcher, tmp_path: Path) -> None:
    other = WhooshSearcher(tmp_path / "index")
    feed(searcher, make_entry("a", "coffee"))
    assert found(other, "coffee") == ["a"]
    feed(other, make_entry("b", "coffee"), cursor="2")
    assert sorted(found(searcher, "coffee")) == ["a", "b"]
    assert searcher.cursor("shared") == "2"
    searcher.clear("shared")
    assert found(other, "coffee") == []
    assert other.cursor("shared") is None
    other.close()


def test_a_step_that_continues_what_another_process_forgot_is_left_out(
    searcher: WhooshSearcher, tmp_path: Path
) -> None:
    feed(searcher, make_entry("a", "coffee"), complete=True)
    assert searcher.cursor("shared") == "1"
    other = WhooshSearcher(tmp_path / "index")
    other.clear("shared")
    feed(searcher, make_entry("b", "coffee"), cursor="2")
    assert searcher.cursor("shared") is None
    assert found(searcher, "coffee") == []
    other.close()


WRITER = """
import sys
from pathlib import Path
from memory_core.solution import StandardSolution
from memory_searcher_whoosh.searcher import WhooshSearcher
from memory_storer_markdown.storer import MarkdownStorer
folder, name, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
store = MarkdownStorer({"workspace": folder / "memory"}, fsync=False)
solution = StandardSolution(store, WhooshSearcher(folder / "index"), ["workspace"])
for n in range(count):
    solution.remember(f"{name}-{n}", f"coffee number {n} of {name}")
    assert solution.search(f"number {n} {name}", top_k=500), n
    print(n, flush=True)
"""


def start_writer(folder: Path, name: str, count: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(folder), name, str(count)], stdout=subprocess.PIPE, text=True
    )


def test_two_processes_write_and_search(tmp_path: Path) -> None:
    writers = [start_writer(tmp_path, name, 15) for name in ("one", "two")]
    for writer in writers:
        assert len(writer.communicate(timeout=120)[0].splitlines()) == 15
        assert writer.returncode == 0
    with_both = solution(tmp_path)
    assert len(with_both.search("coffee", top_k=100)) == 30
    with_both.close()


def test_killed_writers_leave_a_usable_index(tmp_path: Path) -> None:
    acknowledged: set[str] = set()
    for round_ in range(4):
        writer = start_writer(tmp_path, f"w{round_}", 500)
        assert writer.stdout is not None
        for _ in range(3 + round_):
            acknowledged.add(f"w{round_}-{int(writer.stdout.readline())}")
        time.sleep(0.003 * round_)
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
    after = solution(tmp_path)
    keys = {hit.entry.id.key for hit in after.search("coffee", top_k=5000)}
    assert acknowledged <= keys == {entry.id.key for entry in after.list_all(limit=5000)}
    assert keys == {entry.id.key for entry in after.storer.scan()}
    after.remember("last", "coffee")
    after.search("coffee")
    leftovers = [path.name for path in (tmp_path / "index" / "shared").iterdir() if ".toc." in path.name]
    assert leftovers == []
    after.close()


def test_a_writer_waits_for_another_and_gives_up_in_one_sentence(tmp_path: Path) -> None:
    searcher = WhooshSearcher(tmp_path / "index", lock_timeout_s=0.05)
    feed(searcher, make_entry("a", "coffee"))
    holder = IndexFiles(tmp_path / "index" / "shared", 1.0)._writer()
    try:
        with pytest.raises(IndexUnavailableError, match="Another process has been writing"):
            feed(searcher, make_entry("b", "coffee"), cursor="2")
        assert searcher.cursor("shared") == "1"
        assert found(searcher, "coffee") == ["a"]
    finally:
        holder.cancel()
    feed(searcher, make_entry("b", "coffee"), cursor="2")
    assert sorted(found(searcher, "coffee")) == ["a", "b"]
    searcher.close()


# --- damage --------------------------------------------------------------------------------------------------------


def damage_toc(folder: Path) -> None:
    for path in folder.glob("*.toc"):
        path.write_bytes(b"rubbish")


def truncate_terms(folder: Path) -> None:
    for path in folder.glob("*.trm"):
        os.truncate(path, 10)


def remove_postings(folder: Path) -> None:
    for path in folder.glob("*.pst"):
        path.unlink()


def empty_everything(folder: Path) -> None:
    for path in folder.iterdir():
        path.write_bytes(b"")


def remove_folder(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()


@pytest.mark.parametrize("harm", [damage_toc, truncate_terms, remove_postings, empty_everything, remove_folder])
def test_a_damaged_index_is_built_anew_from_the_store(tmp_path: Path, harm: Callable[[Path], None]) -> None:
    before = solution(tmp_path)
    for n in range(5):
        before.remember(f"k{n}", f"coffee {n}")
    assert len(before.search("coffee", top_k=9)) == 5
    before.close()
    harm(tmp_path / "index" / "shared")
    after = solution(tmp_path)
    assert len(after.search("coffee", top_k=9)) == 5
    after.close()


def test_damage_that_shows_only_while_searching_is_said_and_repaired(tmp_path: Path) -> None:
    searcher = WhooshSearcher(tmp_path / "index")
    feed(searcher, *(make_entry(f"k{n}", f"coffee {n} " + "x" * 200) for n in range(50)), complete=True)
    searcher.close()
    for path in (tmp_path / "index" / "shared").glob("*facts.col"):
        os.truncate(path, 7)
    with pytest.raises(IndexUnavailableError, match="has been removed"):
        found(searcher, "coffee")
    assert searcher.cursor("shared") is None
    feed(searcher, make_entry("k", "coffee"), complete=True)
    assert found(searcher, "coffee") == ["k"]
    searcher.close()


def test_an_index_of_another_tokenizer_or_stemmer_is_not_used(tmp_path: Path) -> None:
    english = WhooshSearcher(tmp_path / "index")
    feed(english, make_entry("k", "drinking coffees"))
    english.close()
    plain = WhooshSearcher(tmp_path / "index", stemmer=None)
    assert plain.cursor("shared") is None
    assert found(plain, "coffees") == []
    feed(plain, make_entry("k", "drinking coffees"), complete=True)
    assert found(plain, "coffees") == ["k"]
    assert found(plain, "coffee") == []
    plain.close()


def test_a_directory_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "index").write_text("a file where the directory should be")
    searcher = WhooshSearcher(tmp_path / "index")
    assert found(searcher, "coffee") == []
    with pytest.raises(IndexUnavailableError, match="cannot be written"):
        feed(searcher, make_entry("k", "coffee"))


def test_reading_writes_nothing(tmp_path: Path) -> None:
    searcher = WhooshSearcher(tmp_path / "index")
    assert found(searcher, "coffee") == []
    assert searcher.cursor("shared") is None
    assert searcher.count("shared") == 0
    assert searcher.scores(SearchQuery("shared", "coffee", 5, START), [make_entry().id]) == {}
    searcher.clear()
    searcher.remove_index(make_entry().id)
    assert not (tmp_path / "index").exists()


def test_only_so_many_users_are_open(tmp_path: Path) -> None:
    searcher = WhooshSearcher(tmp_path / "index", max_users=2)
    for user in "abcd":
        searcher.apply(ChangeBatch([make_entry("k", "coffee", user=user)], (), "1", complete=True), user)
    for user in "abcd":
        assert len(searcher.search(SearchQuery(user, "coffee", 5, START))) == 1
        assert searcher.cursor(user) == "1"
    searcher.close()


def test_the_factory_takes_the_options(tmp_path: Path) -> None:
    def nothing(name: str | None = None) -> WhooshSearcher:
        raise AssertionError(name)

    context = BackendContext((), tmp_path / "index", FakeClock(), None, nothing, nothing)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType] # neither is asked
    searcher = build(WhooshOptions(max_terms=4), context)
    feed(searcher, *(make_entry(f"k{n}", f"word{n} common") for n in range(9)))
    assert found(searcher, "common word1 word2 word3 word4 word5", 9) == ["k1", "k2", "k3", "k4"]
    searcher.close()
