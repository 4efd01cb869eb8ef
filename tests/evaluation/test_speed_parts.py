"""The parts of measuring speed: texts, percentiles, growth, limits, sizes on disk."""

import math
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_core.evaluation.bench_texts import Texts
from memory_core.evaluation.speed.disk import used
from memory_core.evaluation.speed.growth import exponents, fitted_exponent, limits
from memory_core.evaluation.speed.plan import Cell
from memory_core.evaluation.speed.report import shown
from memory_core.evaluation.speed.timing import percentile, timed
from memory_core.text import unique_tokens

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def test_texts_are_the_same_for_a_seed_and_differ_from_each_other() -> None:
    texts = [Texts(5).text(number) for number in range(2_000)]
    assert texts == [Texts(5).text(number) for number in range(2_000)]
    assert texts != [Texts(6).text(number) for number in range(2_000)]
    assert len(set(texts)) == len(texts)
    assert [Texts(5).query(n, 100) for n in range(50)] == [Texts(5).query(n, 100) for n in range(50)]


def test_texts_are_in_two_languages_as_long_as_memories_and_follow_zipf() -> None:
    texts = [Texts(0).text(number) for number in range(4_000)]
    chinese = sum(any("\u4e00" <= char <= "\u9fff" for char in text) for text in texts) / len(texts)
    assert 0.3 < chinese < 0.45
    english = [text for text in texts if text.isascii()]
    assert all(8 <= len(text.split()) <= 40 for text in english)
    counts = Counter(word for text in english for word in text.lower().strip(".").split()).most_common()
    assert counts[0][1] / counts[9][1] == pytest.approx(10, rel=0.35), "the tenth word is a tenth as frequent"
    assert sum(1 for _, count in counts if count <= 3) > 300, "a long tail"


def test_queries_share_words_with_a_memory_of_that_size() -> None:
    texts = Texts(0)
    everything = {token for number in range(50) for token in unique_tokens(texts.text(number))}
    for number in range(200):
        assert set(unique_tokens(texts.query(number, 50))) & everything


def test_entries_live_in_both_scopes_and_expire_by_importance() -> None:
    entries = [Texts(0).entry(number, NOW) for number in range(20)]
    assert {entry.id.scope for entry in entries} == {"user", "workspace"}
    assert len({entry.id.key for entry in entries}) == 20
    assert {entry.importance for entry in entries} == set(range(1, 11))
    assert all((entry.expires_at is None) == (entry.importance == 10) for entry in entries)


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=60), st.floats(0, 1))
def test_a_percentile_is_a_value_that_so_many_do_not_exceed(values: list[float], share: float) -> None:
    found = percentile(values, share)
    assert found in values
    assert sum(value <= found for value in values) >= share * len(values)
    assert sum(value < found for value in values) <= math.ceil(share * len(values))


def test_timing_stops_early_but_not_too_early() -> None:
    calls: list[int] = []
    assert len(timed(calls.append, 7, least=2, stage_s=60)) == 7
    assert calls == list(range(7))
    assert len(timed(calls.append, 100, least=4, stage_s=-1)) == 4
    assert all(value >= 0 for value in timed(calls.append, 3, least=1, stage_s=60))


@given(st.floats(0.1, 100), st.floats(-2, 3), st.lists(st.integers(1, 10**6), min_size=2, max_size=5, unique=True))
@settings(deadline=None)
def test_the_exponent_of_a_power_is_found(factor: float, exponent: float, sizes: list[int]) -> None:
    found = fitted_exponent(sizes, [factor * size**exponent for size in sizes])
    assert found == pytest.approx(exponent, abs=1e-6)


def test_no_exponent_is_invented() -> None:
    assert fitted_exponent([1_000], [5.0]) is None
    assert fitted_exponent([1_000, 1_000], [5.0, 6.0]) is None
    assert fitted_exponent([1_000, 10_000], [0.0, 6.0]) is None
    assert exponents([Cell("kv", "numpy", 1_000, {"search_ms_p50": 1.0})]) == {("kv", "numpy"): {}}


def cell(size: int, search: float, write: float = 1.0) -> Cell:
    return Cell("kv", "numpy", size, {"search_ms_p95": search, "write_ms_p95": write})


def test_the_limit_is_the_smallest_measured_size_that_breaks_the_criterion() -> None:
    (limit,) = limits([cell(100_000, 900), cell(1_000, 2), cell(10_000, 150)])
    assert (limit.measured, limit.figure, limit.value) == (10_000, "search_ms_p95", 150)
    (limit,) = limits([cell(1_000, 2, write=101)])
    assert (limit.measured, limit.figure) == (1_000, "write_ms_p95")
    assert "not usable from 1,000 on" in limit.sentence()


def test_beyond_what_was_measured_only_a_clear_growth_is_continued_and_said_to_be() -> None:
    (limit,) = limits([cell(1_000, 1), cell(10_000, 10)])
    assert limit.measured is None
    assert limit.extrapolated == 100_000
    assert "until about 100,000 (extrapolated)" in limit.sentence()
    (constant,) = limits([cell(1_000, 1), cell(10_000, 1)])
    assert constant.extrapolated is None
    assert constant.sentence() == "usable up to 10,000, the largest size measured"
    (too_near,) = limits([cell(1_000, 1), cell(2_000, 2)])
    assert too_near.extrapolated is None
    (too_far,) = limits([cell(1_000, 0.01), cell(10_000, 0.02)])
    assert too_far.extrapolated is None
    assert limits([Cell("kv", "numpy", 1_000, {}, "it failed")]) == []


def test_disk_counts_files_and_bytes_below_folders(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "one").write_bytes(b"12345")
    (tmp_path / "a" / "b" / "two").write_bytes(b"123")
    assert used([tmp_path / "a"]) == (2, 8)
    assert used([tmp_path / "a" / "b", tmp_path / "none"]) == (1, 3)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("search_ms_p50", None, "–"),
        ("search_ms_p50", 0.1234, "0.12"),
        ("search_ms_p50", 12.34, "12.3"),
        ("search_ms_p50", 1234.5, "1,234"),
        ("index_files", 7.0, "7"),
        ("index_bytes", 999, "999 B"),
        ("index_bytes", 1_500, "1.5 KB"),
        ("grown_index_bytes", -2_500_000, "-2.5 MB"),
        ("index_bytes", 3e9, "3.0 GB"),
    ],
)
def test_figures_for_people(name: str, value: float | None, text: str) -> None:
    assert shown(name, value) == text
