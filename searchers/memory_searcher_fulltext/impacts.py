"""How often each entry has a term, and how much that can add to its score at most, for the terms asked lately.

Both are kept as bit-sliced numbers (see `bits`).
"""

import math
import sqlite3
from array import array
from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping
from itertools import chain, zip_longest

from memory_searcher_fulltext.bits import filled, from_rows
from memory_searcher_fulltext.postings import frequency, postings

K1, B = 1.2, 0.75
"""FTS5's own constants of BM25 (Robertson & Zaragoza 2009)."""

LEVELS = 15
"""An impact is kept as 1..15, rounded up: fifteenths of what a term could add to an endless repetition of itself."""

_DIGITS = LEVELS.bit_length() + 2  # repeats have one or two digits, as a rule
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
    """One term: how many entries have it, and once that was asked for each entry's level and repeats.

    Repeats are how often an entry has the term beyond the first time.
    """

    __slots__ = ("frequency", "levels", "occurrences", "repeats")

    def __init__(self, frequency: int, occurrences: int) -> None:
        self.frequency = frequency
        self.occurrences = occurrences
        self.levels: list[int] | None = None
        self.repeats: list[int] = []


class Impacts:
    """The levels of the terms used last, read from the index when a term is first asked and followed from then on.

    The owner says of every entry that is added or removed, and serialises all calls.
    """

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._terms: OrderedDict[str, _Term] = OrderedDict()
        self._lengths: array[int] | None = None
        self._once: list[int] | None = None
        self._mean = 0.0

    def clear(self) -> None:
        """Forget all; what is asked next is read again."""
        self._terms.clear()
        self._lengths = self._once = None

    def fit(self, mean: float) -> None:
        """Say the average length before asking; when it has moved too far, all levels are computed anew."""
        if not self._mean / (_ROOM * _ROOM) <= mean <= self._mean:
            self._mean = mean * _ROOM
            self._once = None
            for term in self._terms.values():
                term.levels = None

    def frequency(self, term: str) -> int:
        """Return how many entries have a term."""
        return self._term(term).frequency

    def length(self, row: int) -> int:
        """Return how many tokens an entry has."""
        return self._all_lengths()[row]

    def levels(self, term: str) -> list[int]:
        """Return each entry's level for a term, 0 where it lacks the term."""
        return self._read(term).levels or []

    def holders(self, term: str) -> int:
        """Return the entries that have a term."""
        return filled(self.levels(term))

    def repeats(self, term: str) -> list[int]:
        """Return how often each entry has a term beyond the first time."""
        return self._read(term).repeats

    def _term(self, name: str) -> _Term:
        term = self._terms.get(name)
        if term is not None:
            self._terms.move_to_end(name)
            return term
        term = self._terms[name] = _Term(*frequency(self._db, name))
        each = len(self._all_lengths()) * _DIGITS // 8 + 1
        while len(self._terms) > max(_MIN_TERMS, _BYTES // each):
            self._terms.popitem(last=False)
        return term

    def _read(self, name: str) -> _Term:
        """Return a term with its levels and repeats."""
        term = self._term(name)
        if term.levels is None:
            once, more = postings(self._db, name, repeated=term.occurrences > term.frequency)
            lengths = self._all_lengths()
            highest = len(lengths) - 1
            by_level: dict[int, list[int]] = {}
            by_repeats: dict[int, list[int]] = {}
            for row, count in more.items():
                by_level.setdefault(self._level(count, lengths[row]), []).append(row)
                by_repeats.setdefault(count - 1, []).append(row)
            # Most entries have a term once: what that counts was computed for all entries together.
            single = from_rows(once, highest)
            several = zip_longest(self._levels_of_once(), _sliced(by_level, highest), fillvalue=0)
            term.levels = [single & level | other for level, other in several]
            term.repeats = _sliced(by_repeats, highest)
        return term

    def _levels_of_once(self) -> list[int]:
        """Return the level that each entry would have for a term that it has once."""
        if self._once is None:
            rows_by_length: dict[int, list[int]] = {}
            for row, length in enumerate(self._all_lengths()):
                rows_by_length.setdefault(length, []).append(row)
            by_level: dict[int, list[int]] = {}
            for length, rows in rows_by_length.items():
                by_level.setdefault(self._level(1, length), []).extend(rows)
            self._once = _sliced(by_level, len(self._all_lengths()) - 1)
        return self._once

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
        if self._once is not None:
            _set(self._once, row, self._level(1, length))
        for name, count in Counter(token for token in found if token in self._terms).items():
            term = self._terms[name]
            term.frequency += 1
            term.occurrences += count
            if term.levels is not None:
                _set(term.levels, row, self._level(count, length))
                _set(term.repeats, row, count - 1)

    def removed(self, row: int, found: Iterable[str]) -> None:
        """Take over that a row, which held the tokens `found`, is gone."""
        for name, count in Counter(token for token in found if token in self._terms).items():
            term = self._terms[name]
            term.frequency -= 1
            term.occurrences -= count
            if term.levels is not None:
                _set(term.levels, row, 0)
                _set(term.repeats, row, 0)


def _sliced(rows_by_number: Mapping[int, Iterable[int]], highest: int) -> list[int]:
    """Return the number of each row as sets of its binary digits."""
    places = range(max(rows_by_number, default=0).bit_length())
    return [
        from_rows([*chain(*(rows for number, rows in rows_by_number.items() if number >> place & 1))], highest)
        for place in places
    ]


def _set(digits: list[int], row: int, number: int) -> None:
    """Set the number of one row."""
    digits.extend([0] * (number.bit_length() - len(digits)))
    bit = 1 << row
    for place, digit in enumerate(digits):
        digits[place] = digit | bit if number >> place & 1 else digit & ~bit
