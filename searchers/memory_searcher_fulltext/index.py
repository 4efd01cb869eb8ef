"""One user's index: an SQLite database in memory with an FTS5 table over pre-tokenised text."""

import json
import sqlite3
from collections import OrderedDict
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime

from memory_core.contracts import Candidates
from memory_core.errors import IndexUnavailableError
from memory_core.forking import INNER, ForkLock
from memory_core.model import HOT_IMPORTANCE, ChangeBatch, MemoryEntry, MemoryId, SearchHit, SearchQuery
from memory_core.serial import from_json, to_json
from memory_core.text import tokens
from memory_searcher_fulltext.impacts import Impacts
from memory_searcher_fulltext.ranking import Ranking
from memory_searcher_fulltext.weighing import Statistics, Weigher, joined

_READ_KEPT = 1_024  # entries that were hits lately
_MANY_CHANGES = 64  # of a batch, from which reading the impacts anew is cheaper than following

# The tokenizer splits at spaces only: `ascii` takes every character beyond ASCII as part of a word, and these too.
_SCHEMA = """
CREATE TABLE docs (
    rowid INTEGER PRIMARY KEY, scope TEXT NOT NULL, key TEXT NOT NULL, importance INTEGER NOT NULL,
    updated REAL NOT NULL, expires REAL, entry TEXT NOT NULL, tokens TEXT NOT NULL, length INTEGER NOT NULL,
    UNIQUE (scope, key)
);
CREATE INDEX docs_by_rank ON docs (importance DESC, updated DESC, key, scope);
CREATE INDEX docs_by_expiry ON docs (expires) WHERE expires IS NOT NULL;
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
CREATE VIRTUAL TABLE fts USING fts5(text, content = '', tokenize = "ascii tokenchars '+#./&'''");
CREATE VIRTUAL TABLE terms USING fts5vocab(fts, 'row');
CREATE VIRTUAL TABLE instances USING fts5vocab(fts, 'instance');
"""


