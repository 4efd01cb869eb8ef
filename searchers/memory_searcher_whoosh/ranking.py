"""BM25 over Whoosh's postings, and the facts about documents that filters and listings need.

Whoosh's own scoring reads each document's length from a file for each posting: 54 ms a query where this takes 8
(3,500 entries). The facts of a segment never change, so they are read once for each segment, not for each commit; the
statistics count only what is not deleted, so that a score does not depend on when segments were merged.
"""

import math
import struct
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from heapq import nsmallest
from typing import Any

from memory_core.model import SearchQuery
from memory_searcher_whoosh.driver import Searcher, TermNotFound

K1, B = 1.2, 0.75
_MIN_IDF = 1e-6  # what a term weighs that most entries have, as in SQLite
_COMMON_FROM = 200  # below this many entries every term of a query counts
_DIGITS = 9
NEVER = (1 << 63) - 1
"""When an entry expires that never does."""

Row = tuple[int, int, str, str, int, int]
"""−importance, −updated, key, scope, when it expires, number: sorted rows are a listing as the contract orders it."""


def micros(moment: datetime) -> int:
    """Return a moment as whole microseconds since 1970."""
    return int(moment.timestamp()) * 1_000_000 + moment.microsecond


_FACTS = struct.Struct("<iBqq")


def pack_facts(words: int, importance: int, updated: int, expires: int, name: tuple[str, str] = ("", "")) -> bytes:
    """Return what `read_facts` reads: length in tokens, importance (0 for no entry), times in microseconds, name.

    The name is scope and key; neither may hold a control character, so one may stand between them.
    """
    return _FACTS.pack(words, importance, updated, expires) + "\0".join(name).encode()


def idf(entries: int, having: int) -> float:
    """Return the weight of a term that `having` of `entries` documents have (Robertson & Zaragoza 2009)."""
    return max(math.log((entries - having + 0.5) / (having + 0.5)), _MIN_IDF) if entries >= having else _MIN_IDF


@dataclass(frozen=True, slots=True)
class SegmentFacts:
    """One segment's documents, by number: their lengths in tokens, and what filters, order and names need.

    The document that holds the cursor has importance 0. `words` is the sum of the lengths, `first_expiry` the earliest
    moment at which one of the entries is gone.
    """

    lengths: Sequence[int]
    rows: Sequence[Row]
    words: int
    first_expiry: int
    numbers: Mapping[tuple[str, str], int]
    """(key, scope) → number; of a document that was replaced in the segment, the last one."""


def read_facts(reader: Any) -> SegmentFacts:
    """Read the facts of one segment."""
    column = reader.column_reader("facts")
    lengths: list[int] = []
    rows: list[Row] = []
    for number in range(reader.doc_count_all()):
        packed = column[number]
        length, importance, updated, expires = _FACTS.unpack_from(packed)
        lengths.append(length)
        scope, _, key = bytes(packed[_FACTS.size :]).decode().partition("\0")
        rows.append((-importance, -updated, key, scope, expires, number))
    first_expiry = min((row[4] for row in rows if row[0]), default=NEVER)
    numbers = {(row[2], row[3]): row[5] for row in rows}
    return SegmentFacts(lengths, rows, sum(lengths), first_expiry, numbers)


