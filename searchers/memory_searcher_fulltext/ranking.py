"""Ranks the entries of one index: exact BM25, by bounds where they narrow the choice, else by FTS5."""

import json
import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence
from heapq import nlargest
from typing import NamedTuple

from memory_core.model import SearchQuery
from memory_searcher_fulltext.bits import from_rows
from memory_searcher_fulltext.bounds import Bounds
from memory_searcher_fulltext.impacts import K1, Impacts
from memory_searcher_fulltext.postings import quoted
from memory_searcher_fulltext.scoring import scores
from memory_searcher_fulltext.weighing import MIN_IDF, Statistics, Weighed, scorer

_BOUNDS_FROM = 1_000  # below this many entries FTS5 ranks faster than bounds are computed
_FIRST = 16
_SCORED = 1_000  # so many entries, or a third of all that FTS5 would have to look at, are scored faster one by one
_SLACK = 8


class Row(NamedTuple):
    """An entry with its score and what the contract orders equals by."""

    score: float
    rowid: int
    importance: int
    updated: float
    key: str
    scope: str


def _order(row: Row) -> tuple[float, int, float, str, str]:
    return (-row.score, -row.importance, -row.updated, row.key, row.scope)


class Ranking:
    """Reads one index. The owner serialises all calls and says of every change."""

    def __init__(self, db: sqlite3.Connection, impacts: Impacts, statistics: Statistics) -> None:
        self._db = db
        self._impacts = impacts
        self._statistics = statistics
        self._admitted: dict[tuple[frozenset[str] | None, int | None], int] = {}

    def changed(self) -> None:
        """Forget which entries a filter admits."""
        self._admitted.clear()

    def rank(self, terms: Weighed, query: SearchQuery) -> list[Row]:
        """Return the best admitted entries, ties in the order of the contract."""
        rows = self._by_bounds(terms, query)
        if rows is not None:
            return sorted(rows, key=_order)[: query.top_k]
        match = _match(list(terms.weights))
        limit = query.top_k + _SLACK
        while True:
            rows = self._fetch(match, query, limit)
            ordered = sorted(rows, key=_order)[: query.top_k]
            if len(rows) < limit or not ordered or rows[-1].score < ordered[-1].score:
                return ordered
            limit *= 4  # a tie reaches beyond what was fetched

    # --- by bounds -------------------------------------------------------------------------------------------------

    def _by_bounds(self, terms: Weighed, query: SearchQuery) -> list[Row] | None:
        """Return the rows that may be among the best, scored; None when FTS5 is to rank instead.

        The entries with the highest bounds are scored; whatever has a bound below the last hit's score cannot be among
        the hits. FTS5 ranks in a small index, when no term tells much, when entries that share only such terms with
        the query are needed to fill the answer, and when too many entries are about as good.
        """
        if self._statistics.count < _BOUNDS_FROM or not terms.telling:
            return None
        self._impacts.fit(self._statistics.mean)
        slack = len(terms.idle) * MIN_IDF * (K1 + 1)
        bounds = Bounds(self._impacts, terms.telling, slack)
        among = self._admit(bounds.matching, query)
        limit = max(_SCORED, terms.postings // 3)
        first = bounds.highest(among, max(_FIRST, 2 * query.top_k))
        if first.bit_count() > limit:
            return None
        told = self._told(first, terms)
        if len(told) < query.top_k:
            return None if terms.idle else self._read(told, terms)
        rest = bounds.reaching(among ^ first, _last(told, query.top_k))
        if rest.bit_count() > limit:
            return None
        told |= self._told(rest, terms)
        enough = _last(told, query.top_k) - slack
        return self._read({row: score for row, score in told.items() if score >= enough}, terms)

    def scores(self, rows: Sequence[int], terms: Weighed) -> dict[int, float]:
        """Return the score of each of some rows, all of them filled."""
        if self._statistics.count < _BOUNDS_FROM:
            return self._by_text(rows, terms.weights)
        self._impacts.fit(self._statistics.mean)
        told = self._told(from_rows(rows, max(rows, default=0)), terms)
        idle = self._by_text(rows, terms.idle)
        return {row: told[row] + idle[row] for row in rows}

    def _told(self, entries: int, terms: Weighed) -> dict[int, float]:
        """Return row → score of a set of entries, without the idle terms."""
        return scores(entries, terms.telling, self._impacts, self._statistics.mean)

    def _by_text(self, rows: Collection[int], weights: Mapping[str, float]) -> dict[int, float]:
        """Return what some terms add to the score of each row, counted in its text."""
        if not weights:
            return dict.fromkeys(rows, 0.0)
        score = scorer(weights, self._statistics.mean)
        found = self._db.execute(
            "SELECT rowid, tokens, length FROM docs WHERE rowid IN (SELECT value FROM json_each(?))",
            (json.dumps(list(rows)),),
        )
        return {row: score(text, length) for row, text, length in found}

    def _read(self, told: Mapping[int, float], terms: Weighed) -> list[Row]:
        """Return rows by what is told of them, with what the idle terms add."""
        idle = self._by_text(told.keys(), terms.idle)
        found = self._db.execute(
            "SELECT rowid, importance, updated, key, scope FROM docs WHERE rowid IN (SELECT value FROM json_each(?))",
            (json.dumps(list(told)),),
        )
        return [Row(told[row] + idle[row], row, *facts) for row, *facts in found]

    def _admit(self, entries: int, query: SearchQuery) -> int:
        """Return those of a set of entries that the query's filters let through."""
        expired = self._rows("SELECT rowid FROM docs WHERE expires <= ?", query.now.timestamp())
        if query.scopes is None and query.min_importance is None:
            return entries & ~expired
        filters = (frozenset(query.scopes) if query.scopes is not None else None, query.min_importance)
        if filters not in self._admitted:
            self._admitted[filters] = self._rows(
                "SELECT rowid FROM docs WHERE (?1 IS NULL OR importance >= ?1) "
                "AND (?2 IS NULL OR scope IN (SELECT value FROM json_each(?2)))",
                query.min_importance,
                _array(query.scopes),
            )
        return entries & ~expired & self._admitted[filters]

    def _rows(self, statement: str, *values: object) -> int:
        rows: list[int] = [row for (row,) in self._db.execute(statement, values)]
        return from_rows(rows, max(rows)) if rows else 0

    # --- by FTS5 ---------------------------------------------------------------------------------------------------

    def _fetch(self, match: str, query: SearchQuery, limit: int) -> list[Row]:
        if query.scopes is None and query.min_importance is None:
            rows = self._unfiltered(match, query, limit)
            if rows is not None:
                return rows  # otherwise something expired was among the first: ask again, with the filter inside
        return self._filtered(match, query, limit)

    def _unfiltered(self, match: str, query: SearchQuery, limit: int) -> list[Row] | None:
        """Return the best rows, or None when one of them has expired."""
        moment = query.now.timestamp()
        rows = self._db.execute(
            "WITH found AS MATERIALIZED ("
            "SELECT rowid AS id, -bm25(fts) AS score FROM fts WHERE fts MATCH ? ORDER BY score DESC LIMIT ?) "
            "SELECT score, id, importance, updated, key, scope, expires FROM found JOIN docs ON rowid = id "
            "ORDER BY score DESC",
            (match, limit),
        ).fetchall()
        if any(row[6] is not None and row[6] <= moment for row in rows):
            return None
        return [Row(*row[:6]) for row in rows]

    def _filtered(self, match: str, query: SearchQuery, limit: int) -> list[Row]:
        rows = self._db.execute(
            "SELECT -bm25(fts) AS score, d.rowid, importance, updated, key, scope "
            "FROM fts JOIN docs d ON d.rowid = fts.rowid WHERE fts MATCH ?1 "
            "AND (expires IS NULL OR expires > ?2) AND (?3 IS NULL OR importance >= ?3) "
            "AND (?4 IS NULL OR scope IN (SELECT value FROM json_each(?4))) ORDER BY score DESC LIMIT ?5",
            (match, query.now.timestamp(), query.min_importance, _array(query.scopes), limit),
        )
        return [Row(*row) for row in rows]


def _last(told: Mapping[int, float], top_k: int) -> float:
    return nlargest(top_k, told.values())[-1]


def _array(values: Iterable[str] | None) -> str | None:
    return json.dumps(list(values)) if values is not None else None


def _match(terms: Sequence[str]) -> str:
    """Return an FTS5 expression for any of the terms."""
    return " OR ".join(map(quoted, terms))
