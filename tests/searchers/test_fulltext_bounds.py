"""Bounds never cost a hit: the bit arithmetic against plain numbers, the ranking against BM25 of every entry."""

import random
from collections.abc import Sequence
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_core.model import ChangeBatch, MemoryEntry, SearchQuery
from memory_core.testing import make_entry
from memory_core.testing.clock import START
from memory_core.text import tokens
from memory_searcher_fulltext import index as index_module
from memory_searcher_fulltext import ranking
from memory_searcher_fulltext.bits import add, at_least, from_rows, largest, to_rows
from memory_searcher_fulltext.impacts import LEVELS, Impacts, length_norm
from memory_searcher_fulltext.index import UserIndex

ROWS = 40

numbers = st.lists(st.integers(0, 31), min_size=ROWS, max_size=ROWS)


def sliced(values: Sequence[int]) -> list[int]:
    """Return plain numbers as sets of their binary digits."""
    return [from_rows([row for row, value in enumerate(values) if value >> place & 1], ROWS) for place in range(5)]


def plain(total: Sequence[int]) -> list[int]:
    return [sum((digit >> row & 1) << place for place, digit in enumerate(total)) for row in range(ROWS)]


@given(st.lists(st.tuples(numbers, st.integers(0, 63)), max_size=6))
def test_sums_are_those_of_every_row(terms: list[tuple[list[int], int]]) -> None:
    total: list[int] = []
    for values, factor in terms:
        add(total, sliced(values), factor)
    assert plain(total) == [sum(values[row] * factor for values, factor in terms) for row in range(ROWS)]


@given(numbers, st.sets(st.integers(0, ROWS - 1)), st.integers(1, ROWS + 5))
def test_the_largest_are_chosen_with_all_that_tie(values: list[int], among: set[int], count: int) -> None:
    chosen = set(to_rows(largest(sliced(values), from_rows(among, ROWS), count)))
    ordered = sorted((values[row] for row in among), reverse=True)
    last = ordered[min(count, len(ordered)) - 1] if ordered else 0
    assert chosen == {row for row in among if values[row] >= last}


@given(numbers, st.sets(st.integers(0, ROWS - 1)), st.integers(0, 70))
def test_a_bound_keeps_what_reaches_it(values: list[int], among: set[int], bound: int) -> None:
    kept = set(to_rows(at_least(sliced(values), from_rows(among, ROWS), bound)))
    assert kept == {row for row in among if values[row] >= bound}


@given(st.sets(st.integers(0, 300)), st.sampled_from([300, 30_000]))
def test_sets_hold_what_went_in_lowest_first(rows: set[int], highest: int) -> None:
    assert list(to_rows(from_rows(rows, highest))) == sorted(rows)


# --- ranking -------------------------------------------------------------------------------------------------------

WORDS = [f"w{n}" for n in range(12)]


