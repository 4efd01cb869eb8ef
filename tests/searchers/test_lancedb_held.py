"""Rows held in memory: the same answers as the table gives, until the table changes."""

import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from memory_core.model import ChangeBatch, MemoryEntry, SearchQuery
from memory_core.testing import SearcherContract
from memory_core.testing.searcher import OpenSearcher
from memory_searcher_lancedb.searcher import LanceDBSearcher

from ._vectors import NOW, entry, keys, open_searcher, query

WORDS = ("coffee", "tea", "python", "框架", "garden", "train", "music", "猫")


class TestLanceDBNeverHeld(SearcherContract):
    """Every search asks the table."""

    lexical = False
    persistent = True

    @pytest.fixture
    def open_searcher(self, tmp_path: Path) -> OpenSearcher:
        return lambda: open_searcher(tmp_path, buffer_rows=1, held_rows=0)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[LanceDBSearcher, LanceDBSearcher]]:
    """Two that share a table: one holds rows, the other asks the table each time."""
    both = open_searcher(tmp_path, buffer_rows=4), open_searcher(tmp_path, buffer_rows=4, held_rows=0)
    yield both
    for one in both:
        one.close()


def asked(searcher: LanceDBSearcher, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record each time that the table is asked for neighbours."""
    times: list[int] = []
    nearest = searcher._table.nearest

    def spy(*given: Any, **more: Any) -> Any:
        times.append(1)
        return nearest(*given, **more)

    monkeypatch.setattr(searcher._table, "nearest", spy)
    return times


def made(chance: random.Random, key: str) -> MemoryEntry:
    text = " ".join(chance.choices(WORDS, k=chance.randint(1, 5))) if chance.random() < 0.9 else "…"
    scope = chance.choice(["user", "workspace"])
    expires = NOW + timedelta(days=chance.choice([-1, 1])) if chance.random() < 0.3 else None
    return entry(key, text, importance=chance.randint(1, 10), scope=scope, expires=expires)


@pytest.mark.parametrize("seed", range(4))
def test_held_rows_answer_as_the_table_does(seed: int, pair: tuple[LanceDBSearcher, LanceDBSearcher]) -> None:
    held, plain = pair
    chance = random.Random(seed)
    living: dict[str, MemoryEntry] = {}
    for step in range(12):
        upserts = [made(chance, f"k{chance.randint(0, 30)}") for _ in range(chance.randint(0, 6))]
        upserts = list({one.id.key: one for one in upserts}.values())
        gone = [living[key].id for key in chance.sample(sorted(living), min(len(living), 2))]
        gone += [living[one.id.key].id for one in upserts if one.id.key in living and living[one.id.key].id != one.id]
        gone = [id for id in gone if id not in {one.id for one in upserts}]
        held.apply(ChangeBatch(upserts, gone, str(step), complete=step == 0), "u")
        living.update({one.id.key: one for one in upserts})
        living = {key: one for key, one in living.items() if one.id not in gone}
        held.flush()
        asks = query(" ".join(chance.sample(WORDS, 2)), top_k=7)
        for ask in (asks, replace(asks, scopes=("user",)), replace(asks, min_importance=5)):
            expected = [hit.score for hit in plain.search(ask)]
            for _ in range(3):
                hits = held.search(ask)
                assert [hit.score for hit in hits] == pytest.approx(expected, abs=2e-6)
                assert all(ask.admits(hit.entry) and hit.entry == living[hit.entry.id.key] for hit in hits)
            ids = [one.id for one in living.values()]
            assert held.scores(ask, ids) == pytest.approx(plain.scores(ask, ids), abs=2e-6)
        assert held.score_stats(asks) is not None or all(one.content == "…" for one in living.values())
        for _ in range(3):
            for scopes in (None, ("user",)):
                assert held.list_all("u", 9, now=NOW, scopes=scopes) == plain.list_all("u", 9, now=NOW, scopes=scopes)
                assert held.hot("u", 9, now=NOW, scopes=scopes) == plain.hot("u", 9, now=NOW, scopes=scopes)
            assert held.list_all("u", 99) == plain.list_all("u", 99)
            assert held.count("u", now=NOW) == plain.count("u", now=NOW)
            assert held.count("u", below=5) == plain.count("u", below=5)


def test_an_unchanged_table_is_not_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    searcher = open_searcher(tmp_path)
    searcher.apply(ChangeBatch([entry(f"k{n}", f"coffee {n}") for n in range(20)], [], "1", complete=True), "u")
    searcher.flush()
    times = asked(searcher, monkeypatch)
    for _ in range(5):
        assert len(searcher.search(query("coffee 3", top_k=4))) == 4
    assert len(times) == 1  # the second search holds the rows
    searcher.apply(ChangeBatch([entry("new", "coffee 3")], [entry("k3", "x").id], "2"), "u")
    found = keys(searcher.search(query("coffee 3", top_k=4)))
    assert "new" in found
    assert "k3" not in found
    assert len(times) == 1  # what waits in memory is seen beside what is held
    searcher.flush()
    assert "new" in keys(searcher.search(query("coffee 3", top_k=4)))
    assert len(times) == 2
    searcher.clear("u")
    assert searcher.search(query("coffee 3", top_k=4)) == []
    searcher.close()


def test_texts_that_say_nothing_are_listed_and_never_found(tmp_path: Path) -> None:
    searcher = open_searcher(tmp_path)
    searcher.apply(ChangeBatch([entry(f"k{n}", "…") for n in range(3)], [], "1", complete=True), "u")
    searcher.flush()
    for _ in range(3):
        assert searcher.search(query("coffee", top_k=4)) == []
        assert [one.id.key for one in searcher.list_all("u", 9)] == ["k0", "k1", "k2"]
        assert searcher.count("u") == 3
    searcher.close()


def test_another_writer_s_commit_is_seen_at_once(pair: tuple[LanceDBSearcher, LanceDBSearcher]) -> None:
    held, other = pair
    held.apply(ChangeBatch([entry("k1", "coffee")], [], "1", complete=True), "u")
    held.flush()
    for _ in range(3):
        assert keys(held.search(query("coffee", top_k=5))) == ["k1"]
    other.apply(ChangeBatch([entry("k2", "coffee beans")], [entry("k1", "x").id], "2"), "u")
    other.flush()
    for _ in range(3):
        assert keys(held.search(query("coffee", top_k=5))) == ["k2"]


def test_a_user_with_many_entries_is_not_held_and_all_together_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    searcher = open_searcher(tmp_path, held_rows=5)
    for user, count in (("many", 6), *((f"few{n}", 5) for n in range(6))):
        rows = [entry(f"k{n}", f"coffee {n}", user=user) for n in range(count)]
        searcher.apply(ChangeBatch(rows, [], "1", complete=True), user)
    searcher.flush()
    times = asked(searcher, monkeypatch)
    for _ in range(4):
        assert len(searcher.search(SearchQuery("many", "coffee", 9, NOW))) == 6
    assert len(times) == 4
    for n in range(6):
        for _ in range(3):
            assert len(searcher.search(SearchQuery(f"few{n}", "coffee", 9, NOW))) == 5
    assert list(searcher._held._users) == [f"few{n}" for n in range(2, 6)]
    searcher.close()
