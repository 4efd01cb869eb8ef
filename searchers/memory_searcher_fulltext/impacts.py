"""How much each term can add to each entry's score at most, kept as bit-sliced numbers for the terms asked lately."""

import math
import sqlite3
from array import array
from collections import Counter, OrderedDict
from collections.abc import Iterable
from itertools import chain

from memory_searcher_fulltext.bits import from_rows

K1, B = 1.2, 0.75
"""FTS5's own constants of BM25 (Robertson & Zaragoza 2009)."""

LEVELS = 15
"""An impact is kept as 1..15, rounded up: fifteenths of what a term could add to an endless repetition of itself."""

_DIGITS = LEVELS.bit_length()
_BYTES = 8 * 2**20  # of the terms kept
_MIN_TERMS = 256  # kept in any case: some long queries
_ROOM = 1.1  # impacts are computed for texts a tenth longer on average than they are, so that the average may move


def length_norm(length: int, mean: float) -> float:
    """Return what stands for an entry's length in BM25: a term that the entry has `f` times counts `f / (f + norm)`.

    Args:
        length: The entry's tokens.
        mean: The average of all entries' lengths.

    """
    return K1 * (1 - B + B * length / mean)


class _Term:
    """One term: how many entries have it, and each entry's level as a bit-sliced number, once that was asked for."""

    __slots__ = ("digits", "frequency")

    def __init__(self, frequency: int) -> None:
        self.frequency = frequency
        self.digits: list[int] | None = None


class Impacts:
    """The levels of the terms used last, read from the index when a term is first asked and followed from then on.

    The owner says of every entry that is added or removed, and serialises all calls.
    """

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._terms: OrderedDict[str, _Term] = OrderedDict()
        self._lengths: array[int] | None = None
        self._mean = 0.0

    def clear(self) -> None:
        """Forget all; what is asked next is read again."""
        self._terms.clear()
        self._lengths = None

    def fit(self, mean: float) -> None:
        """Say the average length before asking; when it has moved too far, all levels are computed anew."""
        if not self._mean / (_ROOM * _ROOM) <= mean <= self._mean:
            self._mean = mean * _ROOM
            for term in self._terms.values():
                term.digits = None

    def frequency(self, term: str) -> int:
        """Return how many entries have a term."""
        return self._term(term).frequency

    def digits(self, term: str) -> list[int]:
        """Return each entry's level for a term, 0 where it lacks the term."""
        known = self._term(term)
        if known.digits is None:
            known.digits = self._read(term)
        return known.digits

    def _term(self, name: str) -> _Term:
        term = self._terms.get(name)
        if term is not None:
            self._terms.move_to_end(name)
            return term
        row = self._db.execute("SELECT doc FROM terms WHERE term = ?", (name,)).fetchone()
        term = self._terms[name] = _Term(row[0] if row is not None else 0)
        each = len(self._all_lengths()) * _DIGITS // 8 + 1
        while len(self._terms) > max(_MIN_TERMS, _BYTES // each):
            self._terms.popitem(last=False)
        return term

    def _read(self, term: str) -> list[int]:
        lengths = self._all_lengths()
        instances = self._db.execute("SELECT doc FROM instances WHERE term = ?", (term,))
        found: Counter[int] = Counter(chain.from_iterable(instances))
        levels: dict[tuple[int, int], int] = {}
        by_level: list[list[int]] = [[] for _ in range(LEVELS + 1)]
        for row, frequency in found.items():
            shape = frequency, lengths[row]
            try:
                by_level[levels[shape]].append(row)
            except KeyError:
                levels[shape] = level = self._level(*shape)
                by_level[level].append(row)
        places = range(_DIGITS)
        digits = [chain(*(by_level[level] for level in range(LEVELS + 1) if level >> place & 1)) for place in places]
        return [from_rows(rows, len(lengths)) for rows in digits]

    def _all_lengths(self) -> "array[int]":
        if self._lengths is None:
            highest = self._db.execute("SELECT coalesce(max(rowid), 0) FROM docs").fetchone()[0]
            self._lengths = array("I", bytes(4 * (highest + 1)))
            for row, length in self._db.execute("SELECT rowid, length FROM docs"):
                self._lengths[row] = length
        return self._lengths

    def _level(self, frequency: int, length: int) -> int:
        return math.ceil(frequency / (frequency + length_norm(length, self._mean)) * LEVELS)

    def added(self, row: int, found: Iterable[str], length: int) -> None:
        """Take over that a row now holds the tokens `found`."""
        if self._lengths is None:
            return
        self._lengths.extend([0] * (row + 1 - len(self._lengths)))
        self._lengths[row] = length
        bit = 1 << row
        for name, frequency in Counter(token for token in found if token in self._terms).items():
            term = self._terms[name]
            term.frequency += 1
            if term.digits is not None:
                level = self._level(frequency, length)
                term.digits = [digit | bit if level >> place & 1 else digit for place, digit in enumerate(term.digits)]

    def removed(self, row: int, found: Iterable[str]) -> None:
        """Take over that a row, which held the tokens `found`, is gone."""
        bit = 1 << row
        for name in self._terms.keys() & set(found):
            term = self._terms[name]
            term.frequency -= 1
            if term.digits is not None:
                term.digits = [digit & ~bit for digit in term.digits]
