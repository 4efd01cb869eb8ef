"""From the answers of several arms to one ranking: pure functions.

The default, `union`, was measured on LoCoMo and LongMemEval (see docs/search.md): a lexical score is divided by the
query's best; a dense score is taken as its distance from the mean of **all** of the user's entries, in standard
deviations, for every candidate of any arm, and divided by `Z_SCALE`.
So a weak dense arm adds what it knows and cannot drown the words. Reciprocal rank fusion (Cormack, Clarke & Buettcher
2009) and min-max scores (Fox & Shaw 1994) are there for comparison; both fell below the lexical arm alone, or gained
less, on conversations.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from heapq import nlargest
from math import isfinite, sqrt

from memory_core.contracts import Candidates
from memory_core.model import MemoryEntry, MemoryId, SearchHit, hit_order

Z_SCALE = 6.0
"""Standard deviations above the mean at which a dense score counts in full."""

RRF_K = 60
READABLE_BELOW, BLIND_FROM = 0.1, 1 / 3
"""Up to a tenth of unknown tokens a dense arm has its whole weight, from a third on none: names and emoji are often
unknown to a model that reads the language well, while a text without every third word is no longer the same text."""

_DIGITS = 9
_NO_DEVIATION = 1e-9

Parts = Sequence[float | None]
"""What one arm gives to each candidate, in the order of the candidates; None where it says nothing."""


@dataclass(slots=True)
class Answer:
    """What one arm said: its candidates, best first, and for a dense arm how to read them.

    `scores` also has candidates that only other arms listed. `stats` are mean and deviation of the arm's scores over
    all of the user's entries. `sight` goes from 0 (it cannot read the query) to 1. An arm that is `behind` may
    hold what was removed or replaced.
    """

    name: str
    dense: bool
    candidates: Candidates
    scores: dict[MemoryId, float] = field(default_factory=dict[MemoryId, float])
    stats: tuple[float, float] | None = None
    sight: float = 1.0
    behind: bool = False


def sight(unknown_share: float) -> float:
    """Return how far an arm can be trusted that does not know this share of the query's tokens."""
    return min(1.0, max(0.0, (BLIND_FROM - unknown_share) / (BLIND_FROM - READABLE_BELOW)))


def confirmed(answers: Sequence[Answer], behind: Set[str]) -> list[Answer]:
    """Return the answers without those candidates of the arms `behind` that no other arm has.

    When no other arm answers, there is nothing to compare with, and all stay.
    """
    current = [answer for answer in answers if answer.name not in behind]
    if not current or len(current) == len(answers):
        return list(answers)
    known = {key for answer in current for key, _ in answer.candidates.ranked}

    def checked(answer: Answer) -> Answer:
        ranked = [(key, score) for key, score in answer.candidates.ranked if key in known]
        candidates = replace(answer.candidates, ranked=ranked)
        return replace(answer, candidates=candidates, scores=dict(ranked), behind=True)

    return [checked(answer) if answer.name in behind else answer for answer in answers]


def fuse(answers: Sequence[Answer], method: str, dense_weight: float, limit: int) -> list[SearchHit]:
    """Return the best of all arms' candidates, best first; each explains what its arms gave.

    Args:
        answers: One for each arm that answered.
        method: `"union"`, `"minmax"` or `"rrf"`.
        dense_weight: The dense arms' share of the score, before what they cannot read is taken off.
        limit: How many are wanted; those that tie with the last one are told apart by the order of the contract.
    """
    seen = [answer for answer in answers if answer.sight > 0]
    keys = list(dict.fromkeys(key for answer in seen for key, _ in answer.candidates.ranked))
    parts = _by_rank(seen, keys) if method == "rrf" else _by_score(answers, method, dense_weight, keys)
    totals = [
        sum(value for value in values if value is not None and isfinite(value))
        for values in zip(*parts.values(), strict=True)
    ]
    scores = [min(1.0, max(0.0, round(total, _DIGITS))) for total in totals]
    last = nlargest(limit, scores)[-1] if len(scores) > limit else 0.0
    places = [place for place, score in enumerate(scores) if score >= last]
    entries = _entries(seen, [keys[place] for place in places])
    hits = [
        SearchHit(entry, scores[place], _explain(answers, parts, place, keys[place]))
        for place in places
        if (entry := entries.get(keys[place])) is not None
    ]
    return sorted(hits, key=hit_order)[:limit]


