"""The usual measures, computed by `ir-measures` (MacAvaney, Macdonald & Ounis 2022) over trec_eval."""

from collections.abc import Mapping, Sequence
from typing import Any

from memory_core.errors import MissingExtraError

MEASURES = ("nDCG@10", "R@5", "R@10", "RR@10")
"""Normalised discounted cumulative gain, recall, and the mean of the reciprocal rank of the first right hit."""

Scores = dict[str, float]


def measure(
    grades: Mapping[str, Mapping[str, int]], rankings: Mapping[str, Sequence[str]], measures: Sequence[str] = MEASURES
) -> Scores:
    """Return each measure's mean over the queries in `rankings`, 0..1.

    Args:
        grades: Query id → document id → grade above 0.
        rankings: Query id → document ids, best first; a query that found nothing has an empty list and counts as 0.
        measures: Names as ir-measures writes them.

    Raises:
        MissingExtraError: ir-measures is not installed.

    """
    try:
        import ir_measures
    except ModuleNotFoundError as error:
        raise MissingExtraError("Measuring needs ir-measures: pip install 'memory-talent[bench]'.") from error
    if not rankings:
        return dict.fromkeys(measures, 0.0)
    ir: Any = ir_measures
    parsed = {name: ir.parse_measure(name) for name in measures}
    labels = {query: dict(grades[query]) for query in rankings}
    # trec_eval orders by score and breaks ties by id; the place in the ranking as score keeps the ranking's own order.
    run = {query: {id: 1.0 / place for place, id in enumerate(ids, 1)} for query, ids in rankings.items()}
    found: dict[Any, float] = ir.calc_aggregate(list(parsed.values()), labels, run)
    return {name: float(found[which]) for name, which in parsed.items()}
