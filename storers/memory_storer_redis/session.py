"""Sessions on a Redis server: several instances share a conversation.

```
PREFIX:{session:ID}:messages   list: one line of JSON a message, in their order
PREFIX:{session:ID}:ids        set: the ids of these messages
PREFIX:{session:ID}:meta       hash: epoch (another one after each rewrite), state (snapshot and pending mark)
PREFIX:{session:ID}:damaged    list: lines that could not be read, set aside by a rewrite
```
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from threading import RLock
from typing import Any

from memory_core.contracts import Problem
from memory_core.errors import CorruptEntryError, StorageUnavailableError
from memory_core.sessions.messages import Message, message_from_json, new_id
from memory_core.sessions.session import (
    AgentSession,
    Change,
    SessionState,
    state_from_json,
    state_to_json,
    storable,
    stored_form,
    unseen,
)
from memory_storer_redis import session_scripts
from memory_storer_redis.keys import escape
from memory_storer_redis.server import Script, Server

log = logging.getLogger(__name__)

MAX_ATTEMPTS = 100
_APPEND, _READ = Script.of(session_scripts.APPEND), Script.of(session_scripts.READ)
_REWRITE, _SET_STATE = Script.of(session_scripts.REWRITE), Script.of(session_scripts.SET_STATE)


class RedisAgentSession(AgentSession):
    """A session on a server, with a cache in memory that reads only what is new.

    A line that cannot be read is reported and skipped; a snapshot of another version counts as none and is set aside by
    the next one.

    Args:
        session_id: Any storable name.
        server: The connection; several sessions share one, and none of them closes it.
        prefix: What all keys start with.
        ttl_s: The session is gone this long after its last write; None keeps it.

    Raises:
        InvalidKeyError: The session id cannot be used.

    """

    def __init__(
        self, session_id: str, server: Server, *, prefix: str = "memory-core", ttl_s: int | None = None
    ) -> None:
        super().__init__(session_id)
        base = f"{prefix}:{{session:{escape(self.session_id)}}}"
        self._keys = tuple(f"{base}:{part}" for part in ("messages", "ids", "meta", "damaged"))
        self._server = server
        self._ttl = "" if ttl_s is None else str(ttl_s)
        self._lock = RLock()
        self._epoch, self._count, self._last = b"", 0, b""
        self._messages: dict[str, Message] = {}
        self._damaged: list[bytes] = []

    def messages(self) -> list[Message]:  # noqa: D102 - the contract says it
        with self._lock:
            self._refresh()
            return list(self._messages.values())

    def append(self, messages: Iterable[Message]) -> int:  # noqa: D102 - the contract says it
        given = unseen(storable(messages), ())
        if not given:
            return 0
        return int(self._server.run(_APPEND, self._keys, [new_id(), self._ttl, *_pairs(given)]))

    def rewrite(self, change: Change) -> list[Message]:  # noqa: D102 - the contract says it
        for _ in range(MAX_ATTEMPTS):
            with self._lock:
                self._refresh()
                before = list(self._messages.values())
                place = [self._epoch, self._count, self._last]
                damaged = list(self._damaged)
            changed = unseen(storable(change(list(before))), ())
            if changed == before:
                return before
            arguments = [*place, new_id(), self._ttl, len(damaged), *damaged, *_pairs(changed)]
            if self._server.run(_REWRITE, self._keys, arguments):
                if damaged:
                    log.warning("%d unreadable lines of a session were set aside", len(damaged))
                return self.messages()
        raise self._busy()

    def state(self) -> SessionState:  # noqa: D102 - the contract says it
        try:
            return self._parsed(self._stored_state())
        except CorruptEntryError as error:
            log.warning("%s: %s", self._keys[2], error)
            return SessionState()

    def change_state(self, change: Callable[[SessionState], SessionState]) -> SessionState:  # noqa: D102 - the contract says it
        for _ in range(MAX_ATTEMPTS):
            stored, unreadable = self._stored_state(), False
            try:
                state = self._parsed(stored)
            except CorruptEntryError:
                state, unreadable = SessionState(), True
            changed = state_to_json(change(state))
            if self._server.run(_SET_STATE, self._keys, [stored, changed, self._ttl, int(unreadable)]):
                return state_from_json(changed)
        raise self._busy()

    def clear(self) -> None:  # noqa: D102 - the contract says it
        self._server.call("delete", *self._keys)

    def problems(self) -> list[Problem]:  # noqa: D102 - the contract says it
        with self._lock:
            self._refresh()
            found = [
                Problem(
                    "warning",
                    "session-corrupt-line",
                    "A stored message cannot be read and is skipped.",
                    f"{self._server.where} {self._keys[0]}",
                    "The next compaction sets it aside; the other messages are in use.",
                )
                for _ in self._damaged
            ]
        try:
            self._parsed(self._stored_state())
        except CorruptEntryError as error:
            advice = "It counts as absent and is set aside, not overwritten, by the next snapshot."
            where = f"{self._server.where} {self._keys[2]}"
            found.append(Problem("warning", "session-snapshot", str(error), where, advice))
        return found

    def _refresh(self) -> None:
        epoch, over, lines = self._server.run(_READ, self._keys, [self._epoch, self._count, self._last])
        if over:
            self._messages, self._damaged, self._count, self._last = {}, [], 0, b""
        self._epoch = epoch
        for line in lines:
            try:
                message = message_from_json(line)
            except CorruptEntryError as error:
                log.warning("%s: %s The line is skipped.", self._keys[0], error)
                self._damaged.append(line)
            else:
                self._messages[message.id] = message
        if lines:
            self._count, self._last = self._count + len(lines), lines[-1]

    def _stored_state(self) -> bytes:
        return self._server.call("hget", self._keys[2], "state") or b""

    @staticmethod
    def _parsed(stored: bytes) -> SessionState:
        return state_from_json(stored) if stored else SessionState()

    def _busy(self) -> StorageUnavailableError:
        return StorageUnavailableError(
            f"The session on the Redis server at {self._server.where} was changed by others {MAX_ATTEMPTS} times in a "
            "row while it was to be rewritten; try again."
        )


class RedisSessions:
    """Gives a `RedisAgentSession` for any id; `close` gives the connection back."""

    def __init__(self, server: Server, *, prefix: str = "memory-core", ttl_s: int | None = None) -> None:
        self._server = server
        self._prefix = prefix
        self._ttl_s = ttl_s

    def __call__(self, session_id: str, /) -> RedisAgentSession:
        """Return the session with that id, new or restored."""
        return RedisAgentSession(session_id, self._server, prefix=self._prefix, ttl_s=self._ttl_s)

    def close(self) -> None:
        """Close the connection, unless others use it too."""
        self._server.close()


def _pairs(messages: Sequence[Message]) -> list[Any]:
    return [
        item for message in messages for item in (message.id.encode(errors="surrogatepass"), stored_form(message)[0])
    ]
