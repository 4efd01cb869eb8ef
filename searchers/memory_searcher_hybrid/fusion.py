"""From the answers of several arms to one ranking: pure functions.

The default, `union`, was measured on LoCoMo and LongMemEval (see docs/search.md): a lexical score is divided by the
query's best; a dense score is taken as its distance from the mean of **all** of the user's entries, in standard
deviations, for every candidate of any arm, and divided by `Z_SCALE` or the query's highest distance, whichever is more.
So a weak dense arm adds what it knows and cannot drown the words. Reciprocal rank fusion (Cormack, Clarke & Buettcher
2009) and min-max scores (Fox & Shaw 1994) are there for comparison; both fell below the lexical arm alone, or gained
less, on conversations.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import nlargest
from math import isfinite, sqrt

from memory_core.candidates import Candidates
from memory_core.model import MemoryEntry, MemoryId, SearchHit, hit_order

Z_SCALE = 6.0
"""Standard deviations above the mean at which a dense score counts in full."""

RRF_K = 60
READABLE_BELOW, BLIND_FROM = 0.1, 1 / 3
"""Up to a tenth of unknown tokens a dense arm has its whole weight, from a third on none: names and emoji are often
unknown to a model that reads the language well, while a text without every third word is no longer the same text."""

_DIGITS = 9
_NO_DEVIATION = 1e-9


@dataclass(slots=True)
class Answer:
    """What one arm said: its candidates, best first, and for a dense arm how to read them.

    `scores` also has candidates that only other arms listed. `stats` are mean and deviation of the arm's scores over
    all of the user's entries. `sight` goes from 0 (it cannot read the query) to 1.
    """

    name: str
    dense: bool
    candidates: Candidates
    scores: dict[MemoryId, float] = field(default_factory=dict[MemoryId, float])
    stats: tuple[float, float] | None = None
    sight: float = 1.0


def sight(unknown_share: float) -> float:
    """Return how far an arm can be trusted that does not know this share of the query's tokens."""
    return min(1.0, max(0.0, (BLIND_FROM - unknown_share) / (BLIND_FROM - READABLE_BELOW)))


def fuse(answers: Sequence[Answer], method: str, dense_weight: float, limit: int) -> list[SearchHit]:
    """Return the best of all arms' candidates, best first; each explains what its arms gave.

    Args:
        answers: One for each arm that answered.
        method: `"union"`, `"minmax"` or `"rrf"`.
        dense_weight: The dense arms' share of the score, before what they cannot read is taken off.
        limit: How many are wanted; those that tie with the last one are told apart by the order of the contract.
    """
    seen = [answer for answer in answers if answer.sight > 0]
    totals = {key: 0.0 for answer in seen for key, _ in answer.candidates.ranked}
    parts = _by_rank(seen) if method == "rrf" else _by_score(answers, method, dense_weight, totals)
    for part in parts.values():
        for key, value in part.items():
            if key in totals and isfinite(value):
                totals[key] += value
    scores = {key: min(1.0, max(0.0, round(total, _DIGITS))) for key, total in totals.items()}
    if len(scores) > limit:
        last = nlargest(limit, scores.values())[-1]
        scores = {key: score for key, score in scores.items() if score >= last}
    hits = [
        SearchHit(entry, score, _explain(answers, parts, key))
        for key, score in scores.items()
        if (entry := _entry(seen, key)) is not None
    ]
    return sorted(hits, key=hit_order)[:limit]


def _entry(answers: Sequence[Answer], key: MemoryId) -> MemoryEntry | None:
    return next((entry for answer in answers if (entry := answer.candidates.entry(key)) is not None), None)


def _explain(
    answers: Sequence[Answer], parts: Mapping[str, Mapping[MemoryId, float]], key: MemoryId
) -> dict[str, float]:
    """Return each arm's own score of an entry, and what it gave to the fused one."""
    found: dict[str, float] = {}
    for answer in answers:
        part = parts.get(answer.name, {}).get(key)
        if part is not None:
            found[answer.name] = round(answer.scores.get(key, 0.0), 6)
            found[f"{answer.name}.part"] = round(part, 6)
    return found


def _by_score(
    answers: Sequence[Answer], method: str, dense_weight: float, wanted: Collection[MemoryId]
) -> dict[str, dict[MemoryId, float]]:
    """Return what each arm gives to each candidate; the parts of all arms together reach at most 1."""
    lexical = [answer for answer in answers if not answer.dense]
    dense = [answer for answer in answers if answer.dense]
    sighted = sum(answer.sight for answer in dense)
    # What a dense arm cannot read is taken from its weight and goes to the words, where there are any.
    weight = dense_weight * sighted / len(dense) if dense and lexical else float(bool(dense))
    parts: dict[str, dict[MemoryId, float]] = {}
    for answer in lexical:
        share = (1 - weight) / len(lexical)
        parts[answer.name] = {key: share * value for key, value in _lexical(answer, method).items()}
    for answer in dense:
        if answer.sight > 0:
            share = weight * answer.sight / sighted
            parts[answer.name] = {key: share * value for key, value in _dense(answer, method, wanted).items()}
    return parts


def _lexical(answer: Answer, method: str) -> dict[MemoryId, float]:
    """Return the arm's scores as shares of its best (or between its last and its best)."""
    return _minmax(dict(answer.candidates.ranked)) if method == "minmax" else _shares(answer.scores)


def _shares(scores: Mapping[MemoryId, float]) -> dict[MemoryId, float]:
    best = max(scores.values(), default=0.0)
    return {key: score / best for key, score in scores.items()} if best > 0 else {}


def _dense(answer: Answer, method: str, wanted: Collection[MemoryId]) -> dict[MemoryId, float]:
    """Return the arm's scores as distances from the mean of all entries, at most 1; negative ones stay."""
    if method == "minmax":
        return _minmax(dict(answer.candidates.ranked))
    scores = {key: score for key, score in answer.scores.items() if key in wanted}
    mean, deviation = answer.stats if answer.stats is not None else _stats(list(scores.values()))
    if not scores or not deviation > _NO_DEVIATION:
        return {}
    scale = deviation * max(Z_SCALE, (max(scores.values()) - mean) / deviation)
    return {key: (score - mean) / scale for key, score in scores.items()}


def _stats(values: Sequence[float]) -> tuple[float, float]:
    if not values:
        return 0.0, 0.0
    mean = sum(values) / len(values)
    return mean, sqrt(sum((value - mean) ** 2 for value in values) / len(values))


def _minmax(scores: Mapping[MemoryId, float]) -> dict[MemoryId, float]:
    if not scores:
        return {}
    low, high = min(scores.values()), max(scores.values())
    return {key: (score - low) / (high - low) if high > low else 1.0 for key, score in scores.items()}


def _by_rank(answers: Sequence[Answer]) -> dict[str, dict[MemoryId, float]]:
    """Return `1 / (k + rank)` for each arm, as a share of what being first in all arms would give."""
    return {
        answer.name: {
            key: (RRF_K + 1) / (RRF_K + rank) / len(answers)
            for rank, (key, _) in enumerate(answer.candidates.ranked, start=1)
        }
        for answer in answers
    }