class UserIndex:
    """Everything that is known of one user; safe for several threads.

    `blob` is what `serialize` gave for the same tokenizer.
    """

    def __init__(self, stemmer: str | None, max_terms: int, blob: bytes | None = None) -> None:
        self._stemmer = stemmer
        self._lock = ForkLock(INNER)
        self._db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        if blob is None:
            self._db.executescript(_SCHEMA)
        else:
            self._db.deserialize(blob)
            self._db.execute("SELECT count(*) FROM fts WHERE fts MATCH '\"a\"'").fetchone()
        self._statistics = Statistics(
            *self._db.execute("SELECT count(*), coalesce(sum(length), 0) FROM docs").fetchone()
        )
        row = self._db.execute("SELECT value FROM meta WHERE name = 'cursor'").fetchone()
        self.cursor: str | None = row[0] if row else None
        self.unsaved = 0
        self._impacts = Impacts(self._db)
        self._weigher = Weigher(self._db, self._impacts, self._statistics, stemmer, max_terms)
        self._ranking = Ranking(self._db, self._impacts, self._statistics)
        self._read: OrderedDict[int, MemoryEntry] = OrderedDict()
        self._free = self._gaps()

    @property
    def count(self) -> int:
        """How many entries there are."""
        return self._statistics.count

    def _gaps(self) -> list[int]:
        """Return unused rows, which are to be used again: sets of rows are as long as the highest."""
        highest = self._db.execute("SELECT coalesce(max(rowid), 0) FROM docs").fetchone()[0]
        if highest == self.count:
            return []
        used = {row for (row,) in self._db.execute("SELECT rowid FROM docs")}
        return [row for row in range(highest, 0, -1) if row not in used]

    @contextmanager
    def _transaction(self) -> Generator[None]:
        with self._lock:
            self._db.execute("BEGIN")
            before = self._statistics.count, self._statistics.length
            self._ranking.changed()
            self._weigher.changed()
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException as error:
                self._db.execute("ROLLBACK")
                self._statistics.count, self._statistics.length = before
                self._impacts.clear()
                self._read.clear()
                self._free = self._gaps()
                if isinstance(error, sqlite3.Error):
                    message = f"The full-text index could not take a change over: {error}."
                    raise IndexUnavailableError(message) from error
                raise

    # --- following -------------------------------------------------------------------------------------------------

    def apply(self, batch: ChangeBatch) -> None:
        """Take a batch over in one transaction; nothing changes when it fails."""
        with self._transaction():
            if batch.complete:
                self._empty()
            elif len(batch.removals) + len(batch.upserts) > _MANY_CHANGES:
                self._impacts.clear()
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
        self._statistics.count = self._statistics.length = 0
        self._impacts.clear()
        self._read.clear()
        self._free = []

    def _put(self, entry: MemoryEntry) -> None:
        self._remove(entry.id)
        found = (*tokens(entry.id.key, self._stemmer), *tokens(entry.content, self._stemmer))
        text = joined(found)
        rowid = self._db.execute(
            "INSERT INTO docs (rowid, scope, key, importance, updated, expires, entry, tokens, length) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                self._free.pop() if self._free else None,
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
        assert rowid is not None  # the statement above inserts
        self._db.execute("INSERT INTO fts (rowid, text) VALUES (?, ?)", (rowid, text))
        self._statistics.count += 1
        self._statistics.length += len(found)
        self._impacts.added(rowid, found, len(found))

    def _remove(self, id: MemoryId) -> None:
        row = self._db.execute(
            "SELECT rowid, tokens, length FROM docs WHERE scope = ? AND key = ?", (id.scope, id.key)
        ).fetchone()
        if row is None:
            return
        # A contentless table must be told what it held.
        self._db.execute("INSERT INTO fts (fts, rowid, text) VALUES ('delete', ?, ?)", row[:2])
        self._db.execute("DELETE FROM docs WHERE rowid = ?", (row[0],))
        self._statistics.count -= 1
        self._statistics.length -= row[2]
        self._impacts.removed(row[0], row[1].split())
        self._read.pop(row[0], None)
        self._free.append(row[0])

    # --- reading ---------------------------------------------------------------------------------------------------

    def search(self, query: SearchQuery) -> list[SearchHit]:
        """Return the best entries by BM25, scores as the share of what a text could reach at most."""
        with self._lock:
            terms = self._weigher.weigh(query.text)
            if not terms.weights:
                return []
            ranked = self._ranking.rank(terms, query)
            entries = self._entries([row.rowid for row in ranked])
        return [SearchHit(entries[row.rowid], min(1.0, row.score / terms.best), {"bm25": row.score}) for row in ranked]

    def _entries(self, rows: Sequence[int]) -> dict[int, MemoryEntry]:
        """Read the entries of those rows that are filled; those read lately are kept: people ask the same again."""
        missing = [row for row in rows if row not in self._read]
        if missing:
            texts = self._db.execute(
                "SELECT rowid, entry FROM docs WHERE rowid IN (SELECT value FROM json_each(?))", (json.dumps(missing),)
            )
            self._read.update((row, from_json(text)) for row, text in texts)
        found = {row: self._read[row] for row in rows if row in self._read}
        for row in found:
            self._read.move_to_end(row)
        while len(self._read) > _READ_KEPT:
            self._read.popitem(last=False)
        return found

    def candidates(self, query: SearchQuery) -> Candidates:
        """Return what `search` would, without reading the entries."""
        with self._lock:
            terms = self._weigher.weigh(query.text)
            rows = self._ranking.rank(terms, query) if terms.weights else []
        ids = [MemoryId(row.scope, query.user_id, row.key) for row in rows]
        places = {id: row.rowid for id, row in zip(ids, rows, strict=True)}
        ranked = [(id, min(1.0, row.score / terms.best)) for id, row in zip(ids, rows, strict=True)]
        return Candidates(ranked, lambda wanted: self._entries_of(wanted, places))

    def _entries_of(self, ids: Sequence[MemoryId], places: Mapping[MemoryId, int]) -> dict[MemoryId, MemoryEntry]:
        """Read entries by id; `places` says in which rows they were."""
        with self._lock:
            there = self._entries([places[id] for id in ids if id in places])
            found = {entry.id: entry for entry in there.values()}
            moved = [id for id in ids if id not in found]
            if moved:
                found |= {entry.id: entry for entry in self._entries([row for row, _ in self._named(moved)]).values()}
        return {id: found[id] for id in ids if id in found}

    def _named(self, ids: Sequence[MemoryId]) -> list[tuple[int, MemoryId]]:
        """Return the rows of those ids that are there."""
        names = {(id.scope, id.key): id for id in ids}
        rows = self._db.execute(
            "SELECT docs.rowid, docs.scope, docs.key FROM json_each(?) AS wanted JOIN docs "
            "ON docs.scope = json_extract(wanted.value, '$[0]') AND docs.key = json_extract(wanted.value, '$[1]')",
            (json.dumps(list(names)),),
        )
        return [(row, names[scope, key]) for row, scope, key in rows]

    def scores(self, query: SearchQuery, ids: Sequence[MemoryId]) -> dict[MemoryId, float]:
        """Return the score of given entries; those that share no term with the query have 0."""
        with self._lock:
            terms = self._weigher.weigh(query.text)
            named = self._named(ids)
            given = self._ranking.scores([row for row, _ in named], terms)
        return {id: min(1.0, given[row] / terms.best) for row, id in named}

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

    # --- keeping ---------------------------------------------------------------------------------------------------

    def serialize(self) -> bytes:
        """Return the whole index as bytes."""
        with self._lock:
            return self._db.serialize()

    def __del__(self) -> None:
        with suppress(AttributeError):  # SQLite itself may have failed to open
            self._db.close()
