"""The usual measures, computed by `ir-measures` (MacAvaney, Macdonald & Ounis 2022) over trec_eval."""

from collections.abc import Mapping, Sequence
from typing import Any

from memory_core.evaluation.extras import require

MEASURES = ("nDCG@10", "R@5", "R@10", "RR@10", "Success@1", "Success@5")
"""Normalised discounted cumulative gain, recall, the reciprocal rank of the first right hit (its mean is MRR), and
whether there is a right one among the first hits."""

Scores = dict[str, float]
"""Measure → value."""

Each = dict[str, Scores]
"""Query id → measure → value."""


def measure_each(
    grades: Mapping[str, Mapping[str, int]], rankings: Mapping[str, Sequence[str]], measures: Sequence[str] = MEASURES
) -> Each:
    """Return each measure for every query in `rankings`, 0..1, in their order.

    Args:
        grades: Query id → document id → grade above 0; nDCG takes the grade itself as gain, the others any grade.
        rankings: Query id → document ids, best first; a query that found nothing has an empty list and counts as 0.
        measures: Names as ir-measures writes them.

    Raises:
        MissingExtraError: ir-measures is not installed.

    """
    require("ir_measures")
    import ir_measures

    ir: Any = ir_measures
    parsed = {ir.parse_measure(name): name for name in measures}
    each: Each = {query: dict.fromkeys(measures, 0.0) for query in rankings}
    # trec_eval orders by score and breaks ties by id; the place in the ranking as score keeps the ranking's own order.
    run = {query: {id: 1.0 / place for place, id in enumerate(ids, 1)} for query, ids in rankings.items() if ids}
    if run:
        labels = {query: dict(grades[query]) for query in run}
        for found in ir.iter_calc(list(parsed), labels, run):
            each[found.query_id][parsed[found.measure]] = float(found.value)
    return each


def mean(each: Mapping[str, Scores], measures: Sequence[str] = MEASURES) -> Scores:
    """Return each measure's mean over the queries; 0 when there are none."""
    return {name: sum(scores[name] for scores in each.values()) / max(1, len(each)) for name in measures}


def measure(
    grades: Mapping[str, Mapping[str, int]], rankings: Mapping[str, Sequence[str]], measures: Sequence[str] = MEASURES
) -> Scores:
    """Return each measure's mean over the queries in `rankings`, 0..1; arguments and errors as `measure_each`."""
    return mean(measure_each(grades, rankings, measures), measures)
