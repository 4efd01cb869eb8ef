"""One scope's memories in one file, with the numbered log of their changes.

A change number is one more than the user's last, and at least the time in microseconds: should the newest writes be
lost with the power, the next ones do not get numbers that a follower has already seen.
"""

import sqlite3
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from memory_core.contracts import Clock
from memory_core.errors import CorruptEntryError, StorageUnavailableError
from memory_core.feed import Change, LogState
from memory_core.model import MemoryEntry, MemoryId
from memory_core.serial import readable_entries, stored_entry, to_json
from memory_storer_kv.connections import Connections, Durability
from memory_storer_kv.schema import lost_ranges

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PAGE = 500
_FORGET_AFTER_US = 90 * 86_400 * 1_000_000
_LIVE = "body IS NOT NULL AND (expires IS NULL OR expires > ?)"
_NEVER_WRITTEN = LogState("", 0, 0)


def microseconds(moment: datetime) -> int:
    """Return whole microseconds since 1970."""
    return (moment - _EPOCH) // timedelta(microseconds=1)


class ScopeFile:
    """The memories of one scope; also the scope's `ScopeLog`."""

    def __init__(
        self, scope: str, path: Path, clock: Clock, *, durability: Durability, busy_timeout_s: float, tombstones: int
    ) -> None:
        self.scope = scope
        self.path = path
        self._clock = clock
        self._tombstones = tombstones
        self._connections = Connections(path, durability, busy_timeout_s)

    # --- writing ---------------------------------------------------------------------------------------------------

    def put(self, entries: Sequence[MemoryEntry]) -> None:
        """Store entries in one transaction."""
        rows = [(entry, to_json(entry)) for entry in entries]
        with self._connections.writing() as db:
            assert db is not None
            heads: dict[str, int] = {}
            for entry, body in rows:
                user = entry.id.user_id
                number = heads[user] = _next(heads[user] if user in heads else _head(db, user))
                expires = None if entry.expires_at is None else microseconds(entry.expires_at)
                db.execute(
                    "INSERT INTO entries(user, key, number, expires, body) VALUES(?, ?, ?, ?, ?) ON CONFLICT(user, key)"
                    " DO UPDATE SET number = excluded.number, expires = excluded.expires, body = excluded.body",
                    (user, entry.id.key, number, expires, body),
                )
            for user, head in heads.items():
                _advance(db, user, head, graves=0)

    def remove(self, id: MemoryId) -> bool:
        """Turn the entry into a tombstone; return whether it was alive."""
        with self._connections.writing(create=False) as db:
            if db is None:
                return False
            row = db.execute(
                "SELECT expires FROM entries WHERE user = ? AND key = ? AND body IS NOT NULL", (id.user_id, id.key)
            ).fetchone()
            if row is None:
                return False
            self._bury(db, id.user_id, [id.key])
            return row[0] is None or row[0] > microseconds(self._clock.now())

    def purge_expired(self, now: datetime) -> int:
        """Turn what has expired into tombstones, some hundred at a time; forget users who have been gone for long."""
        moment, total = microseconds(now), 0
        while True:
            with self._connections.writing(create=False) as db:
                if db is None:
                    return total
                rows = db.execute(
                    "SELECT user, key FROM entries WHERE expires <= ? AND body IS NOT NULL LIMIT ?", (moment, _PAGE)
                ).fetchall()
                by_user: dict[str, list[str]] = {}
                for user, key in rows:
                    by_user.setdefault(user, []).append(key)
                for user, keys in by_user.items():
                    self._bury(db, user, keys)
                total += len(rows)
                if len(rows) < _PAGE:
                    _forget_users(db)
                    return total

    def _bury(self, db: sqlite3.Connection, user: str, keys: Sequence[str]) -> None:
        head = _head(db, user)
        for key in keys:
            head = _next(head)
            db.execute(
                "UPDATE entries SET number = ?, expires = NULL, body = NULL WHERE user = ? AND key = ?",
                (head, user, key),
            )
        _advance(db, user, head, graves=len(keys))
        self._trim(db, user)

    def _trim(self, db: sqlite3.Connection, user: str) -> None:
        """Drop the oldest tombstones once there may be a tenth too many, so that the counting pays."""
        graves = db.execute("SELECT graves FROM users WHERE user = ?", (user,)).fetchone()[0]
        if graves <= self._tombstones + self._tombstones // 10:
            return
        floor = db.execute(
            "SELECT number FROM entries WHERE user = ? AND body IS NULL ORDER BY number DESC LIMIT 1 OFFSET ?",
            (user, self._tombstones),
        ).fetchone()
        if floor is not None:
            db.execute("DELETE FROM entries WHERE user = ? AND body IS NULL AND number <= ?", (user, floor[0]))
        db.execute(
            "UPDATE users SET floor = max(floor, ?), graves ="
            " (SELECT count(*) FROM entries WHERE user = users.user AND body IS NULL) WHERE user = ?",
            (floor[0] if floor is not None else 0, user),
        )

    # --- reading ---------------------------------------------------------------------------------------------------

    def get(self, id: MemoryId) -> MemoryEntry | None:
        """Return the live entry.

        Raises:
            CorruptEntryError: It is there and cannot be read.
        """
        with self._connections.reading() as db:
            if db is None:
                return None
            row = db.execute(
                f"SELECT body FROM entries WHERE user = ? AND key = ? AND {_LIVE}",  # noqa: S608 - a constant
                (id.user_id, id.key, microseconds(self._clock.now())),
            ).fetchone()
        return None if row is None else stored_entry(id, row[0])

    def get_many(self, ids: Sequence[MemoryId]) -> Iterator[MemoryEntry]:
        """Yield the live entries among `ids`, read in one transaction; what cannot be read is logged and left out."""
        now = microseconds(self._clock.now())
        found: list[tuple[MemoryId, str]] = []
        with self._connections.reading() as db:
            if db is None:
                return
            statement = f"SELECT body FROM entries WHERE user = ? AND key = ? AND {_LIVE}"  # noqa: S608 - a constant
            for id in ids:
                row = db.execute(statement, (id.user_id, id.key, now)).fetchone()
                if row is not None:
                    found.append((id, row[0]))
        yield from readable_entries(found)

    def rows(self, user_id: str | None) -> Iterator[tuple[MemoryId, str]]:
        """Yield id and stored text of every live entry, of one user or all; a page at a time, locking nobody out."""
        after: tuple[str, str] = (user_id or "", "")
        condition = "(user, key) > (?, ?)" if user_id is None else "user = ? AND key > ?"
        statement = f"SELECT user, key, body FROM entries WHERE {condition} AND {_LIVE} ORDER BY user, key LIMIT ?"  # noqa: S608 - constants
        while True:
            with self._connections.reading() as db:
                if db is None:
                    return
                page = db.execute(statement, (*after, microseconds(self._clock.now()), _PAGE)).fetchall()
            for user, key, body in page:
                yield MemoryId(self.scope, user, key), body
            if len(page) < _PAGE:
                return
            after = (page[-1][0], page[-1][1])

    def users(self) -> list[str]:
        """Return the users who have live entries."""
        with self._connections.reading() as db:
            if db is None:
                return []
            rows = db.execute(
                f"SELECT user FROM users WHERE EXISTS (SELECT 1 FROM entries WHERE user = users.user AND {_LIVE})",  # noqa: S608 - a constant
                (microseconds(self._clock.now()),),
            ).fetchall()
        return [row[0] for row in rows]

    def damage(self) -> str | None:
        """Return what SQLite's check of the file finds, or None when it is sound."""
        with self._connections.reading() as db:
            if db is None:
                return None
            found = str(db.execute("PRAGMA quick_check(1)").fetchone()[0])
        return None if found == "ok" else found

    def close(self) -> None:
        """Close the connections."""
        self._connections.close()

    # --- the log ---------------------------------------------------------------------------------------------------

    def state(self, user_id: str) -> LogState:  # noqa: D102 - the protocol says it
        with self._connections.reading() as db:
            if db is None:
                return _NEVER_WRITTEN
            row = db.execute(
                "SELECT value, coalesce(floor, 0), coalesce(head, 0), (SELECT value FROM meta WHERE name = 'lost')"
                " FROM meta LEFT JOIN users ON user = ? WHERE name = 'epoch'",
                (user_id,),
            ).fetchone()
        if row is None:
            raise StorageUnavailableError(f"The memory file {self.path} has lost its identity; restore a backup of it.")
        return LogState(row[0], row[1], row[2], lost_ranges(row[3]))

    def page(self, user_id: str, after: int, limit: int) -> Sequence[Change]:  # noqa: D102 - the protocol says it
        with self._connections.reading() as db:
            if db is None:
                return ()
            rows = db.execute(
                "SELECT number, key, body FROM entries WHERE user = ? AND number > ? ORDER BY number LIMIT ?",
                (user_id, after, limit),
            ).fetchall()
        now = self._clock.now()
        return [_change(number, MemoryId(self.scope, user_id, key), body, now) for number, key, body in rows]


