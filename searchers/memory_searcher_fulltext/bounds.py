"""Finds the entries that can be among the best of a query, so that only these need an exact score."""

import math
from collections.abc import Mapping

from memory_searcher_fulltext.bits import add, at_least, filled, largest
from memory_searcher_fulltext.impacts import K1, LEVELS, Impacts

_WEIGHTS = 63  # weights are kept as 1..63, rounded up: shares of the greatest


class Bounds:
    """The highest score that each entry could have: the sum of its terms' weights times their rounded-up impacts.

    Sets of entries are integers, as in `bits`.

    Args:
        impacts: Of each term; fitted to the present average length.
        weights: Term → IDF, of the terms that tell something; not empty, all above 0.
        slack: What the other terms of the query could add to a score at most.
    """

    def __init__(self, impacts: Impacts, weights: Mapping[str, float], slack: float) -> None:
        greatest = max(weights.values())
        self._unit = greatest / _WEIGHTS * (K1 + 1) / LEVELS
        self._slack = slack
        self._total: list[int] = []
        for term, weight in weights.items():
            add(self._total, impacts.levels(term), math.ceil(weight / greatest * _WEIGHTS))
        self.matching = filled(self._total)
        """The entries that have any of the terms."""

    def highest(self, among: int, count: int) -> int:
        """Return the `count` entries with the highest bounds, and all that tie with the last."""
        return largest(self._total, among, count)

    def reaching(self, among: int, score: float) -> int:
        """Return the entries whose score may be `score` or more."""
        # A hair less, so that rounding never costs an entry.
        return at_least(self._total, among, max(1, math.ceil((score - self._slack) / self._unit * (1 - 1e-9))))
