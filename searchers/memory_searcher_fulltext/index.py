"""One user's index: an SQLite database in memory with an FTS5 table over pre-tokenised text."""

import json
import math
import sqlite3
from collections.abc import Sequence
from contextlib import contextmanager
from datetime import datetime
from threading import RLock
from collections.abc import Iterator

from memory_core.errors import IndexUnavailableError
from memory_core.model import HOT_IMPORTANCE, ChangeBatch, MemoryEntry, MemoryId, SearchHit, SearchQuery
from memory_core.serial import from_json, to_json
from memory_core.text import tokens, unique_tokens

K1 = 1.2
"""FTS5's own constant; with b = 0.75 (Robertson & Zaragoza 2009)."""

_MIN_IDF = 1e-6  # what FTS5 gives a term that most documents have
_COMMON_FROM = 1_000  # below this many entries every term of a query counts
_SLACK = 8
_PRE_CAP = 4_096

# The tokenizer splits at spaces only: `ascii` takes every character beyond ASCII as part of a word, and these too.
_SCHEMA = """
CREATE TABLE docs (
    rowid INTEGER PRIMARY KEY, scope TEXT NOT NULL, key TEXT NOT NULL, importance INTEGER NOT NULL,
    updated REAL NOT NULL, expires REAL, entry TEXT NOT NULL, UNIQUE (scope, key)
);
CREATE INDEX docs_by_rank ON docs (importance DESC, updated DESC, key, scope);
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
CREATE VIRTUAL TABLE fts USING fts5(text, content = '', tokenize = "ascii tokenchars '+#./&'''");
CREATE VIRTUAL TABLE terms USING fts5vocab(fts, 'row');
"""


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
        self.count = int(self._db.execute("SELECT count(*) FROM docs").fetchone()[0])
        row = self._db.execute("SELECT value FROM meta WHERE name = 'cursor'").fetchone()
        self.cursor: str | None = row[0] if row else None
        self.unsaved = 0

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._lock:
            self._db.execute("BEGIN")
            count = self.count
            try:
                yield
                self._db.execute("COMMIT")
            except sqlite3.Error as error:
                self._db.execute("ROLLBACK")
                self.count = count
                raise IndexUnavailableError(f"The full-text index could not take a change over: {error}.") from error
            except BaseException:
                self._db.execute("ROLLBACK")
                self.count = count
                raise

    def _tokens(self, entry: MemoryEntry) -> str:
        return " ".join((*tokens(entry.id.key, self._stemmer), *tokens(entry.content, self._stemmer)))

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
                "INSERT INTO meta VALUES ('cursor', ?) ON CONFLICT DO UPDATE SET value = excluded.value", (batch.cursor,)
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
        self.count = 0

    def _put(self, entry: MemoryEntry) -> None:
        self._remove(entry.id)
        rowid = self._db.execute(
            "INSERT INTO docs (scope, key, importance, updated, expires, entry) VALUES (?, ?, ?, ?, ?, ?)",
            (
                entry.id.scope,
                entry.id.key,
                entry.importance,
                entry.updated_at.timestamp(),
                entry.expires_at.timestamp() if entry.expires_at else None,
                to_json(entry),
            ),
        ).lastrowid
        self._db.execute("INSERT INTO fts (rowid, text) VALUES (?, ?)", (rowid, self._tokens(entry)))
        self.count += 1

    def _remove(self, id: MemoryId) -> None:
        row = self._db.execute("SELECT rowid, entry FROM docs WHERE scope = ? AND key = ?", (id.scope, id.key)).fetchone()
        if row is None:
            return
        # A contentless table is told what it held: the same tokenizer gives the same text.
        old = self._tokens(from_json(row[1]))
        self._db.execute("INSERT INTO fts (fts, rowid, text) VALUES ('delete', ?, ?)", (row[0], old))
        self._db.execute("DELETE FROM docs WHERE rowid = ?", (row[0],))
        self.count -= 1

    # --- reading ---------------------------------------------------------------------------------------------------

    def search(self, query: SearchQuery) -> list[SearchHit]:
        """Return the best entries by BM25, scores as the share of what a text could reach at most."""
        with self._lock:
            wanted, best = self._terms(query.text)
            if not wanted:
                return []
            rows = self._rank(_match(wanted), query)
            hits: list[SearchHit] = []
            for score, rowid in rows:
                text = self._db.execute("SELECT entry FROM docs WHERE rowid = ?", (rowid,)).fetchone()[0]
                share = min(1.0, -score / best)
                hits.append(SearchHit(from_json(text), share, {"bm25": -score}))
            return hits

    def scores(self, query: SearchQuery, ids: Sequence[MemoryId]) -> dict[MemoryId, float]:
        """Return the score of given entries; those that share no term with the query have 0."""
        with self._lock:
            rows = {
                row[0]: id
                for id in ids
                for row in self._db.execute("SELECT rowid FROM docs WHERE scope = ? AND key = ?", (id.scope, id.key))
            }
            found = dict.fromkeys(rows.values(), 0.0)
            wanted, best = self._terms(query.text)
            if wanted and rows:
                # The plus sign keeps SQLite from starting one search per row.
                for rowid, score in self._db.execute(
                    "SELECT rowid, bm25(fts) FROM fts WHERE fts MATCH ? AND +rowid IN (SELECT value FROM json_each(?))",
                    (_match(wanted), json.dumps(list(rows))),
                ):
                    found[rows[rowid]] = min(1.0, -score / best)
            return found

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

    def _terms(self, text: str) -> tuple[list[str], float]:
        """Return the terms to look for, and the highest BM25 that any text could reach for the whole query.

        A long query keeps its rarest terms. In a larger index a term that most entries have is left out where the
        query has others: FTS5 gives it no weight, and it would only make every entry a candidate.
        """
        asked = unique_tokens(text, self._stemmer)
        if not asked or not self.count:
            return [], 1.0
        if len(asked) > _PRE_CAP:
            asked = sorted(asked, key=len, reverse=True)[:_PRE_CAP]  # longer words are rarer (Zipf 1935)
        frequency = self._db.execute
        known: list[tuple[int, str]] = []
        best = 0.0
        absent = self._idf(0)
        for term in asked:
            row = frequency("SELECT doc FROM terms WHERE term = ?", (term,)).fetchone()
            if row is None:
                best += absent
            else:
                best += self._idf(row[0])
                known.append((row[0], term))
        rare = [pair for pair in known if pair[0] * 2 <= self.count] if self.count >= _COMMON_FROM else known
        chosen = rare or known
        if len(chosen) > self._max_terms:
            chosen = sorted(chosen)[: self._max_terms]
            best = sum(self._idf(count) for count, _ in chosen)
        return [term for _, term in chosen], max(best * (K1 + 1), _MIN_IDF)

    def _idf(self, count: int) -> float:
        return max(math.log((self.count - count + 0.5) / (count + 0.5)), _MIN_IDF)

    def _rank(self, match: str, query: SearchQuery) -> list[tuple[float, int]]:
        """Return (score, rowid) of the best admitted entries, ties in the order of the contract."""
        limit = query.top_k + _SLACK
        filtered = query.scopes is not None or query.min_importance is not None
        while True:
            rows = self._filtered(match, query, limit) if filtered else self._unfiltered(match, query, limit)
            exhausted = rows is not None and len(rows) < limit
            if rows is None:
                filtered = True  # something expired was among the first: ask again, with the filter inside
                continue
            ordered = sorted(rows, key=lambda row: (row[0], -row[2], -row[3], row[4], row[5]))[: query.top_k]
            if exhausted or not ordered or rows[-1][0] > ordered[-1][0]:
                return [(row[0], row[1]) for row in ordered]
            limit *= 4  # a tie reaches beyond what was fetched

    def _unfiltered(self, match: str, query: SearchQuery, limit: int) -> list[tuple[float, int, int, float, str, str]] | None:
        moment = query.now.timestamp()
        rows = self._db.execute(
            "WITH found AS MATERIALIZED ("
            "SELECT rowid AS id, bm25(fts) AS score FROM fts WHERE fts MATCH ? ORDER BY score LIMIT ?) "
            "SELECT score, id, importance, updated, key, scope, expires FROM found JOIN docs ON rowid = id "
            "ORDER BY score",
            (match, limit),
        ).fetchall()
        if any(row[6] is not None and row[6] <= moment for row in rows):
            return None
        return [row[:6] for row in rows]

    def _filtered(self, match: str, query: SearchQuery, limit: int) -> list[tuple[float, int, int, float, str, str]]:
        return self._db.execute(
            "SELECT bm25(fts) AS score, d.rowid, importance, updated, key, scope "
            "FROM fts JOIN docs d ON d.rowid = fts.rowid WHERE fts MATCH ?1 "
            "AND (expires IS NULL OR expires > ?2) AND (?3 IS NULL OR importance >= ?3) "
            "AND (?4 IS NULL OR scope IN (SELECT value FROM json_each(?4))) ORDER BY score LIMIT ?5",
            (
                match,
                query.now.timestamp(),
                query.min_importance,
                json.dumps(query.scopes) if query.scopes is not None else None,
                limit,
            ),
        ).fetchall()

    # --- keeping ---------------------------------------------------------------------------------------------------

    def serialize(self) -> bytes:
        """Return the whole index as bytes."""
        with self._lock:
            return self._db.serialize()

    def close(self) -> None:
        """Free the memory."""
        with self._lock:
            self._db.close()


def _match(terms: Sequence[str]) -> str:
    """Return an FTS5 expression for any of the terms; each is a quoted string, so none is syntax."""
    return " OR ".join('"' + term.replace('"', '""') + '"' for term in terms)
