"""From the answers of several arms to one ranking: pure functions.

The default, `union`, was measured on LoCoMo and LongMemEval (see docs/search.md): a lexical score is divided by the
query's best; a dense score is taken as its distance from the mean of **all** of the user's entries, in standard
deviations, for every candidate of any arm, and divided by `Z_SCALE` or the query's highest distance, whichever is more.
So a weak dense arm adds what it knows and cannot drown the words. Reciprocal rank fusion (Cormack, Clarke & Buettcher
2009) and min-max scores (Fox & Shaw 1994) are there for comparison; both fell below the lexical arm alone, or gained
less, on conversations.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from heapq import nlargest
from math import isfinite, sqrt

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


def sight(unknown_share: float) -> float:
    """Return how far an arm can be trusted that does not know this share of the query's tokens."""
    return min(1.0, max(0.0, (BLIND_FROM - unknown_share) / (BLIND_FROM - READABLE_BELOW)))


def confirmed(answers: Sequence[Answer], behind: Set[str]) -> list[Answer]:
    """Return the answers without those hits of the arms `behind` that no other arm has with the same entry.

    An arm that is behind may list what was removed, or a text that was replaced. When no other arm answers, there is
    nothing to compare with, and all stay.
    """
    current = [answer for answer in answers if answer.name not in behind]
    if not current or len(current) == len(answers):
        return list(answers)
    known = {hit.entry.id: hit.entry for answer in current for hit in answer.hits}

    def checked(answer: Answer) -> Answer:
        hits = [hit for hit in answer.hits if known.get(hit.entry.id) == hit.entry]
        return replace(answer, hits=hits, scores={hit.entry.id: hit.score for hit in hits})

    return [checked(answer) if answer.name in behind else answer for answer in answers]


def fuse(answers: Sequence[Answer], method: str, dense_weight: float, limit: int) -> list[SearchHit]:
    """Return the best of all arms' candidates, best first; each explains what its arms gave.

    Args:
        answers: One for each arm that answered.
        method: `"union"`, `"minmax"` or `"rrf"`.
        dense_weight: The dense arms' share of the score, before what they cannot read is taken off.
        limit: How many are wanted; those that tie with the last one are told apart by the order of the contract.
    """
    entries = {hit.entry.id: hit.entry for answer in answers for hit in answer.hits if answer.sight > 0}
    parts = _by_rank(answers) if method == "rrf" else _by_score(answers, method, dense_weight, entries)
    totals = dict.fromkeys(entries, 0.0)
    for part in parts.values():
        for key, value in part.items():
            if key in totals and isfinite(value):
                totals[key] += value
    scores = {key: min(1.0, max(0.0, round(total, _DIGITS))) for key, total in totals.items()}
    if len(scores) > limit:
        last = nlargest(limit, scores.values())[-1]
        scores = {key: score for key, score in scores.items() if score >= last}
    hits = [SearchHit(entries[key], score, _explain(answers, parts, key)) for key, score in scores.items()]
    return sorted(hits, key=hit_order)[:limit]


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
    answers: Sequence[Answer], method: str, dense_weight: float, entries: Mapping[MemoryId, MemoryEntry]
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
            parts[answer.name] = {key: share * value for key, value in _dense(answer, method, entries).items()}
    return parts


def _lexical(answer: Answer, method: str) -> dict[MemoryId, float]:
    """Return the arm's scores as shares of its best (or between its last and its best)."""
    return _minmax({hit.entry.id: hit.score for hit in answer.hits}) if method == "minmax" else _shares(answer.scores)


def _shares(scores: Mapping[MemoryId, float]) -> dict[MemoryId, float]:
    best = max(scores.values(), default=0.0)
    return {key: score / best for key, score in scores.items()} if best > 0 else {}


def _dense(answer: Answer, method: str, entries: Mapping[MemoryId, MemoryEntry]) -> dict[MemoryId, float]:
    """Return the arm's scores as distances from the mean of all entries, at most 1; negative ones stay."""
    if method == "minmax":
        return _minmax({hit.entry.id: hit.score for hit in answer.hits})
    scores = {key: score for key, score in answer.scores.items() if key in entries}
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
    seen = [answer for answer in answers if answer.sight > 0]
    return {
        answer.name: {
            hit.entry.id: (RRF_K + 1) / (RRF_K + rank) / len(seen) for rank, hit in enumerate(answer.hits, start=1)
        }
        for answer in seen
    }