def _change(number: int, id: MemoryId, body: str | None, now: datetime) -> Change:
    """Return the change as followers see it: what is expired or cannot be read is not there."""
    if body is None:
        return Change(number, id, None)
    try:
        entry = stored_entry(id, body)
    except CorruptEntryError:
        return Change(number, id, None)
    return Change(number, id, None if entry.expired(now) else entry)


def _next(head: int) -> int:
    return max(head + 1, time.time_ns() // 1_000)


def _head(db: sqlite3.Connection, user: str) -> int:
    """Return the number that the user's next one must be above."""
    row = db.execute(
        "SELECT max(coalesce((SELECT head FROM users WHERE user = ?), 0),"
        " coalesce((SELECT value FROM meta WHERE name = 'least'), 0))",
        (user,),
    ).fetchone()
    return int(row[0])


def _advance(db: sqlite3.Connection, user: str, head: int, graves: int) -> None:
    db.execute(
        "INSERT INTO users(user, head, floor, graves)"
        " VALUES(?, ?, (SELECT value FROM meta WHERE name = 'forgotten'), ?)"
        " ON CONFLICT(user) DO UPDATE SET head = excluded.head, graves = graves + excluded.graves",
        (user, head, graves),
    )


def _forget_users(db: sqlite3.Connection) -> None:
    """Drop users, with their tombstones, who have had nothing alive for 90 days; sessions come and go.

    A follower from before that time reads such a user anew: it stands below `forgotten`, the floor of new users.
    """
    rows = db.execute(
        "SELECT user, head FROM users WHERE head < ? AND NOT EXISTS"
        " (SELECT 1 FROM entries WHERE user = users.user AND body IS NOT NULL)",
        (time.time_ns() // 1_000 - _FORGET_AFTER_US,),
    ).fetchall()
    for user, head in rows:
        db.execute("DELETE FROM entries WHERE user = ?", (user,))
        db.execute("DELETE FROM users WHERE user = ?", (user,))
        db.execute("UPDATE meta SET value = max(value, ?) WHERE name = 'forgotten'", (head,))
