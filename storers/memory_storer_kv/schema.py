"""The tables of a memory file, and what happens when one is opened for writing.

`entries` holds the live memories and, with an empty `body`, the tombstones of removed ones; `number` is the change
that made the row what it is. `users` holds, per user, the newest change number (`head`), the number up to which
tombstones have been dropped (`floor`), and at most how many tombstones there are (`graves`). `meta` holds the file's
identity (`epoch`), the highest head of users that were dropped for good (`forgotten`), and the machine's boot at which
a writer last skipped the wait for the disk (`boot`).
"""

import secrets
import sqlite3
from functools import lru_cache
from pathlib import Path

from memory_core.errors import StorageUnavailableError

VERSION = 1
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
    """Make the tables where they are missing, and give the file a new identity where writes may have been lost.

    A writer that does not wait for the disk leaves the machine's boot id behind. When the next writer finds another
    boot, the machine has been restarted since and the newest changes may be gone, although followers have seen them:
    with a new epoch they all read the file anew.
    """
    if version(db, path) == VERSION and durable and _boot(db) in (None, boot_id()):
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        if version(db, path) == 0:
            for statement in _STATEMENTS:
                db.execute(statement)
            _renew(db)
        boot = _boot(db)
        if boot not in (None, boot_id()):
            _renew(db)
            db.execute("DELETE FROM meta WHERE name = 'boot'")
        if not durable and boot != boot_id():
            db.execute("INSERT OR REPLACE INTO meta VALUES('boot', ?)", (boot_id(),))
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def _renew(db: sqlite3.Connection) -> None:
    db.execute("INSERT OR REPLACE INTO meta VALUES('epoch', ?)", (secrets.token_hex(8),))


def _boot(db: sqlite3.Connection) -> str | None:
    row = db.execute("SELECT value FROM meta WHERE name = 'boot'").fetchone()
    return None if row is None else str(row[0])


@lru_cache(maxsize=1)
def boot_id() -> str:
    """Return what names the machine's present boot; the same text always where the system does not say it."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return "unknown"
