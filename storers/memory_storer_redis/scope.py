"""One scope's memories on the server, with the numbered log of each user's changes."""

import secrets
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice

from memory_core.contracts import Clock
from memory_core.errors import CorruptEntryError
from memory_core.feed import Change, LogState
from memory_core.model import MemoryEntry, MemoryId
from memory_core.serial import readable_entries, stored_entry, to_json
from memory_storer_redis import scripts
from memory_storer_redis.keys import ScopeKeys
from memory_storer_redis.server import Script, Server

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_PAGE = 500
_BATCH = 100
"""How many entries one script stores: the server does nothing else meanwhile."""
_NEVER = float("inf")
_IDLE_US = 91 * 86_400 * 1_000_000
"""When to look whether the server has forgotten a user without memories: a day after it may (see `scripts`)."""
_NEVER_WRITTEN = LogState("", 0, 0)

PUT, REMOVE, PURGE, PAGE = map(Script.of, (scripts.PUT, scripts.REMOVE, scripts.PURGE, scripts.PAGE))


def microseconds(moment: datetime) -> int:
    """Return whole microseconds since 1970."""
    return (moment - _EPOCH) // timedelta(microseconds=1)


def name(member: bytes) -> str:
    """Return a key or user id as the server holds it; bytes that somebody else put there become U+FFFD."""
    return member.decode(errors="replace")