class View:
    """What one reader shows: numbers are those of the whole index, deleted documents are not there."""

    def __init__(self, searcher: Searcher, cache: dict[str, SegmentFacts]) -> None:
        self._searcher = searcher
        self._leaves: list[tuple[Any, int, SegmentFacts]] = []
        words = 0
        used: dict[str, SegmentFacts] = {}
        for leaf, offset in searcher.reader().leaf_readers():
            name = leaf.segment().segment_id()
            facts = used[name] = cache.get(name) or read_facts(leaf)
            self._leaves.append((leaf, offset, facts))
            deleted: frozenset[int] = leaf.deleted_docs_set
            words += facts.words - sum(facts.lengths[number] for number in deleted)
        cache.clear()
        cache.update(used)
        self._entries = max(0, searcher.doc_count() - 1)
        self._average = words / self._entries if words else 1.0
        self._latest: tuple[tuple[tuple[str, ...], int], tuple[dict[int, float], float]] | None = None

    def _postings(self, term: str) -> Iterator[tuple[int, float, int]]:
        """Yield (number, occurrences, length) of each document that has the term."""
        for leaf, offset, facts in self._leaves:
            try:
                matcher = leaf.postings("terms", term)
            except TermNotFound:
                continue
            lengths = facts.lengths
            current, occurrences, advance = matcher.id, matcher.weight, matcher.next
            while matcher.is_active():
                number = current()
                yield number + offset, occurrences(), lengths[number]
                advance()

    def ranked(self, asked: Sequence[str], max_terms: int) -> tuple[dict[int, float], float]:
        """Return the BM25 of every document that has any of the terms, and the highest that a text could reach.

        The latest answer is kept: a hybrid asks for the best and then for the scores of others.
        """
        key = (tuple(asked), max_terms)
        latest = self._latest
        if latest is None or latest[0] != key:
            latest = self._latest = (key, self._ranked(asked, max_terms))
        return latest[1]

    def _ranked(self, asked: Sequence[str], max_terms: int) -> tuple[dict[int, float], float]:
        """Score anew.

        In a larger index, terms that most entries have are left out where the query has others: they weigh nothing and
        would only make every entry a candidate. A long query keeps its rarest terms.
        """
        entries = self._entries
        if not asked or not entries:
            return {}, 1.0
        counts = {term: min(entries, int(self._searcher.doc_frequency("terms", term))) for term in asked}
        known = [term for term in asked if counts[term]]
        rare = [term for term in known if counts[term] * 2 <= entries] if entries >= _COMMON_FROM else known
        chosen = rare or known
        weighed: Collection[str] = asked
        if len(chosen) > max_terms:
            weighed = chosen = sorted(chosen, key=lambda term: (counts[term], term))[:max_terms]
        found: dict[int, float] = {}
        for term in chosen:
            postings = list(self._postings(term))
            counts[term] = len(postings)
            weight = idf(entries, len(postings)) * (K1 + 1)
            for number, occurrences, length in postings:
                part = weight * occurrences / (occurrences + K1 * (1 - B + B * length / self._average))
                found[number] = found.get(number, 0.0) + part
        best = sum(idf(entries, counts[term]) for term in weighed) * (K1 + 1)
        return {number: round(score, _DIGITS) for number, score in found.items()}, max(best, _MIN_IDF)

    def best(self, found: Mapping[int, float], query: SearchQuery) -> list[tuple[float, Row]]:
        """Return score and facts of the best admitted documents, in the order of the contract."""
        expired = any(facts.first_expiry <= micros(query.now) for _, _, facts in self._leaves)
        if expired or query.scopes is not None or query.min_importance is not None:
            allowed = {row[5] for row in self._selected(query.now, query.scopes, query.min_importance or 0)}
            found = {number: score for number, score in found.items() if number in allowed}
        if len(found) > query.top_k:
            last = -nsmallest(query.top_k, (-score for score in found.values()))[-1]
            found = {number: score for number, score in found.items() if score >= last}
        ordered = nsmallest(query.top_k, ((-score, self._row(number)) for number, score in found.items()))
        return [(-score, row) for score, row in ordered]

    def _row(self, number: int) -> Row:
        leaf = next(leaf for leaf in reversed(self._leaves) if leaf[1] <= number)
        row = leaf[2].rows[number - leaf[1]]
        return (*row[:5], number)

    def number_of(self, key: str, scope: str) -> int | None:
        """Return the document of an entry."""
        for leaf, offset, facts in self._leaves:
            number = facts.numbers.get((key, scope))
            if number is not None and number not in leaf.deleted_docs_set:
                return number + offset
        return None

    # --- without a query -------------------------------------------------------------------------------------------

    def _selected(self, now: datetime | None, scopes: Sequence[str] | None, at_least: int = 0) -> Iterator[Row]:
        moment = micros(now) if now is not None else None
        names = frozenset(scopes) if scopes is not None else None
        for leaf, offset, facts in self._leaves:
            deleted = leaf.deleted_docs_set
            for row in facts.rows:
                if (
                    -row[0] >= max(1, at_least)
                    and (moment is None or row[4] > moment)
                    and (names is None or row[3] in names)
                    and row[5] not in deleted
                ):
                    yield (*row[:5], row[5] + offset) if offset else row

    def count(self, now: datetime | None, below: int | None) -> int:
        """Return how many entries there are, or how many of less importance than `below`."""
        return sum(1 for row in self._selected(now, None) if below is None or -row[0] < below)

    def listed(self, limit: int, now: datetime | None, scopes: Sequence[str] | None) -> list[int]:
        """Return the numbers of the first `limit` documents, in the order of the contract."""
        return [row[5] for row in nsmallest(limit, self._selected(now, scopes))]
