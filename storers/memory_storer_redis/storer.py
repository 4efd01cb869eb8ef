"""The storer over the scopes of one server."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice

from memory_core.clock import SystemClock
from memory_core.contracts import FEED_PAGE, Clock, MemoryStorer, Problem
from memory_core.errors import CorruptEntryError, StorageUnavailableError, UnknownScopeError, did_you_mean
from memory_core.feed import merge_changes
from memory_core.model import ChangeBatch, MemoryEntry, MemoryId, clean_name
from memory_core.serial import readable_entries, stored_entry
from memory_storer_redis.health import server_problems
from memory_storer_redis.keys import ScopeKeys
from memory_storer_redis.scope import RedisScope
from memory_storer_redis.server import Server

_BATCH = 500


class RedisStorer(MemoryStorer):
    """Memories on a Redis server or cluster: what one machine writes, all others read.

    A write is durable as the server is: see `problems` and `docs/stores.md`.

    Args:
        server: Where; closed with the storer.
        scopes: Scope → namespace, low to high priority.
        prefix: What all keys start with; without white space and braces.
        clock: Decides what has expired, beside the server's own expiry.
        tombstones: How many removals are remembered for each user's followers.
    """

    def __init__(
        self,
        server: Server,
        scopes: Mapping[str, str],
        *,
        prefix: str = "memory-core",
        clock: Clock | None = None,
        tombstones: int = 10_000,
    ) -> None:
        self._server = server
        self._clock = clock or SystemClock()
        self._scopes = {
            scope: RedisScope(server, scope, ScopeKeys(prefix, scope, namespace), self._clock, tombstones)
            for scope, namespace in scopes.items()
        }
        self._closed = False

    def put(self, entry: MemoryEntry) -> None:  # noqa: D102 - the contract says it
        self._scope(entry.id.scope).put(entry.id.user_id, [entry])

    def put_many(self, entries: Iterable[MemoryEntry]) -> int:
        """Store many entries, some hundred in one round trip; see the contract."""
        count, rest = 0, iter(entries)
        while batch := list(islice(rest, _BATCH)):
            groups: dict[tuple[str, str], list[MemoryEntry]] = {}
            for entry in batch:
                self._scope(entry.id.scope)
                groups.setdefault((entry.id.scope, entry.id.user_id), []).append(entry)
            for (scope, user_id), some in groups.items():
                self._scopes[scope].put(user_id, some)
            count += len(batch)
        return count

    def get(self, id: MemoryId) -> MemoryEntry | None:  # noqa: D102 - the contract says it
        return self._scope(id.scope).get(id)

    def get_many(self, ids: Sequence[MemoryId]) -> dict[MemoryId, MemoryEntry]:  # noqa: D102 - the contract says it
        groups: dict[tuple[str, str], list[MemoryId]] = {}
        for id in ids:
            self._scope(id.scope)
            groups.setdefault((id.scope, id.user_id), []).append(id)
        return {
            entry.id: entry
            for (scope, user_id), some in groups.items()
            for entry in self._scopes[scope].get_many(user_id, some)
        }

    def remove(self, id: MemoryId) -> bool:  # noqa: D102 - the contract says it
        return self._scope(id.scope).remove(id)

    def scan(self, user_id: str | None = None, scope: str | None = None) -> Iterator[MemoryEntry]:
        """Yield live entries; what cannot be read is logged and left out. See the contract."""
        user_id = None if user_id is None else clean_name(user_id, "user id")
        return self._scan(user_id, list(self._scopes.values()) if scope is None else [self._scope(scope)])

    def _scan(self, user_id: str | None, scopes: Sequence[RedisScope]) -> Iterator[MemoryEntry]:
        for scope in scopes:
            for entry in readable_entries(scope.bodies(user_id)):
                if not entry.expired(self._clock.now()):
                    yield entry

    def users(self) -> list[str]:  # noqa: D102 - the contract says it
        return sorted({user for scope in self._scopes.values() for user in scope.users()})

    def changes(self, since: str | None, user_id: str, limit: int = FEED_PAGE) -> ChangeBatch:  # noqa: D102
        return merge_changes(self._scopes, since, clean_name(user_id, "user id"), limit)

    def purge_expired(self, now: datetime) -> int:  # noqa: D102 - the contract says it
        return sum(scope.purge_expired(now) for scope in self._scopes.values())

    def problems(self) -> list[Problem]:
        """Say whether the server can be reached, may drop or lose memories, or holds some that cannot be read."""
        try:
            return [*server_problems(self._server), *self._unreadable()]
        except StorageUnavailableError as error:
            return [Problem("error", "redis-unavailable", str(error), self._server.where)]

    def _unreadable(self) -> Iterator[Problem]:
        for scope in self._scopes.values():
            for id, body in scope.bodies(None):
                try:
                    stored_entry(id, body)
                except CorruptEntryError as error:
                    advice = "Store this memory again, or remove it."
                    yield Problem("error", "redis-unreadable-entry", str(error), self._server.where, advice)

    def close(self) -> None:  # noqa: D102 - the contract says it
        if not self._closed:
            self._closed = True
            self._server.close()

    def _scope(self, name: str) -> RedisScope:
        scope = self._scopes.get(name)
        if scope is None:
            raise UnknownScopeError(
                f"There is no scope {name!r}.{did_you_mean(name, self._scopes)} There are: {', '.join(self._scopes)}."
            )
        return scope
