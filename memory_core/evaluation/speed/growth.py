"""How figures grow with the number of memories, and from where a pair is no longer usable."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from memory_core.evaluation.speed.plan import Cell

GROWING = (
    "search_ms_p50",
    "write_ms_p50",
    "visible_ms_p50",
    "injection_ms_p50",
    "cold_start_s",
    "memory_mb",
    "index_bytes",
)
LIMITS_MS = {"search_ms_p95": 100.0, "write_ms_p95": 100.0}
"""The criterion: a pair is usable while 95 of 100 searches and 95 of 100 durable writes take at most 100 ms."""
MIN_SPAN = 5
MAX_REACH = 100
"""Growth is continued only from sizes that differ by this factor, and only to this multiple of the largest one."""
CRITERION = "usable while 95 of 100 searches and 95 of 100 durable writes take at most 100 ms each"


@dataclass(frozen=True, slots=True)
class Limit:
    """From where a pair is no longer usable.

    `measured` is the smallest measured size that breaks the criterion, None when none does. `extrapolated` is where
    the fitted growth would break it, beyond what was measured; None without growth or with fewer than two sizes.
    """

    storer: str
    searcher: str
    largest: int
    measured: int | None
    figure: str | None
    value: float | None
    extrapolated: int | None

    def sentence(self) -> str:
        """Say it for people."""
        if self.measured is not None:
            return f"not usable from {self.measured:,} on: {self.figure} is {self.value:,.0f} ms there"
        beyond = (
            "" if self.extrapolated is None else f"; by its growth until about {self.extrapolated:,} (extrapolated)"
        )
        return f"usable up to {self.largest:,}, the largest size measured{beyond}"

    def to_json(self) -> dict[str, Any]:
        """Return the limit as JSON data."""
        return asdict(self)


def fitted_exponent(sizes: Sequence[float], values: Sequence[float]) -> float | None:
    """Return b of value ≈ a · size^b by least squares over the logarithms: 0 constant, 1 linear, 2 quadratic.

    None with fewer than two different sizes or a value that is not above 0.
    """
    if len(set(sizes)) < 2 or any(value <= 0 for value in values):
        return None
    x, y = [math.log(size) for size in sizes], [math.log(value) for value in values]
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    return sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True)) / sum((a - mean_x) ** 2 for a in x)


def _by_pair(cells: Sequence[Cell]) -> dict[tuple[str, str], list[Cell]]:
    pairs: dict[tuple[str, str], list[Cell]] = {}
    for cell in sorted(cells, key=lambda cell: cell.size):
        pairs.setdefault((cell.storer, cell.searcher), []).append(cell)
    return pairs


def _exponent(cells: Sequence[Cell], figure: str) -> float | None:
    known = [cell for cell in cells if figure in cell.figures]
    return fitted_exponent([cell.size for cell in known], [cell.figures[figure] for cell in known])


def exponents(cells: Sequence[Cell]) -> dict[tuple[str, str], dict[str, float]]:
    """Return (store, searcher) → figure → fitted exponent; figures with fewer than two sizes are left out."""
    found: dict[tuple[str, str], dict[str, float]] = {}
    for pair, some in _by_pair(cells).items():
        fitted = {figure: _exponent(some, figure) for figure in GROWING}
        found[pair] = {figure: round(value, 2) for figure, value in fitted.items() if value is not None}
    return found


def limits(cells: Sequence[Cell]) -> list[Limit]:
    """Return for each pair with figures from where it is no longer usable."""
    found: list[Limit] = []
    for (storer, searcher), some in _by_pair(cells).items():
        measured = [cell for cell in some if all(figure in cell.figures for figure in LIMITS_MS)]
        if not measured:
            continue
        broken = next(
            ((cell, figure) for cell in measured for figure in LIMITS_MS if cell.figures[figure] > LIMITS_MS[figure]),
            None,
        )
        if broken is not None:
            cell, figure = broken
            found.append(Limit(storer, searcher, measured[-1].size, cell.size, figure, cell.figures[figure], None))
        else:
            found.append(Limit(storer, searcher, measured[-1].size, None, None, None, _beyond(measured)))
    return found


def _beyond(measured: Sequence[Cell]) -> int | None:
    """Return the size at which the first figure reaches its limit if it goes on growing as fitted."""
    last, reached = measured[-1], list[float]()
    if last.size < MIN_SPAN * measured[0].size:
        return None
    for figure, limit_ms in LIMITS_MS.items():
        exponent = _exponent(measured, figure)
        if exponent is not None and exponent > 0.05:
            reached.append(math.log(last.size) + math.log(limit_ms / last.figures[figure]) / exponent)
    if not reached or min(reached) > math.log(MAX_REACH * last.size):
        return None
    size = math.exp(min(reached))
    step = 10 ** (len(str(int(size))) - 2)
    return int(size // step * step)