@pytest.fixture(autouse=True)
def small_indexes_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let bounds rank from the first entry on, so that small cases reach them."""
    monkeypatch.setattr(ranking, "_BOUNDS_FROM", 1)


def by_fts(index: UserIndex, query: SearchQuery) -> list[tuple[str, float]]:
    """Rank every matching entry with FTS5's own scores, then in the contract's order."""
    terms = index._weigher.weigh(query.text)
    if not terms.weights:
        return []
    rows = index._ranking._filtered(ranking._match(list(terms.weights)), query, 10_000)
    # Both add the same numbers, in another order: what differs by less is a tie.
    rows = [row._replace(score=round(row.score, 9)) for row in rows]
    return [(row.key, row.score) for row in sorted(rows, key=ranking._order)[: query.top_k]]


def ranked(index: UserIndex, query: SearchQuery) -> list[tuple[str, float]]:
    return [(hit.entry.id.key, round(hit.explain["bm25"], 9)) for hit in index.search(query)]


texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=30).map(" ".join)
entries = st.lists(
    st.tuples(texts, st.integers(1, 10), st.sampled_from(["user", "workspace"]), st.sampled_from([None, -1, 1])),
    min_size=1,
    max_size=60,
)


def made(rows: list[tuple[str, int, str, int | None]]) -> list[MemoryEntry]:
    return [
        make_entry(
            f"k{n:02}",
            text,
            importance=importance,
            scope=scope,
            expires=START + timedelta(days=days) if days is not None else None,
        )
        for n, (text, importance, scope, days) in enumerate(rows)
    ]


@settings(deadline=None)
@given(entries, texts, st.integers(1, 12), st.sampled_from([None, 5]), st.sampled_from([None, ("user",)]))
def test_the_ranking_is_that_of_every_entry(
    rows: list[tuple[str, int, str, int | None]],
    text: str,
    top_k: int,
    at_least: int | None,
    scopes: tuple[str, ...] | None,
) -> None:
    index = UserIndex("english", 64)
    index.apply(ChangeBatch(made(rows), [], "1", complete=True))
    query = SearchQuery("shared", text, top_k, START, scopes=scopes, min_importance=at_least)
    assert ranked(index, query) == by_fts(index, query)


@settings(deadline=None)
@given(entries, st.lists(st.tuples(st.integers(0, 59), st.booleans(), texts), max_size=25), texts)
def test_following_changes_gives_what_a_new_index_gives(
    rows: list[tuple[str, int, str, int | None]], changes: list[tuple[int, bool, str]], text: str
) -> None:
    """Terms that are already in memory follow each change; so do lengths, free rows and filters."""
    index = UserIndex("english", 64)
    index.apply(ChangeBatch(made(rows), [], "1", complete=True))
    living = {entry.id: entry for entry in made(rows)}
    query = SearchQuery("shared", text, 5, START, min_importance=3)
    for number, removes, content in changes:
        index.search(query)
        if removes and number < len(rows):
            id = make_entry(f"k{number:02}", "x", scope=rows[number][2]).id
            index.remove(id)
            living.pop(id, None)
        else:
            entry = make_entry(f"k{number:02}", content, scope="user", importance=number % 10 + 1)
            index.put(entry)
            living[entry.id] = entry
        assert ranked(index, query) == by_fts(index, query)
    fresh = UserIndex("english", 64)
    fresh.apply(ChangeBatch(list(living.values()), [], "1", complete=True))
    assert ranked(index, query) == ranked(fresh, query)
    highest = index._db.execute("SELECT coalesce(max(rowid), 0) FROM docs").fetchone()[0]
    assert highest <= len(rows) + len(changes)


def test_rows_are_used_again_also_after_a_snapshot() -> None:
    index = UserIndex("english", 64)
    index.apply(ChangeBatch([make_entry(f"k{n}", f"coffee number{n}") for n in range(50)], [], "1", complete=True))
    for n in range(20):
        index.remove(make_entry(f"k{n}", "x").id)
    copy = UserIndex("english", 64, index.serialize())
    for each in (index, copy):
        for turn in range(3):
            for n in range(30):
                each.put(make_entry(f"n{n}", f"tea {turn} number{n}"))
        assert each._db.execute("SELECT max(rowid) FROM docs").fetchone()[0] == 60
        assert ranked(each, SearchQuery("shared", "tea number7", 3, START))[0][0] == "n7"


def test_a_failed_batch_leaves_no_trace_in_what_is_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    index = UserIndex("english", 64)
    index.apply(ChangeBatch([make_entry(f"k{n}", f"coffee number{n}") for n in range(20)], [], "1", complete=True))
    query = SearchQuery("shared", "coffee tea number3", 5, START)
    before = ranked(index, query)

    def broken(text: str, stemmer: str | None) -> list[str]:
        return tokens(text, stemmer) if text != "fails" else [str(1 / 0)]

    monkeypatch.setattr(index_module, "tokens", broken)
    with pytest.raises(ZeroDivisionError):
        index.apply(ChangeBatch([make_entry("k3", "tea"), make_entry("b", "fails")], [make_entry("k4", "x").id], "2"))
    assert ranked(index, query) == before
    index.put(make_entry("k50", "tea tea"))
    assert ranked(index, query) == by_fts(index, query)


def test_a_moved_average_length_never_loses_a_hit() -> None:
    """Impacts are rounded up for a longer average than there is; when the average outgrows that, they are read anew."""
    chance = random.Random(3)
    index = UserIndex("english", 64)
    vocabulary = [f"v{n}" for n in range(300)]
    query = SearchQuery("shared", " ".join(vocabulary[:6]), 4, START)
    for n in range(160):
        index.put(make_entry(f"k{n:03}", " ".join(chance.choices(vocabulary, k=1 + n))))
        assert ranked(index, query) == by_fts(index, query)


def test_entries_read_lately_are_kept_and_follow_every_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_module, "_READ_KEPT", 3)
    index = UserIndex("english", 64)
    index.apply(ChangeBatch([make_entry(f"k{n}", f"coffee w{n}") for n in range(9)], [], "1", complete=True))
    query = SearchQuery("shared", "coffee w3", 9, START)
    assert len({hit.entry.id for hit in index.search(query)}) == 9
    assert len(index._read) == 3
    first = index.search(query)[0].entry
    assert index.search(query)[0].entry == first
    index.put(make_entry("k3", "coffee w3 again", importance=9))
    assert index.search(query)[0].entry.content == "coffee w3 again"
    index.remove(first.id)
    assert first.id not in {hit.entry.id for hit in index.search(query)}
    index.apply(ChangeBatch([make_entry("k5", "coffee w3 new")], [], "2", complete=True))
    assert [hit.entry.content for hit in index.search(query)] == ["coffee w3 new"]


def test_only_so_many_terms_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memory_searcher_fulltext.impacts._MIN_TERMS", 4)
    monkeypatch.setattr("memory_searcher_fulltext.impacts._BYTES", 1)
    index = UserIndex("english", 64)
    index.apply(ChangeBatch([make_entry(f"k{n}", f"w{n} w{n + 1}") for n in range(30)], [], "1", complete=True))
    for n in range(30):
        query = SearchQuery("shared", f"w{n}", 3, START)
        assert ranked(index, query) == by_fts(index, query)
        assert len(index._impacts._terms) <= 4


def test_a_level_is_never_below_the_impact() -> None:
    impacts = Impacts(UserIndex("english", 64)._db)
    impacts.fit(20.0)
    for mean in (18.5, 20.0, 21.9):
        for frequency in (1, 2, 5, 100):
            for length in (1, 5, 20, 300):
                share = frequency / (frequency + length_norm(length, mean))
                assert share <= impacts._level(frequency, length) / LEVELS
                assert 1 <= impacts._level(frequency, length) <= LEVELS
