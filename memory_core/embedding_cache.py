"""Vectors that were computed once, in a SQLite file keyed by model and content hash: a re-index embeds nothing twice.

The file is a cache: it may be deleted at any time, and a damaged or unwritable one costs time, never a result. It is
safe to use from several threads and processes, also after a fork. It holds vectors and hashes, never text; `discard`
takes out what a removed memory left.
"""

import logging
import os
import sqlite3
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from threading import RLock
from time import time
from typing import TypeVar

import numpy as np

from memory_core.vectors import Vectors

log = logging.getLogger(__name__)

FILE_NAME = "embeddings.sqlite3"
DEFAULT_MAX_BYTES = 512 << 20
FORMAT = 1
_DAY_S = 86_400
_CHUNK = 500  # SQLite's oldest limit on parameters is 999
_STORED = np.dtype("<f4")
T = TypeVar("T")

_SCHEMA = """
CREATE TABLE models (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, dim INTEGER NOT NULL);
CREATE TABLE vectors (model INTEGER NOT NULL, hash BLOB NOT NULL, vector BLOB NOT NULL, used INTEGER NOT NULL,
    UNIQUE (model, hash));
CREATE INDEX vectors_used ON vectors (used);
CREATE TABLE total (bytes INTEGER NOT NULL);
INSERT INTO total VALUES (0);
CREATE TRIGGER vector_added AFTER INSERT ON vectors BEGIN UPDATE total SET bytes = bytes + length(new.vector); END;
CREATE TRIGGER vector_gone AFTER DELETE ON vectors BEGIN UPDATE total SET bytes = bytes - length(old.vector); END;
"""


@dataclass(frozen=True, slots=True)
class CachedModel:
    """How many vectors of one model the cache holds."""

    model_id: str
    dim: int
    vectors: int


@dataclass(frozen=True, slots=True)
class CacheStatus:
    """What the cache holds: the vectors' bytes, and the count by model."""

    path: Path
    size_bytes: int
    models: tuple[CachedModel, ...]


@dataclass(slots=True)
class _Handle:
    """One process' connection. A child of a fork gets its own, because SQLite's must not cross it."""

    pid: int
    lock: RLock = field(default_factory=RLock)
    connection: sqlite3.Connection | None = None


