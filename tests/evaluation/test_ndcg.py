"""nDCG against a computation of our own, from the definition (Järvelin & Kekäläinen 2002) and not through ir-measures."""

import math
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_core.evaluation import evaluate, load_dataset, measure, measure_each
from memory_core.model import SearchQuery
from memory_searcher_fulltext.searcher import FulltextSearcher
from tests.evaluation.sets import DATA

WITHIN = 0.002


def ndcg(grades: Mapping[str, int], ranking: Sequence[str], depth: int = 10) -> float:
    """Return gain over best gain: each document's grade, divided by the binary logarithm of its place plus one."""
    gained = sum(grades.get(id, 0) / math.log2(place + 1) for place, id in enumerate(ranking[:depth], 1))
    best = sorted(grades.values(), reverse=True)[:depth]
    return gained / sum(grade / math.log2(place + 1) for place, grade in enumerate(best, 1))


def test_the_definition_is_right_on_a_case_by_hand() -> None:
    grades = {"a": 3, "b": 1, "c": 2}
    best = 3 / 1 + 2 / math.log2(3) + 1 / 2
    assert ndcg(grades, ["b", "x", "a"]) == pytest.approx((1 / 1 + 0 + 3 / 2) / best)
    assert ndcg(grades, ["a", "c", "b"]) == 1.0
    assert ndcg(grades, []) == 0.0


IDS = st.integers(0, 30).map("d{}".format)
GRADES = st.dictionaries(IDS, st.integers(1, 4), min_size=1, max_size=25)
"""Graded, most grades several times, more right documents than places, documents that no ranking holds."""
RANKINGS = st.lists(IDS, unique=True, max_size=25)


@settings(deadline=None)
@given(st.dictionaries(st.integers(0, 9).map("q{}".format), st.tuples(GRADES, RANKINGS), min_size=1, max_size=6))
def test_any_ranking_gets_what_the_definition_says(cases: dict[str, tuple[dict[str, int], list[str]]]) -> None:
    grades = {query: case[0] for query, case in cases.items()}
    rankings = {query: case[1] for query, case in cases.items()}
    each = measure_each(grades, rankings)
    for query in cases:
        assert each[query]["nDCG@10"] == pytest.approx(ndcg(grades[query], rankings[query]), abs=1e-6)
        found = [id in grades[query] for id in rankings[query]]
        assert each[query]["RR@10"] == pytest.approx(1 / (found.index(True) + 1) if True in found[:10] else 0.0)
        assert each[query]["R@5"] == pytest.approx(sum(found[:5]) / len(grades[query]))
        assert each[query]["R@10"] == pytest.approx(sum(found[:10]) / len(grades[query]))
        assert each[query]["Success@1"] == float(any(found[:1]))
        assert each[query]["Success@5"] == float(any(found[:5]))
    means = measure(grades, rankings)
    own = sum(ndcg(grades[query], rankings[query]) for query in cases) / len(cases)
    assert means["nDCG@10"] == pytest.approx(own, abs=WITHIN)


@pytest.mark.parametrize("name", ["locomo", "longmemeval_turns", "cmrc_sent"])
def test_a_real_set_gets_what_the_definition_says(name: str) -> None:
    """Searches once more by itself, so that users, keys and the order of hits are checked too, not only the measure."""
    if not (DATA / name).is_dir():
        pytest.skip(f"the labelled set {name} is not beside the repository: nDCG was not compared on it")
    dataset = load_dataset(DATA / name).head(60)
    searcher = FulltextSearcher()
    result = evaluate(searcher, dataset, "fulltext")
    texts: dict[tuple[str, str], list[str]] = {}
    for document in dataset.documents:
        texts.setdefault((document.scope, document.text.strip()), []).append(document.id)
    users = {scope: f"user-{place}" for place, scope in enumerate(sorted({doc.scope for doc in dataset.documents}))}
    own: list[float] = []
    for question in dataset.questions:
        hits = searcher.search(SearchQuery(users[question.scope], question.text, 10, dataset.moment))
        ranking = [texts[question.scope, hit.entry.content.strip()] for hit in hits]
        if all(len(ids) == 1 for ids in ranking):  # a text that is there twice does not say which document it is
            own.append(ndcg(dataset.grades[question.id], [ids[0] for ids in ranking]))
            assert result.each[question.id]["nDCG@10"] == pytest.approx(own[-1], abs=WITHIN)
    assert len(own) >= 0.9 * len(dataset.questions)
    if len(own) == len(dataset.questions):
        assert result.scores["nDCG@10"] == pytest.approx(sum(own) / len(own), abs=WITHIN)
    assert 0.3 < result.scores["nDCG@10"] < 1.0
