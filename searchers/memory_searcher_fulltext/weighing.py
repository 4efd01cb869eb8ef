"""What the terms of a query weigh, and the BM25 of one text."""

import math
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from memory_core.text import unique_tokens
from memory_searcher_fulltext.impacts import K1, Impacts, length_norm

MIN_IDF = 1e-6
"""What FTS5 gives a term that half of all entries have."""

_WHOLE_VOCABULARY_FROM = 4_096  # terms of a query, from which one pass over all terms is cheaper than asking for each


@dataclass(slots=True)
class Statistics:
    """How many entries there are, and how many tokens they have together."""

    count: int = 0
    length: int = 0

    @property
    def mean(self) -> float:
        """The average length of an entry."""
        return self.length / self.count if self.length else 1.0


@dataclass(frozen=True, slots=True)
class Weighed:
    """A weighed query.

    Args:
        telling: Term → IDF of the terms that less than half of all entries have.
        idle: The same for the others, which weigh next to nothing.
        best: The highest score that any text could have.
        postings: How many entries the terms have together.

    """

    telling: Mapping[str, float]
    idle: Mapping[str, float]
    best: float
    postings: int = 0

    @property
    def weights(self) -> Mapping[str, float]:
        """Term → IDF of all terms, in the order in which scores are added up."""
        return {**self.telling, **self.idle}


def scorer(weights: Mapping[str, float], mean: float) -> Callable[[str, int], float]:
    """Return what gives a text's BM25, as FTS5 computes it, from its `joined` tokens and their number."""
    terms = [(f" {term} ", weight * (K1 + 1)) for term, weight in weights.items()]

    def score(text: str, length: int) -> float:
        total, norm = 0.0, length_norm(length, mean)
        for term, weight in terms:
            frequency = text.count(term)
            if frequency:
                total += weight * frequency / (frequency + norm)
        return total

    return score


def joined(found: Sequence[str]) -> str:
    """Return tokens as a text in which each stands between two blanks of its own, so that it can be counted."""
    return "".join(f" {token} " for token in found)


class Weigher:
    """Weighs queries by the vocabulary of one index."""

    def __init__(
        self, db: sqlite3.Connection, impacts: Impacts, statistics: Statistics, stemmer: str | None, max_terms: int
    ) -> None:
        self._db = db
        self._impacts = impacts
        self._statistics = statistics
        self._stemmer = stemmer
        self._max_terms = max_terms
        self._latest: tuple[str, Weighed] | None = None

    def weigh(self, text: str) -> Weighed:
        """Weigh the terms of a query. A long query keeps its rarest terms; unknown terms count only in `best`.

        The latest answer is kept until `changed`: a hybrid asks for the best and then for the scores of others.
        """
        if self._latest is None or self._latest[0] != text:
            self._latest = text, self._weigh(text)
        return self._latest[1]

    def changed(self) -> None:
        """Say that entries came or went."""
        self._latest = None

    def _weigh(self, text: str) -> Weighed:
        asked = unique_tokens(text, self._stemmer)
        if not asked or not self._statistics.count:
            return Weighed({}, {}, 1.0)
        known = self._known(asked)
        absent = len(asked) - len(known)
        if len(known) > self._max_terms:
            known, absent = sorted(known)[: self._max_terms], 0
        telling: dict[str, float] = {}
        idle: dict[str, float] = {}
        for count, term in known:
            weight = self._idf(count)
            (telling if weight > MIN_IDF else idle)[term] = weight
        best = (sum(telling.values()) + sum(idle.values()) + absent * self._idf(0)) * (K1 + 1)
        return Weighed(telling, idle, max(best, MIN_IDF), sum(count for count, _ in known))

    def _known(self, asked: Sequence[str]) -> list[tuple[int, str]]:
        """Return (number of entries, term) of those terms that some entry has."""
        if len(asked) > _WHOLE_VOCABULARY_FROM:
            wanted = set(asked)
            return [(count, term) for term, count in self._db.execute("SELECT term, doc FROM terms") if term in wanted]
        known: list[tuple[int, str]] = []
        for term in asked:
            count = self._impacts.frequency(term)
            if count:
                known.append((count, term))
        return known

    def _idf(self, count: int) -> float:
        return max(math.log((self._statistics.count - count + 0.5) / (count + 0.5)), MIN_IDF)