def _entries(answers: Sequence[Answer], keys: Sequence[MemoryId]) -> dict[MemoryId, MemoryEntry]:
    """Read each entry from an arm that is up to date, if one has it, and rather from memory than from elsewhere."""
    found: dict[MemoryId, MemoryEntry] = {}
    for answer in sorted(answers, key=lambda answer: (answer.behind, not answer.candidates.in_memory)):
        missing = [key for key in keys if key not in found]
        if missing:
            found |= answer.candidates.entries(missing)
    return found


def _explain(answers: Sequence[Answer], parts: Mapping[str, Parts], place: int, key: MemoryId) -> dict[str, float]:
    """Return each arm's own score of an entry, and what it gave to the fused one."""
    found: dict[str, float] = {}
    for answer in answers:
        part = parts[answer.name][place] if answer.name in parts else None
        if part is not None:
            found[answer.name] = round(answer.scores.get(key, 0.0), 6)
            found[f"{answer.name}.part"] = round(part, 6)
    return found


def _by_score(
    answers: Sequence[Answer], method: str, dense_weight: float, keys: Sequence[MemoryId]
) -> dict[str, Parts]:
    """Return what each arm gives to each candidate; the parts of all arms together reach at most 1."""
    lexical = [answer for answer in answers if not answer.dense]
    dense = [answer for answer in answers if answer.dense]
    sighted = sum(answer.sight for answer in dense)
    # What a dense arm cannot read is taken from its weight and goes to the words, where there are any.
    weight = dense_weight * sighted / len(dense) if dense and lexical else float(bool(dense))
    parts: dict[str, Parts] = {}
    for answer in answers:
        if answer.dense and not answer.sight > 0:
            continue
        share = weight * answer.sight / sighted if answer.dense else (1 - weight) / len(lexical)
        if method == "minmax":
            ranked = dict(answer.candidates.ranked)
            parts[answer.name] = _scaled([ranked.get(key) for key in keys], *_range(list(ranked.values())), share)
        else:
            values = [answer.scores.get(key) for key in keys]
            parts[answer.name] = _scaled(values, *(_distance(answer, values) if answer.dense else _best(values)), share)
    # A dense score may lie further off than `Z_SCALE`: then all parts shrink alike, so that no score exceeds 1.
    most = sum(max((value for value in part if value is not None), default=0.0) for part in parts.values())
    return {name: _scaled(part, 0.0, most, 1.0) for name, part in parts.items()} if most > 1 else parts


def _scaled(values: Parts, zero: float, whole: float, share: float) -> Parts:
    """Return each value's distance from `zero` in units of `whole`, times `share`; nothing where `whole` is 0."""
    if not whole > 0:
        return [None] * len(values)
    return [share * ((value - zero) / whole) if value is not None else None for value in values]


def _best(values: Parts) -> tuple[float, float]:
    """Read lexical scores as shares of the best."""
    return 0.0, max((value for value in values if value is not None), default=0.0)


def _distance(answer: Answer, values: Parts) -> tuple[float, float]:
    """Read dense scores as distances from the mean of all entries; negative ones stay."""
    mean, deviation = (
        answer.stats if answer.stats is not None else _stats([value for value in values if value is not None])
    )
    return mean, Z_SCALE * deviation if deviation > _NO_DEVIATION else 0.0


def _stats(values: Sequence[float]) -> tuple[float, float]:
    if not values:
        return 0.0, 0.0
    mean = sum(values) / len(values)
    return mean, sqrt(sum((value - mean) ** 2 for value in values) / len(values))


def _range(values: Sequence[float]) -> tuple[float, float]:
    """Read scores as places between the last and the best; all in full where they are equal."""
    low, high = min(values, default=0.0), max(values, default=0.0)
    return (low, high - low) if high > low else (low - 1.0, 1.0)


def _by_rank(answers: Sequence[Answer], keys: Sequence[MemoryId]) -> dict[str, Parts]:
    """Return `1 / (k + rank)` for each arm, as a share of what being first in all arms would give."""
    parts: dict[str, Parts] = {}
    for answer in answers:
        ranks = {key: rank for rank, (key, _) in enumerate(answer.candidates.ranked, start=1)}
        parts[answer.name] = [
            (RRF_K + 1) / (RRF_K + ranks[key]) / len(answers) if key in ranks else None for key in keys
        ]
    return parts
