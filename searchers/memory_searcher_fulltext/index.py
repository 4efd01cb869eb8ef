"""One user's index: an SQLite database in memory with an FTS5 table over pre-tokenised text."""

import json
import math
import sqlite3
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from threading import RLock
from typing import NamedTuple

from memory_core.errors import IndexUnavailableError
from memory_core.model import HOT_IMPORTANCE, ChangeBatch, MemoryEntry, MemoryId, SearchHit, SearchQuery
from memory_core.serial import from_json, to_json
from memory_core.text import tokens, unique_tokens

K1, B = 1.2, 0.75
"""FTS5's own constants of BM25 (Robertson & Zaragoza 2009)."""

_MIN_IDF = 1e-6  # what FTS5 gives a term that most documents have
_COMMON_FROM = 1_000  # below this many entries every term of a query brings candidates
_COMMON_SHARE = 0.1
_IDLE_SHARE = 0.2
_CANDIDATES = 60
_SLACK = 8
_WHOLE_VOCABULARY_FROM = 4_096  # terms of a query, from which one pass over all terms is cheaper than asking for each

# The tokenizer splits at spaces only: `ascii` takes every character beyond ASCII as part of a word, and these too.
_SCHEMA = """
CREATE TABLE docs (
    rowid INTEGER PRIMARY KEY, scope TEXT NOT NULL, key TEXT NOT NULL, importance INTEGER NOT NULL,
    updated REAL NOT NULL, expires REAL, entry TEXT NOT NULL, tokens TEXT NOT NULL, length INTEGER NOT NULL,
    UNIQUE (scope, key)
);
CREATE INDEX docs_by_rank ON docs (importance DESC, updated DESC, key, scope);
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
CREATE VIRTUAL TABLE fts USING fts5(text, content = '', tokenize = "ascii tokenchars '+#./&'''");
CREATE VIRTUAL TABLE terms USING fts5vocab(fts, 'row');
"""


@dataclass(frozen=True, slots=True)
class _Terms:
    """A weighed query: term → IDF, the rarer terms, and the highest score that any text could have.

    `common` says that the rarer terms are worth trying alone; `common_best` is what the other terms could add at most.
    """

    weights: Mapping[str, float]
    seeds: Sequence[str]
    best: float
    common: bool
    common_best: float = 0.0
    telling: Sequence[str] = ()


class _Row(NamedTuple):
    score: float
    rowid: int
    importance: int
    updated: float
    key: str
    scope: str


def _order(row: _Row) -> tuple[float, int, float, str, str]:
    return (-row.score, -row.importance, -row.updated, row.key, row.scope)