class RedisScope:
    """The memories of one scope; also the scope's `ScopeLog`."""

    def __init__(self, server: Server, scope: str, keys: ScopeKeys, clock: Clock, tombstones: int) -> None:
        self.scope = scope
        self._server = server
        self._keys = keys
        self._clock = clock
        self._tombstones = tombstones

    # --- writing ---------------------------------------------------------------------------------------------------

    def put(self, user_id: str, entries: Sequence[MemoryEntry]) -> None:
        """Store entries of one user, some at a time."""
        keys, rest = self._keys.of(user_id), iter(entries)
        while batch := list(islice(rest, _BATCH)):
            now, first_due = self._clock.now(), _NEVER
            arguments: list[str | int] = [secrets.token_hex(8), self._tombstones]
            for entry in batch:
                ttl_ms, due = _expiry(entry.expires_at, now)
                arguments += (entry.id.key, to_json(entry), ttl_ms, due)
                first_due = first_due if due == "" else min(first_due, float(due))
            self._server.register_and_run(
                self._keys.users, user_id, first_due, script=PUT, keys=keys.head, arguments=arguments
            )

    def remove(self, id: MemoryId) -> bool:
        """Turn the entry into a tombstone; return whether it was alive."""
        now = microseconds(self._clock.now())
        arguments = (secrets.token_hex(8), id.key, now, self._tombstones)
        live, nothing_left = self._server.run(REMOVE, self._keys.of(id.user_id).head, arguments)
        if live and nothing_left:
            self._look_again(id.user_id, now + _IDLE_US)
        return bool(live)

    def purge_expired(self, now: datetime) -> int:
        """Turn what has expired into tombstones; forget users of whom nothing is left.

        The registry says who is due, so that users without expired memories cost nothing.
        """
        moment, total = microseconds(now), 0
        while users := self._server.call("zrangebyscore", self._keys.users, "-inf", moment, start=0, num=_PAGE):
            for member in users:
                total += self._purge_user(name(member), moment)
        return total

    def _purge_user(self, user_id: str, moment: int) -> int:
        keys, total = self._keys.of(user_id), 0
        # First, so that what another writer notes in the same moment counts.
        self._server.call("zadd", self._keys.users, {user_id: _NEVER})
        while True:
            arguments = (secrets.token_hex(8), moment, self._tombstones, _PAGE)
            count, due = self._server.run(PURGE, keys.head, arguments)
            total += int(count)
            if count < _PAGE:
                break
        if due == b"gone":
            self._server.call("zrem", self._keys.users, user_id)
            if self._server.call("exists", keys.meta):  # it has written in the same moment
                self._look_again(user_id, moment)
        elif due == b"idle":
            self._look_again(user_id, moment + _IDLE_US)
        elif due != b"never":
            self._look_again(user_id, float(due))
        return total

    def _look_again(self, user_id: str, due: float) -> None:
        self._server.call("zadd", self._keys.users, {user_id: due}, lt=True)

    # --- reading ---------------------------------------------------------------------------------------------------

    def get(self, id: MemoryId) -> MemoryEntry | None:
        """Return the live entry.

        Raises:
            CorruptEntryError: It is there and cannot be read.
        """
        key = self._keys.of(id.user_id).entry(id.key)
        body = self._server.call("get", key)
        if body is None:
            return None
        entry = stored_entry(id, body)
        return None if entry.expired(self._clock.now()) else entry

    def get_many(self, user_id: str, ids: Sequence[MemoryId]) -> Iterator[MemoryEntry]:
        """Yield the live entries among `ids`, which are all of one user; what cannot be read is logged and left out."""
        keys, now, rest = self._keys.of(user_id), self._clock.now(), iter(ids)
        while batch := list(islice(rest, _PAGE)):
            names = [keys.entry(id.key) for id in batch]
            bodies = zip(batch, self._server.call("mget", names), strict=True)
            for entry in readable_entries((id, body) for id, body in bodies if body is not None):
                if not entry.expired(now):
                    yield entry

    def bodies(self, user_id: str | None) -> Iterator[tuple[MemoryId, bytes]]:
        """Yield id and stored text of every entry that the server still has, of one user or all, page by page."""
        for user in self._registered() if user_id is None else [user_id]:
            yield from self._bodies_of(user)

    def _bodies_of(self, user_id: str) -> Iterator[tuple[MemoryId, bytes]]:
        """Follow the log; what is rewritten meanwhile comes again at its end, and is yielded once."""
        keys, after = self._keys.of(user_id), 0
        seen: set[bytes] = set()
        while True:
            page = self._server.call(
                "zrangebyscore", keys.log, f"({after}", "+inf", start=0, num=_PAGE, withscores=True
            )
            members = [member for member, _ in page if member not in seen]
            seen.update(members)
            if members:
                names = [keys.entries.encode() + member for member in members]
                found = self._server.call("mget", names)
                for member, body in zip(members, found, strict=True):
                    if body is not None:
                        yield MemoryId(self.scope, user_id, name(member)), body
            if len(page) < _PAGE:
                return
            after = int(page[-1][1])

    def users(self) -> list[str]:
        """Return the users who have live entries."""
        now, found = microseconds(self._clock.now()), list[str]()
        registered = self._registered()
        while batch := list(islice(registered, _PAGE)):
            keys = map(self._keys.of, batch)
            counts = self._server.call_many(
                command for user in keys for command in (("zcard", user.log), ("zcount", user.due, "-inf", now))
            )
            found += [user for place, user in enumerate(batch) if counts[2 * place] > counts[2 * place + 1]]
        return found

    def _registered(self) -> Iterator[str]:
        """Yield the users who ever wrote here; the registry may be walked while it changes."""
        cursor, seen = 0, set[bytes]()
        while True:
            cursor, members = self._server.call("zscan", self._keys.users, cursor, count=_PAGE)
            for member, _ in members:
                if member not in seen:
                    seen.add(member)
                    yield name(member)
            if cursor == 0:
                return

    # --- the log ---------------------------------------------------------------------------------------------------

    def state(self, user_id: str) -> LogState:  # noqa: D102 - the protocol says it
        meta = self._keys.of(user_id).meta
        epoch, *numbers = self._server.call("hmget", meta, "epoch", "floor", "head", "lost_after", "lost_before")
        if epoch is None:
            return _NEVER_WRITTEN
        floor, head, lost_after, lost_before = (int(number or 0) for number in numbers)
        return LogState(name(epoch), floor, head, ((lost_after, lost_before),))

    def page(self, user_id: str, after: int, limit: int) -> Sequence[Change]:  # noqa: D102 - the protocol says it
        flat: list[bytes | None] = self._server.run(PAGE, self._keys.of(user_id).head, (after, limit))
        now = self._clock.now()
        return [
            self._change(user_id, numbered or b"", body, now)
            for numbered, body in zip(flat[::2], flat[1::2], strict=True)
        ]

    def _change(self, user_id: str, numbered: bytes, body: bytes | None, now: datetime) -> Change:
        """Return the change as followers see it: what is expired or cannot be read is not there."""
        digits, _, member = numbered.partition(b":")
        number = int(digits)
        id = MemoryId(self.scope, user_id, name(member))
        if body is None:
            return Change(number, id, None)
        try:
            entry = stored_entry(id, body)
        except CorruptEntryError:
            return Change(number, id, None)
        return Change(number, id, None if entry.expired(now) else entry)


def _expiry(expires_at: datetime | None, now: datetime) -> tuple[int | str, int | str]:
    """Return milliseconds to live from now on, rounded up, and the moment of expiry; two blanks for never.

    The server counts the rest of the life, so that its clock need not agree with ours; the entry's own time decides to
    the microsecond.
    """
    if expires_at is None:
        return "", ""
    return -((now - expires_at) // _MILLISECOND), microseconds(expires_at)