def content_hash(text: str) -> bytes:
    """Return 16 bytes that stand for `text`."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


class EmbeddingCache:
    """The file. Vectors beyond `max_bytes` push out those that were not used for longest."""

    def __init__(self, path: Path, max_bytes: int = DEFAULT_MAX_BYTES) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._handle = _Handle(os.getpid())

    def get(self, model_id: str, dim: int, texts: Sequence[str]) -> dict[str, Vectors]:
        """Return the known vectors among `texts`, each of shape `(dim,)`, read-only."""
        return self._guarded(lambda db: self._get(db, model_id, dim, texts), {})

    def known(self, model_id: str, texts: Sequence[str]) -> int:
        """Return how many of `texts` have a vector of that model; reads no vector and marks none as used."""

        def run(db: sqlite3.Connection) -> int:
            hashes = list({content_hash(text) for text in texts})
            count = 0
            for start in range(0, len(hashes), _CHUNK):
                chunk = hashes[start : start + _CHUNK]
                sql = (
                    "SELECT count(*) FROM vectors JOIN models ON models.id = model WHERE name = ? AND hash IN "  # noqa: S608 - only question marks
                    f"({','.join('?' * len(chunk))})"
                )
                count += db.execute(sql, (model_id, *chunk)).fetchone()[0]
            return count

        return self._guarded(run, 0) if self._path.exists() else 0

    def put(self, model_id: str, texts: Sequence[str], rows: Vectors) -> None:
        """Keep one row per text; a vector that is already there stays."""
        if len(texts):
            self._guarded(lambda db: self._put(db, model_id, texts, rows), None)

    def discard(self, texts: Sequence[str]) -> None:
        """Forget the vectors of `texts`, of every model."""

        def run(db: sqlite3.Connection) -> None:
            with _writing(db):
                models = [row[0] for row in db.execute("SELECT id FROM models")]
                hashes = [content_hash(text) for text in texts]
                db.executemany(
                    "DELETE FROM vectors WHERE model = ? AND hash = ?", [(m, h) for m in models for h in hashes]
                )

        if texts and self._path.exists():
            self._guarded(run, None)

    def status(self) -> CacheStatus:
        """Return what the cache holds."""

        def run(db: sqlite3.Connection) -> CacheStatus:
            rows = db.execute(
                "SELECT name, dim, (SELECT count(*) FROM vectors WHERE model = models.id) FROM models ORDER BY name"
            )
            models = tuple(CachedModel(*row) for row in rows)
            return CacheStatus(self._path, db.execute("SELECT bytes FROM total").fetchone()[0], models)

        nothing = CacheStatus(self._path, 0, ())
        return self._guarded(run, nothing) if self._path.exists() else nothing

    def close(self) -> None:
        """Close the file. Closing twice is harmless; a later call opens it again."""
        handle = self._own_handle()
        with handle.lock:
            if handle.connection is not None:
                handle.connection.close()
                handle.connection = None

    # --- inside ----------------------------------------------------------------------------------------------------

    def _own_handle(self) -> _Handle:
        if self._handle.pid != os.getpid():
            self._handle = _Handle(os.getpid())
        return self._handle

    def _guarded(self, run: Callable[[sqlite3.Connection], T], otherwise: T) -> T:
        """Run with the connection; a damaged file is made anew once, any other failure gives `otherwise`."""
        handle = self._own_handle()
        with handle.lock:
            for attempt in (1, 2):
                try:
                    if handle.connection is None:
                        handle.connection = self._connect()
                    return run(handle.connection)
                except (sqlite3.Error, OSError) as error:
                    self._drop(handle)
                    if attempt == 1 and _damaged(error):
                        log.warning("The embedding cache %s is damaged and is made anew: %s", self._path, error)
                        self._delete()
                        continue
                    log.warning("The embedding cache %s cannot be used now: %s", self._path, error)
                    break
        return otherwise

    def _connect(self) -> sqlite3.Connection:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        db = sqlite3.connect(self._path, timeout=30, isolation_level=None, check_same_thread=False)
        try:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = NORMAL")
            if db.execute("PRAGMA user_version").fetchone()[0] != FORMAT:
                with _writing(db):
                    if db.execute("PRAGMA user_version").fetchone()[0] != FORMAT:
                        for name in ("vectors", "models", "total"):
                            db.execute(f"DROP TABLE IF EXISTS {name}")
                        for statement in _statements(_SCHEMA):
                            db.execute(statement)
                        db.execute(f"PRAGMA user_version = {FORMAT}")
        except BaseException:
            db.close()
            raise
        return db

    @staticmethod
    def _drop(handle: _Handle) -> None:
        if handle.connection is not None:
            with suppress(sqlite3.Error):
                handle.connection.close()
            handle.connection = None

    def _delete(self) -> None:
        for ending in ("", "-wal", "-shm"):
            try:
                self._path.with_name(self._path.name + ending).unlink(missing_ok=True)
            except OSError as error:
                log.warning("The damaged embedding cache cannot be deleted: %s", error)

    @staticmethod
    def _get(db: sqlite3.Connection, model_id: str, dim: int, texts: Sequence[str]) -> dict[str, Vectors]:
        row = db.execute("SELECT id FROM models WHERE name = ? AND dim = ?", (model_id, dim)).fetchone()
        if row is None:
            return {}
        model, now = row[0], int(time())
        by_hash = {content_hash(text): text for text in texts}
        hashes = list(by_hash)
        found: dict[str, Vectors] = {}
        stale: list[int] = []
        for start in range(0, len(hashes), _CHUNK):
            chunk = hashes[start : start + _CHUNK]
            marks = ",".join("?" * len(chunk))
            sql = f"SELECT rowid, hash, vector, used FROM vectors WHERE model = ? AND hash IN ({marks})"  # noqa: S608 - only question marks
            for rowid, key, blob, used in db.execute(sql, (model, *chunk)):
                if len(blob) == dim * _STORED.itemsize:
                    found[by_hash[key]] = np.frombuffer(blob, _STORED).astype(np.float32, copy=False)
                if used < now - _DAY_S:
                    stale.append(rowid)
        if stale:
            with _writing(db):
                db.executemany("UPDATE vectors SET used = ? WHERE rowid = ?", [(now, rowid) for rowid in stale])
        return found

    def _put(self, db: sqlite3.Connection, model_id: str, texts: Sequence[str], rows: Vectors) -> None:
        now = int(time())
        stored = np.ascontiguousarray(rows, _STORED)
        with _writing(db):
            known = db.execute("SELECT id, dim FROM models WHERE name = ?", (model_id,)).fetchone()
            if known is not None and known[1] != stored.shape[1]:
                db.execute("DELETE FROM vectors WHERE model = ?", (known[0],))
                db.execute("DELETE FROM models WHERE id = ?", (known[0],))
                known = None
            if known is None:
                sql = "INSERT INTO models (name, dim) VALUES (?, ?) RETURNING id"
                known = db.execute(sql, (model_id, stored.shape[1])).fetchone()
            db.executemany(
                "INSERT OR IGNORE INTO vectors VALUES (?, ?, ?, ?)",
                [(known[0], content_hash(text), row.tobytes(), now) for text, row in zip(texts, stored, strict=True)],
            )
            self._shrink(db)

    def _shrink(self, db: sqlite3.Connection) -> None:
        """Delete what was not used for longest, down to nine tenths of the limit."""
        while True:
            total = db.execute("SELECT bytes FROM total").fetchone()[0]
            if total <= self._max_bytes:
                return
            goal = total - self._max_bytes * 9 // 10
            oldest = db.execute("SELECT rowid, length(vector) FROM vectors ORDER BY used, rowid LIMIT 10000").fetchall()
            doomed: list[tuple[int]] = []
            for rowid, size in oldest:
                if goal <= 0:
                    break
                doomed.append((rowid,))
                goal -= size
            db.executemany("DELETE FROM vectors WHERE rowid = ?", doomed)
            if not doomed:
                return


@contextmanager
def _writing(db: sqlite3.Connection) -> Generator[None, None, None]:
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")


def _statements(script: str) -> Iterator[str]:
    """Yield the statements of a script; `executescript` would commit the transaction around them."""
    statement = ""
    for line in script.splitlines():
        statement += line + "\n"
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def _damaged(error: Exception) -> bool:
    text = str(error)
    return isinstance(error, sqlite3.DatabaseError) and (
        "malformed" in text or "not a database" in text or "no such table" in text or "file is encrypted" in text
    )
