"""The tables of a memory file, and what happens when one is opened for writing.

`entries` holds the live memories and, with an empty `body`, the tombstones of removed ones; `number` is the change
that made the row what it is. `users` holds, per user, the newest change number (`head`), the number up to which
tombstones have been dropped (`floor`), and at most how many tombstones there are (`graves`). `meta` holds the file's
identity (`epoch`), the highest head of users that were dropped for good (`forgotten`), the machine's boot at which
a writer last skipped the wait for the disk (`boot`), and what shows a restored backup: the file's number on its disk
(`inode`), the ranges of change numbers that only another file of this name can have given (`lost`, JSON), and the
number that every later one is above (`least`).
"""

import json
import os
import secrets
import sqlite3
import time
from functools import lru_cache
from pathlib import Path

from memory_core.errors import StorageUnavailableError

VERSION = 1
_CLOSING_US = 20_000
"""How long after its last change a file is usually written for the last time, when the log is merged into it."""
_RANGES = 200
"""How many `lost` ranges are kept: who has not followed through so many reopenings may miss a restored backup."""
_APPLICATION_ID = 0x4D656D4B  # "MemK"
_STATEMENTS = (
    "CREATE TABLE meta(name TEXT PRIMARY KEY, value) WITHOUT ROWID",
    """CREATE TABLE entries(user TEXT NOT NULL, key TEXT NOT NULL, number INTEGER NOT NULL, expires INTEGER, body TEXT,
        PRIMARY KEY(user, key))""",
    "CREATE UNIQUE INDEX entries_by_number ON entries(user, number)",
    "CREATE INDEX entries_by_expiry ON entries(expires) WHERE expires IS NOT NULL AND body IS NOT NULL",
    "CREATE INDEX entries_removed ON entries(user, number) WHERE body IS NULL",
    """CREATE TABLE users(user TEXT PRIMARY KEY, head INTEGER NOT NULL, floor INTEGER NOT NULL, graves INTEGER NOT NULL)
        WITHOUT ROWID""",
    "INSERT INTO meta VALUES('forgotten', 0)",
    f"PRAGMA application_id = {_APPLICATION_ID}",
    f"PRAGMA user_version = {VERSION}",
)


def version(db: sqlite3.Connection, path: Path) -> int:
    """Return the file's version; 0 for a file without tables.

    Raises:
        StorageUnavailableError: A newer version of this library wrote it.
    """
    found = int(db.execute("PRAGMA user_version").fetchone()[0])
    if found > VERSION:
        raise StorageUnavailableError(
            f"The memory file {path} has version {found}, this library reads up to {VERSION}: install a newer one."
        )
    return found


def prepare(db: sqlite3.Connection, path: Path, *, durable: bool) -> None:
    """Make the tables where they are missing, and see to it that followers notice where writes may have been lost.

    A writer that does not wait for the disk leaves the machine's boot id behind. When the next writer finds another
    boot, the machine has been restarted since and the newest changes may be gone, although followers have seen them:
    with a new epoch they all read the file anew.

    A copy of the file that was put in its place is another file on the disk, or was written there after its last
    change. What followers saw since the copy was made has numbers between that change and now: they are noted in
    `lost`. A file that was only moved, or that its last user closed late, has given none of them, so that to note them
    for nothing sends nobody back. Each writer looks when it opens the file; of several at once, the first notes it.
    """
    status = os.stat(path)
    known = version(db, path) == VERSION and not _replaced(db, status)
    if known and durable and _boot(db) in (None, boot_id()):
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        if version(db, path) == 0:
            for statement in _STATEMENTS:
                db.execute(statement)
            _renew(db)
            _set(db, "least", max(status.st_ctime_ns, time.time_ns()) // 1_000)
        if _replaced(db, status):
            _note_lost(db, status)
        boot = _boot(db)
        if boot not in (None, boot_id()):
            _renew(db)
            db.execute("DELETE FROM meta WHERE name = 'boot'")
        if not durable and boot != boot_id():
            _set(db, "boot", boot_id())
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def _renew(db: sqlite3.Connection) -> None:
    _set(db, "epoch", secrets.token_hex(8))


def _set(db: sqlite3.Connection, name: str, value: str | int) -> None:
    db.execute("INSERT OR REPLACE INTO meta VALUES(?, ?)", (name, value))


def _get(db: sqlite3.Connection, name: str) -> str | None:
    row = db.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
    return None if row is None else str(row[0])


def _boot(db: sqlite3.Connection) -> str | None:
    return _get(db, "boot")


def _last(db: sqlite3.Connection) -> int:
    """Return a number that is at least every one given so far."""
    return max(
        int(db.execute("SELECT coalesce(max(head), 0) FROM users").fetchone()[0]),
        int(_get(db, "forgotten") or 0),
        int(_get(db, "least") or 0),
    )


def _replaced(db: sqlite3.Connection, status: os.stat_result) -> bool:
    """Whether the file may have been put here after its last change; its device counts not, it may differ each boot."""
    return _get(db, "inode") != str(status.st_ino) or status.st_ctime_ns // 1_000 > _last(db) + _CLOSING_US


def _note_lost(db: sqlite3.Connection, status: os.stat_result) -> None:
    last, least = _last(db), max(status.st_ctime_ns, time.time_ns()) // 1_000
    if least > last:
        ranges = [*lost_ranges(_get(db, "lost")), (last, least + 1)]
        _set(db, "lost", json.dumps(ranges[-_RANGES:]))
        _set(db, "least", least)
    _set(db, "inode", str(status.st_ino))


@lru_cache(maxsize=256)
def lost_ranges(text: str | None) -> tuple[tuple[int, int], ...]:
    """Return the ranges of change numbers that the file cannot have given; the two ends of each do not belong to it."""
    return tuple((int(after), int(before)) for after, before in json.loads(text or "[]"))


@lru_cache(maxsize=1)
def boot_id() -> str:
    """Return what names the machine's present boot; the same text always where the system does not say it."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return "unknown"
