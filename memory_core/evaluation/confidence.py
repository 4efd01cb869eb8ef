"""How sure a figure is: bootstrap intervals over the questions, and whether two searchers differ by more than chance.

Everything is seeded: the same scores give the same figures.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import TYPE_CHECKING

from memory_core.evaluation.extras import require

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]

LEVEL = 0.95
RESAMPLES = 2_000
ROUNDS = 10_000
"""How often signs are drawn anew: no p-value is below 1 / (ROUNDS + 1)."""
_CHUNK = 500
_EXACT_UP_TO = 13
"""Up to so many questions that differ, all combinations of signs are tried (2^13 < ROUNDS)."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean over questions, and the ends of its 95 % interval, in the unit of the values."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Difference:
    """`one` minus `other` on the same questions: the mean, its 95 % interval, and how likely chance gives as much.

    `p` is of one comparison, `p_holm` corrected for all comparisons that were made beside it; both two-sided.
    """

    one: str
    other: str
    mean: float
    low: float
    high: float
    p: float
    p_holm: float


def intervals(columns: Mapping[str, Sequence[float]], seed: int = 0) -> dict[str, Interval]:
    """Return the mean of each column with its percentile bootstrap interval (Efron & Tibshirani 1993), 95 %.

    The rows, of which there must be at least one, are the questions: each resample draws as many, with repeats, the
    same for all columns.

    Raises:
        MissingExtraError: numpy is not installed.

    """
    require("numpy")
    import numpy as np

    if not columns:
        return {}
    values = np.array(list(columns.values()), dtype=np.float64).T
    means = _resampled(values, seed)
    edge = (1 - LEVEL) / 2
    low, high = np.quantile(means, [edge, 1 - edge], axis=0)
    return {
        name: Interval(float(values[:, place].mean()), float(low[place]), float(high[place]))
        for place, name in enumerate(columns)
    }


def _resampled(values: "Matrix", seed: int) -> "Matrix":
    """Return the means of all resamples, one row each."""
    import numpy as np

    count = len(values)
    draw = np.random.default_rng(seed)
    parts: list[Matrix] = []
    for first in range(0, RESAMPLES, _CHUNK):
        drawn = draw.integers(count, size=(min(_CHUNK, RESAMPLES - first), count))
        # How often each question was drawn, times the values: one product instead of a copy of all that was drawn.
        drawn += np.arange(len(drawn))[:, None] * count
        often = np.bincount(drawn.ravel(), minlength=drawn.size).reshape(drawn.shape)
        parts.append(often @ values / count)
    return np.concatenate(parts)


def differences(columns: Mapping[str, Sequence[float]], seed: int = 0) -> list[Difference]:
    """Compare every two columns, whose rows are the same questions.

    The test is Fisher's randomisation test on the paired differences (Smucker, Allan & Carterette 2007): if two
    searchers were alike, each question's difference could as well have the other sign. p-values are corrected for the
    number of pairs by Holm's step-down method (Holm 1979).

    Raises:
        MissingExtraError: numpy is not installed.

    """
    pairs = list(combinations(columns, 2))
    deltas = [[a - b for a, b in zip(columns[one], columns[other], strict=True)] for one, other in pairs]
    found = intervals({f"{place}": delta for place, delta in enumerate(deltas)}, seed)
    chances = randomisation_p(deltas, seed)
    return [
        Difference(one, other, interval.mean, interval.low, interval.high, p, corrected)
        for (one, other), interval, p, corrected in zip(pairs, found.values(), chances, holm(chances), strict=True)
    ]


def randomisation_p(deltas: Sequence[Sequence[float]], seed: int = 0) -> list[float]:
    """Return for each list of paired differences how likely random signs give a mean at least as far from 0.

    0 < p ≤ 1. Where few questions differ, all signs are tried; otherwise they are drawn `ROUNDS` times, the same for
    all lists, which are of one length.
    """
    require("numpy")
    import numpy as np

    if not deltas:
        return []
    values = np.array(deltas, dtype=np.float64).T
    # Sums of the same numbers in another order differ in their last bits.
    least = np.abs(values.sum(axis=0)) - 1e-9 * np.abs(values).sum(axis=0)
    rows, draw = len(values), np.random.default_rng(seed)
    reached = np.zeros(len(deltas), dtype=np.int64)
    for first in range(0, ROUNDS, _CHUNK):
        rounds = min(_CHUNK, ROUNDS - first)
        bits = np.frombuffer(draw.bytes(rounds * -(-rows // 8)), dtype=np.uint8).reshape(rounds, -1)
        signs = np.unpackbits(bits, axis=1, count=rows) * 2.0 - 1
        reached += np.count_nonzero(np.abs(signs @ values) >= least, axis=0)
    chances = [(count + 1) / (ROUNDS + 1) for count in map(int, reached)]
    for place in range(len(deltas)):
        changed = values[:, place][values[:, place] != 0]
        if len(changed) <= _EXACT_UP_TO:
            every: list[tuple[float, ...]] = list(product((-1.0, 1.0), repeat=len(changed)))
            signs = np.array(every, dtype=np.float64).reshape(len(every), len(changed))
            chances[place] = np.count_nonzero(np.abs(signs @ changed) >= least[place]) / len(every)
    return chances


def holm(chances: Sequence[float]) -> list[float]:
    """Return p-values corrected for their number by Holm's step-down method, in their order, at most 1."""
    order = sorted(range(len(chances)), key=lambda place: chances[place])
    corrected = [0.0] * len(chances)
    highest = 0.0
    for rank, place in enumerate(order):
        highest = max(highest, min(1.0, (len(chances) - rank) * chances[place]))
        corrected[place] = highest
    return corrected
