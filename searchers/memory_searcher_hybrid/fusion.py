"""From the answers of several arms to one ranking: pure functions.

The default, `union`, was measured on LoCoMo and LongMemEval (see docs/search.md): a lexical score is divided by the
query's best; a dense score is taken as its distance from the mean of **all** of the user's entries, in standard
deviations, for every candidate of any arm, and divided by `Z_SCALE` or the query's highest distance, whichever is more.
So a weak dense arm adds what it knows and cannot drown the words. Reciprocal rank fusion (Cormack, Clarke & Buettcher
2009) and min-max scores (Fox & Shaw 1994) are there for comparison; both fell below the lexical arm alone, or gained
less, on conversations.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite, sqrt

from memory_core.model import MemoryEntry, MemoryId, SearchHit, hit_order

Z_SCALE = 5.0
"""Standard deviations above the mean at which a dense score counts in full."""

RRF_K = 60
READABLE_BELOW, BLIND_FROM = 0.1, 1 / 3
"""Up to a tenth of unknown tokens a dense arm has its whole weight, from a third on none: names and emoji are often
unknown to a model that reads the language well, while a text without every third word is no longer the same text."""

_DIGITS = 9


@dataclass(slots=True)
class Answer:
    """What one arm said: its hits, best first, and for a dense arm how to read them.

    `scores` also has candidates that only other arms listed. `stats` are mean and deviation of the arm's scores over
    all of the user's entries. `sight` goes from 0 (it cannot read the query) to 1.
    """

    name: str
    dense: bool
    hits: Sequence[SearchHit]
    scores: dict[MemoryId, float] = field(default_factory=dict[MemoryId, float])
    stats: tuple[float, float] | None = None
    sight: float = 1.0


@dataclass(slots=True)
class _Row:
    entry: MemoryEntry
    score: float = 0.0
    explain: dict[str, float] = field(default_factory=dict[str, float])


def sight(unknown_share: float) -> float:
    """Return how far an arm can be trusted that does not know this share of the query's tokens."""
    return min(1.0, max(0.0, (BLIND_FROM - unknown_share) / (BLIND_FROM - READABLE_BELOW)))


def fuse(answers: Sequence[Answer], method: str, dense_weight: float) -> list[SearchHit]:
    """Return all candidates of all arms, best first; each explains what its arms gave.

    Args:
        answers: One for each arm that answered.
        method: `"union"`, `"minmax"` or `"rrf"`.
        dense_weight: The dense arms' share of the score, before what they cannot read is taken off.

    """
    seen = [answer for answer in answers if answer.hits and (not answer.dense or answer.sight > 0)]
    rows = {hit.entry.id: _Row(hit.entry) for answer in seen for hit in answer.hits}
    if method == "rrf":
        _by_rank(seen, rows)
    else:
        lexical = [answer for answer in answers if not answer.dense]
        dense = [answer for answer in answers if answer.dense]
        weight = dense_weight * (sum(answer.sight for answer in dense) / len(dense) if dense else 0.0)
        if not lexical:
            weight = 1.0
        for answer in lexical:
            _add(answer, rows, _lexical(answer, method), len(lexical), (1 - weight))
        total = sum(answer.sight for answer in dense)
        for answer in dense:
            if answer.sight > 0:
                _add(answer, rows, _dense(answer, method, rows), total / answer.sight, weight)
    hits = [SearchHit(row.entry, min(1.0, max(0.0, round(row.score, _DIGITS))), row.explain) for row in rows.values()]
    return sorted(hits, key=hit_order)


def _add(
    answer: Answer, rows: Mapping[MemoryId, _Row], normal: Mapping[MemoryId, float], parts: float, weight: float
) -> None:
    """Add one arm's normalised scores to the rows, and what it gave to their explanation."""
    for id, value in normal.items():
        row = rows.get(id)
        if row is None or not isfinite(value):
            continue
        row.score += weight * value / parts
        row.explain[answer.name] = round(answer.scores.get(id, 0.0), 6)
        row.explain[f"{answer.name}.part"] = round(weight * value / parts, 6)


def _lexical(answer: Answer, method: str) -> dict[MemoryId, float]:
    """Return the arm's scores as shares of its best (or between its last and its best)."""
    return _minmax({hit.entry.id: hit.score for hit in answer.hits}) if method == "minmax" else _shares(answer.scores)


def _shares(scores: Mapping[MemoryId, float]) -> dict[MemoryId, float]:
    best = max(scores.values(), default=0.0)
    return {id: score / best for id, score in scores.items()} if best > 0 else {}


def _dense(answer: Answer, method: str, rows: Mapping[MemoryId, _Row]) -> dict[MemoryId, float]:
    """Return the arm's scores as distances from the mean of all entries, at most 1; negative ones stay."""
    if method == "minmax":
        return _minmax({hit.entry.id: hit.score for hit in answer.hits})
    scores = {id: answer.scores[id] for id in rows if id in answer.scores}
    mean, deviation = answer.stats if answer.stats is not None else _stats(list(scores.values()))
    if not scores or deviation <= 1e-9:
        return {}
    distances = {id: (score - mean) / deviation for id, score in scores.items()}
    scale = max(Z_SCALE, max(distances.values()))
    return {id: distance / scale for id, distance in distances.items()}


def _stats(values: Sequence[float]) -> tuple[float, float]:
    if not values:
        return 0.0, 0.0
    mean = sum(values) / len(values)
    return mean, sqrt(sum((value - mean) ** 2 for value in values) / len(values))


def _minmax(scores: Mapping[MemoryId, float]) -> dict[MemoryId, float]:
    if not scores:
        return {}
    low, high = min(scores.values()), max(scores.values())
    return {id: (score - low) / (high - low) if high > low else 1.0 for id, score in scores.items()}


def _by_rank(answers: Sequence[Answer], rows: Mapping[MemoryId, _Row]) -> None:
    """Give each row the sum of `1 / (k + rank)` over the arms, as a share of what being first in all would give."""
    for answer in answers:
        for rank, hit in enumerate(answer.hits, start=1):
            row = rows[hit.entry.id]
            part = (RRF_K + 1) / (RRF_K + rank) / len(answers)
            row.score += part
            row.explain[answer.name] = round(hit.score, 6)
            row.explain[f"{answer.name}.part"] = round(part, 6)