class UserIndex:
    """Everything that is known of one user; safe for several threads.

    `blob` is what `serialize` gave for the same tokenizer.
    """

    def __init__(self, stemmer: str | None, max_terms: int, blob: bytes | None = None) -> None:
        self._stemmer = stemmer
        self._max_terms = max_terms
        self._lock = RLock()
        self._db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        if blob is None:
            self._db.executescript(_SCHEMA)
        else:
            self._db.deserialize(blob)
            self._db.execute("SELECT count(*) FROM fts WHERE fts MATCH '\"a\"'").fetchone()
        row = self._db.execute("SELECT count(*), coalesce(sum(length), 0) FROM docs").fetchone()
        self.count: int = row[0]
        self._length: int = row[1]
        row = self._db.execute("SELECT value FROM meta WHERE name = 'cursor'").fetchone()
        self.cursor: str | None = row[0] if row else None
        self.unsaved = 0

    @contextmanager
    def _transaction(self) -> Generator[None]:
        with self._lock:
            self._db.execute("BEGIN")
            before = self.count, self._length
            try:
                yield
                self._db.execute("COMMIT")
            except sqlite3.Error as error:
                self._db.execute("ROLLBACK")
                self.count, self._length = before
                raise IndexUnavailableError(f"The full-text index could not take a change over: {error}.") from error
            except BaseException:
                self._db.execute("ROLLBACK")
                self.count, self._length = before
                raise

    # --- following -------------------------------------------------------------------------------------------------

    def apply(self, batch: ChangeBatch) -> None:
        """Take a batch over in one transaction; nothing changes when it fails."""
        with self._transaction():
            if batch.complete:
                self._empty()
            for id in batch.removals:
                self._remove(id)
            for entry in batch.upserts:
                self._put(entry)
            self._db.execute(
                "INSERT INTO meta VALUES ('cursor', ?) ON CONFLICT DO UPDATE SET value = excluded.value",
                (batch.cursor,),
            )
        self.cursor = batch.cursor
        self.unsaved += len(batch.removals) + len(batch.upserts)

    def put(self, entry: MemoryEntry) -> None:
        """Add or replace one entry."""
        with self._transaction():
            self._put(entry)
        self.unsaved += 1

    def remove(self, id: MemoryId) -> None:
        """Forget one entry."""
        with self._transaction():
            self._remove(id)
        self.unsaved += 1

    def _empty(self) -> None:
        self._db.execute("INSERT INTO fts (fts) VALUES ('delete-all')")
        self._db.execute("DELETE FROM docs")
        self.count = self._length = 0

    def _put(self, entry: MemoryEntry) -> None:
        self._remove(entry.id)
        found = (*tokens(entry.id.key, self._stemmer), *tokens(entry.content, self._stemmer))
        text = " ".join(found)
        rowid = self._db.execute(
            "INSERT INTO docs (scope, key, importance, updated, expires, entry, tokens, length) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                entry.id.scope,
                entry.id.key,
                entry.importance,
                entry.updated_at.timestamp(),
                entry.expires_at.timestamp() if entry.expires_at else None,
                to_json(entry),
                text,
                len(found),
            ),
        ).lastrowid
        self._db.execute("INSERT INTO fts (rowid, text) VALUES (?, ?)", (rowid, text))
        self.count += 1
        self._length += len(found)

    def _remove(self, id: MemoryId) -> None:
        row = self._db.execute(
            "SELECT rowid, tokens, length FROM docs WHERE scope = ? AND key = ?", (id.scope, id.key)
        ).fetchone()
        if row is None:
            return
        # A contentless table must be told what it held.
        self._db.execute("INSERT INTO fts (fts, rowid, text) VALUES ('delete', ?, ?)", row[:2])
        self._db.execute("DELETE FROM docs WHERE rowid = ?", (row[0],))
        self.count -= 1
        self._length -= row[2]

    # --- reading ---------------------------------------------------------------------------------------------------

    def search(self, query: SearchQuery) -> list[SearchHit]:
        """Return the best entries by BM25, scores as the share of what a text could reach at most."""
        with self._lock:
            terms = self._terms(query.text)
            if not terms.weights:
                return []
            hits: list[SearchHit] = []
            for score, rowid in self._rank(terms, query):
                text = self._db.execute("SELECT entry FROM docs WHERE rowid = ?", (rowid,)).fetchone()[0]
                hits.append(SearchHit(from_json(text), min(1.0, score / terms.best), {"bm25": score}))
            return hits

    def scores(self, query: SearchQuery, ids: Sequence[MemoryId]) -> dict[MemoryId, float]:
        """Return the score of given entries; those that share no term with the query have 0."""
        with self._lock:
            terms = self._terms(query.text)
            found: dict[MemoryId, float] = {}
            for id in ids:
                row = self._db.execute(
                    "SELECT tokens, length FROM docs WHERE scope = ? AND key = ?", (id.scope, id.key)
                ).fetchone()
                if row is not None:
                    found[id] = min(1.0, self._bm25(terms.weights, *row) / terms.best)
            return found

    def _bm25(self, weights: Mapping[str, float], text: str, length: int) -> float:
        """Return the BM25 of one text, as FTS5 computes it."""
        score = 0.0
        norm = K1 * (1 - B + B * length * self.count / self._length) if self._length else K1
        for term, frequency in Counter(text.split(" ")).items():
            weight = weights.get(term)
            if weight is not None:
                score += weight * frequency * (K1 + 1) / (frequency + norm)
        return score

    def listed(
        self, limit: int, now: datetime | None, scopes: Sequence[str] | None, at_least: int = 0
    ) -> list[MemoryEntry]:
        """Return entries by importance, then newest, then key."""
        moment = now.timestamp() if now is not None else None
        with self._lock:
            rows = self._db.execute(
                "SELECT entry FROM docs WHERE importance >= ?1 AND (?2 IS NULL OR expires IS NULL OR expires > ?2) "
                "AND (?3 IS NULL OR scope IN (SELECT value FROM json_each(?3))) "
                "ORDER BY importance DESC, updated DESC, key, scope LIMIT ?4",
                (at_least, moment, json.dumps(list(scopes)) if scopes is not None else None, limit),
            ).fetchall()
        return [from_json(text) for (text,) in rows]

    def hot(self, limit: int, now: datetime | None, scopes: Sequence[str] | None) -> list[MemoryEntry]:
        """Return entries of importance 5 and more."""
        return self.listed(limit, now, scopes, HOT_IMPORTANCE)

    def counted(self, now: datetime | None, below: int | None) -> int:
        """Return how many entries there are, or how many of less importance than `below`."""
        moment = now.timestamp() if now is not None else None
        with self._lock:
            row = self._db.execute(
                "SELECT count(*) FROM docs WHERE (?1 IS NULL OR importance < ?1) "
                "AND (?2 IS NULL OR expires IS NULL OR expires > ?2)",
                (below, moment),
            ).fetchone()
        return int(row[0])

    def _terms(self, text: str) -> "_Terms":
        """Weigh the terms of a query. A long query keeps its rarest terms.

        In a larger index, terms that a tenth of the entries have need not bring candidates of their own where the query
        has rarer ones; they still count in the score of every candidate.
        """
        asked = unique_tokens(text, self._stemmer)
        if not asked or not self.count:
            return _Terms({}, [], 1.0, common=False)
        known = self._known(asked)
        absent = len(asked) - len(known)
        if len(known) > self._max_terms:
            known, absent = sorted(known)[: self._max_terms], 0
        weights = {term: self._idf(count) for count, term in known}
        best = (sum(weights.values()) + absent * self._idf(0)) * (K1 + 1)
        low, high = self.count * _COMMON_SHARE, self.count * _IDLE_SHARE
        rare = [term for count, term in known if count <= low]
        common = self.count >= _COMMON_FROM and 0 < len(rare) < len(known)
        common_best = sum(weights[term] for count, term in known if low < count <= high) * (K1 + 1)
        telling = [term for count, term in known if count <= high]
        return _Terms(weights, rare, max(best, _MIN_IDF), common, common_best, telling)

    def _known(self, asked: Sequence[str]) -> list[tuple[int, str]]:
        """Return (number of entries, term) of those terms that some entry has."""
        if len(asked) > _WHOLE_VOCABULARY_FROM:
            wanted = set(asked)
            return [(count, term) for term, count in self._db.execute("SELECT term, doc FROM terms") if term in wanted]
        known: list[tuple[int, str]] = []
        for term in asked:
            row = self._db.execute("SELECT doc FROM terms WHERE term = ?", (term,)).fetchone()
            if row is not None:
                known.append((row[0], term))
        return known

    def _idf(self, count: int) -> float:
        return max(math.log((self.count - count + 0.5) / (count + 0.5)), _MIN_IDF)

    def _rank(self, terms: "_Terms", query: SearchQuery) -> list[tuple[float, int]]:
        """Return (score, rowid) of the best admitted entries, ties in the order of the contract."""
        if terms.common:
            found = self._rank_by_seeds(terms, query, terms.seeds, terms.common_best)
            if found is None and len(terms.seeds) < len(terms.telling) < len(terms.weights):
                found = self._rank_by_seeds(terms, query, terms.telling, 0.0)
            if found is not None:
                return found
        match = _match(list(terms.weights))
        limit = query.top_k + _SLACK
        while True:
            rows = self._fetch(match, query, limit)
            ordered = sorted(rows, key=_order)[: query.top_k]
            if len(rows) < limit or not ordered or rows[-1].score < ordered[-1].score:
                return [(row.score, row.rowid) for row in ordered]
            limit *= 4  # a tie reaches beyond what was fetched

    def _rank_by_seeds(
        self, terms: "_Terms", query: SearchQuery, seeds: Sequence[str], common_best: float
    ) -> list[tuple[float, int]] | None:
        """Rank what the rarer terms bring, with the score of all terms; None when others might belong among them.

        An entry that was not fetched scores at most as the last one fetched by its rarer terms, plus all that the
        common terms could give; the last hit must lie above that (the bound of MaxScore, Turtle & Flood 1995). Terms
        that a fifth of all entries have are left out of the bound: an entry that shares only such terms with the query
        yields to those that share a rarer one.
        """
        limit = max(_CANDIDATES, 4 * query.top_k)
        rows = self._fetch(_match(seeds), query, limit)
        beyond = rows[-1].score if len(rows) == limit else 0.0
        seed_scores = {row.rowid: row.score for row in rows}
        rows = [row._replace(score=self._full_score(terms, row.rowid)) for row in rows]
        ordered = sorted(rows, key=_order)[: query.top_k]
        if len(ordered) < query.top_k or ordered[-1].score <= beyond + common_best:
            return None
        if seed_scores[ordered[-1].rowid] <= beyond:
            return None  # a tie reaches beyond what was fetched
        return [(row.score, row.rowid) for row in ordered]

    def _fetch(self, match: str, query: SearchQuery, limit: int) -> list["_Row"]:
        if query.scopes is None and query.min_importance is None:
            rows = self._unfiltered(match, query, limit)
            if rows is not None:
                return rows  # otherwise something expired was among the first: ask again, with the filter inside
        return self._filtered(match, query, limit)

    def _full_score(self, terms: "_Terms", rowid: int) -> float:
        row = self._db.execute("SELECT tokens, length FROM docs WHERE rowid = ?", (rowid,)).fetchone()
        return self._bm25(terms.weights, *row)

    def _unfiltered(self, match: str, query: SearchQuery, limit: int) -> list["_Row"] | None:
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
        return [_Row(*row[:6]) for row in rows]

    def _filtered(self, match: str, query: SearchQuery, limit: int) -> list["_Row"]:
        rows = self._db.execute(
            "SELECT -bm25(fts) AS score, d.rowid, importance, updated, key, scope "
            "FROM fts JOIN docs d ON d.rowid = fts.rowid WHERE fts MATCH ?1 "
            "AND (expires IS NULL OR expires > ?2) AND (?3 IS NULL OR importance >= ?3) "
            "AND (?4 IS NULL OR scope IN (SELECT value FROM json_each(?4))) ORDER BY score DESC LIMIT ?5",
            (
                match,
                query.now.timestamp(),
                query.min_importance,
                json.dumps(query.scopes) if query.scopes is not None else None,
                limit,
            ),
        )
        return [_Row(*row) for row in rows]

    # --- keeping ---------------------------------------------------------------------------------------------------

    def serialize(self) -> bytes:
        """Return the whole index as bytes."""
        with self._lock:
            return self._db.serialize()

    def __del__(self) -> None:
        with suppress(AttributeError):  # SQLite itself may have failed to open
            self._db.close()


def _match(terms: Sequence[str]) -> str:
    """Return an FTS5 expression for any of the terms; each is a quoted string, so none is syntax."""
    return " OR ".join('"' + term.replace('"', '""') + '"' for term in terms)
