"""The derived SQLite file beside the Markdown files: what each file says, and in which order things changed.

It may be deleted at any time: it is rebuilt from the files, and every follower then starts over. Its write lock is
also what keeps two processes from changing one directory at once.

A change number is the time in microseconds, or the last number plus one when that is larger: numbers that were lost
with the tail of the file in a power failure are never given to other changes, so a follower cannot miss one.
"""

import logging
import os
import sqlite3
import time
import uuid
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from memory_core.errors import StorageUnavailableError

log = logging.getLogger(__name__)

STATE_DIR = ".memory-core"
SCHEMA_VERSION = 1
BUSY_TIMEOUT_S = 30.0
TOMBSTONES_KEPT = 10_000

_SCHEMA = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE dirs (dir TEXT PRIMARY KEY, mtime_ns INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE files (
    path TEXT PRIMARY KEY, dir TEXT NOT NULL, signature TEXT NOT NULL, user TEXT, key TEXT,
    updated REAL, mtime_ns INTEGER, expires REAL, entry TEXT, extra TEXT, error TEXT
) WITHOUT ROWID;
CREATE INDEX files_by_dir ON files (dir);
CREATE INDEX files_by_id ON files (user, key);
CREATE INDEX files_by_expiry ON files (expires) WHERE expires IS NOT NULL;
CREATE TABLE latest (
    user TEXT NOT NULL, key TEXT NOT NULL, number INTEGER NOT NULL, path TEXT, PRIMARY KEY (user, key)
) WITHOUT ROWID;
CREATE INDEX latest_by_number ON latest (user, number);
CREATE TABLE floors (user TEXT PRIMARY KEY, floor INTEGER NOT NULL) WITHOUT ROWID;
"""

_GRAVES = "CREATE INDEX IF NOT EXISTS latest_graves ON latest (user, number) WHERE path IS NULL"

# Each names a table and its columns: one that is missing shows here.
_PROBES = (
    "SELECT name, value FROM meta LIMIT 1",
    "SELECT dir, mtime_ns FROM dirs LIMIT 1",
    "SELECT path, dir, signature, user, key, updated, mtime_ns, expires, entry, extra, error FROM files LIMIT 1",
    "SELECT user, key, number, path FROM latest LIMIT 1",
    "SELECT user, floor FROM floors LIMIT 1",
)


_inherited: list[sqlite3.Connection] = []


class Manifest:
    """One open manifest. Where the directory cannot be written it lives in memory, and reads go on.

    Raises:
        StorageUnavailableError: Its place is a link, or holds one.
    """

    def __init__(self, scope_dir: Path) -> None:
        self.path = scope_dir / STATE_DIR / "manifest.sqlite3"
        self.pid = os.getpid()
        self.on_disk = True
        self._refuse_links()
        try:
            self.db = self._open_file()
        except (sqlite3.Error, OSError) as error:
            log.info("No manifest can be kept in %s (%s); this process reads without one", self.path.parent, error)
            self.on_disk = False
            self.db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
            self._create(self.db)
        self.inode = self._inode()
        self._untrimmed: dict[str, int] = {}
        self.epoch = str(self.db.execute("SELECT value FROM meta WHERE name = 'epoch'").fetchone()[0])

    def _refuse_links(self) -> None:
        """Follow no link to or in the folder of derived files: what lies there is overwritten and cleared away.

        Raises:
            StorageUnavailableError: There is one; a cloned repository may have brought it.
        """
        state = self.path.parent
        places = [state]
        if not state.is_symlink():
            with suppress(OSError):  # not there, or not ours to look into: nothing can be written there either
                places += state.iterdir()
        for place in places:
            if place.is_symlink():
                raise StorageUnavailableError(
                    f"{place} is a link: memories are not read or written with it there. Delete it; what belongs into "
                    f"{state} is made anew."
                )

    def _open_file(self) -> sqlite3.Connection:
        self.path.parent.mkdir(exist_ok=True)
        ignore = self.path.parent / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n")
        for attempt in (1, 2):
            db = sqlite3.connect(self.path, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
            try:
                db.execute("PRAGMA journal_mode = WAL")
                db.execute("PRAGMA synchronous = NORMAL")
                if db.execute("PRAGMA user_version").fetchone()[0] != SCHEMA_VERSION:
                    self._create(db)
                db.execute("BEGIN IMMEDIATE")  # a directory that cannot be written fails here, not at the first change
                db.execute(_GRAVES)  # files of before have no such index, and need no other change
                for probe in _PROBES:
                    db.execute(probe).fetchone()
                if db.execute("SELECT count(*) FROM meta WHERE name IN ('epoch', 'head')").fetchone()[0] != 2:
                    raise sqlite3.DatabaseError("its epoch is gone")
                for (name,) in db.execute("SELECT dir FROM dirs UNION SELECT DISTINCT dir FROM files"):
                    if name.startswith(".") or "/" in name or "\\" in name:  # as `..`: only a forged one leads out
                        raise sqlite3.DatabaseError("it names a directory outside its own")
                db.execute("COMMIT")
                return db
            except sqlite3.DatabaseError as error:
                db.close()
                damaged = type(error) is sqlite3.DatabaseError or "no such" in str(error)
                if attempt == 2 or not damaged:
                    raise
                log.warning("The manifest %s is damaged (%s) and will be rebuilt from the files", self.path, error)
                for suffix in ("", "-wal", "-shm"):
                    self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)
        raise AssertionError

    @staticmethod
    def _create(db: sqlite3.Connection) -> None:
        db.execute("BEGIN EXCLUSIVE")
        try:
            if db.execute("PRAGMA user_version").fetchone()[0] != SCHEMA_VERSION:
                for kind, name in db.execute(
                    "SELECT type, name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
                ).fetchall():
                    db.execute(f'DROP {kind} "{name}"')  # names of our own older schema
                for statement in _SCHEMA.split(";"):
                    db.execute(statement)
                db.execute("INSERT INTO meta VALUES ('epoch', ?), ('head', 0)", (uuid.uuid4().hex,))
                db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            db.execute("COMMIT")
        except BaseException:
            db.execute("ROLLBACK")
            raise

    def _inode(self) -> int | None:
        if not self.on_disk:
            return None
        try:
            return os.stat(self.path).st_ino
        except OSError:
            return None

    def stale(self) -> bool:
        """Whether this object must be opened anew: after a fork, or when somebody deleted the file."""
        return self.pid != os.getpid() or (self.on_disk and self.inode != self._inode())

    def close(self) -> None:
        """Close the file, unless it belongs to the parent process."""
        if self.pid == os.getpid():
            self.db.close()
        else:
            _inherited.append(self.db)  # SQLite forbids closing it here, and letting it go would close it

    @contextmanager
    def writing(self) -> Generator[sqlite3.Connection]:
        """Hold the directory's write lock and one transaction.

        Raises:
            StorageUnavailableError: Somebody else held the lock for 30 seconds, or the manifest cannot be written.
        """
        try:
            self.db.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            raise StorageUnavailableError(
                f"The store's lock in {self.path.parent} could not be taken ({error}); nothing was written."
            ) from error
        try:
            yield self.db
            self.db.execute("COMMIT")
        except BaseException:
            if self.db.in_transaction:
                self.db.execute("ROLLBACK")
            raise

    def next_number(self) -> int:
        """Take the next change number; only inside `writing`."""
        row = self.db.execute(
            "UPDATE meta SET value = max(value + 1, ?) WHERE name = 'head' RETURNING value", (time.time_ns() // 1_000,)
        ).fetchone()
        return int(row[0])

    def elect(self, user: str, key: str) -> None:
        """Decide which file speaks for a key after its files changed: the newest; record a change if that matters.

        Of several files with one key the one last updated wins, then the one last modified; only inside `writing`.
        """
        row = self.db.execute(
            "SELECT path, signature, entry FROM files WHERE user = ? AND key = ? AND error IS NULL "
            "ORDER BY updated DESC, mtime_ns DESC, path LIMIT 1",
            (user, key),
        ).fetchone()
        self.record(user, key, row[0] if row else None)

    def record(self, user: str, key: str, path: str | None) -> None:
        """Give a key its next change number; `path=None` is a tombstone; only inside `writing`."""
        self.db.execute(
            "INSERT INTO latest VALUES (?, ?, ?, ?) "
            "ON CONFLICT DO UPDATE SET number = excluded.number, path = excluded.path",
            (user, key, self.next_number(), path),
        )

    def trim(self, user: str) -> None:
        """Forget the oldest tombstones of a user beyond the last 10,000; only inside `writing`.

        Counting them costs as much as a removal: it is done at this object's first one, and for each hundred after.
        """
        waiting = self._untrimmed.get(user, TOMBSTONES_KEPT) + 1
        self._untrimmed[user] = waiting
        if waiting <= TOMBSTONES_KEPT // 100:
            return
        self._untrimmed[user] = 0
        row = self.db.execute(
            "SELECT number FROM latest WHERE user = ? AND path IS NULL ORDER BY number DESC LIMIT 1 OFFSET ?",
            (user, TOMBSTONES_KEPT),
        ).fetchone()
        if row is not None:
            self.db.execute("DELETE FROM latest WHERE user = ? AND path IS NULL AND number <= ?", (user, row[0]))
            self.db.execute(
                "INSERT INTO floors VALUES (?, ?) ON CONFLICT DO UPDATE SET floor = excluded.floor", (user, row[0])
            )
