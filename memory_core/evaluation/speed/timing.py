"""Timing of repeated operations and percentiles of what was timed."""

import math
import time
from collections.abc import Callable, Sequence


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that at least `share` (0..1) of `values` do not exceed (nearest rank)."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def timed(run: Callable[[int], object], times: int, *, least: int, stage_s: float) -> list[float]:
    """Return the milliseconds of each call of `run(0)`, `run(1)`, …: `times` of them.

    Fewer when `stage_s` seconds are over, but at least `least`.
    """
    measured: list[float] = []
    give_up = time.perf_counter() + stage_s
    for number in range(times):
        start = time.perf_counter()
        if start > give_up and number >= least:
            break
        run(number)
        measured.append((time.perf_counter() - start) * 1_000)
    return measured
