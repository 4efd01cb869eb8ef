"""Writes the buffers into the table, together and in turn with other processes.

A flush is optimistic: it writes a user's buffer only when the table's cursor is still the one on which the buffer was
built. When another process was faster, the buffer stays readable, and the next `refreshed` begins anew from the
table's cursor: the store tells the rest again, and the vectors come from the cache.
"""

import logging
from collections.abc import Iterable
from threading import RLock, Thread
from time import monotonic

from memory_core.cached_embedder import CachedEmbedder
from memory_core.contracts import Embedder
from memory_core.errors import IndexUnavailableError
from memory_core.model import MemoryEntry
from memory_core.vectors import embedding_text
from memory_searcher_lancedb import rows as layout
from memory_searcher_lancedb.buffer import Buffer, Snapshot
from memory_searcher_lancedb.store import LanceTable

log = logging.getLogger(__name__)

MAX_BUFFERED = 1_024
EXACT_ROWS = 20_000
"""A user with fewer entries than this is always searched exactly, also beside an approximate index."""
_CHUNK = 500
_USERS_KEPT = 4_096
_PATIENCE_S = 1.0
_PAUSE_S = 5.0
"""A write that is only due waits this long for another process, and then this long until it tries again."""
_UNKNOWN = object()
"""The token of a buffer whose base must be looked up again."""


class Writer:
    """Owns the buffers of all users; `lock` guards them and is never held during a write."""

    def __init__(
        self, table: LanceTable, embedder: Embedder, buffers: dict[str, Buffer], lock: RLock, buffer_rows: int
    ) -> None:
        self._table = table
        self._embedder = embedder
        self._buffers = buffers
        self._lock = lock
        self._buffer_rows = buffer_rows
        self._flushing = RLock()
        self._counts: dict[str, int] = {}
        self._table_rows = 0
        self._builder: Thread | None = None
        self._next_try = 0.0

    # --- reading ---------------------------------------------------------------------------------------------------

    def buffer(self, user_id: str) -> Buffer:
        """Return a user's buffer as it is; the caller holds the lock."""
        return self._buffers.get(user_id) or self.refreshed(user_id)

    def continued(self, user_id: str, followed: Buffer | None) -> Buffer:
        """Return the buffer that a follower was given with its cursor, to take over what comes after it.

        Whoever asks for the cursor meanwhile may have begun the user anew from the table's cursor, which can lie before
        the follower's: the changes between the two would be lost. What was begun anew is left to the next `refreshed`.
        The caller holds the lock.
        """
        known = self.buffer(user_id)
        if followed is None or followed is known:
            return known
        followed.token = _UNKNOWN
        self._buffers[user_id] = followed
        return followed

    def refreshed(self, user_id: str) -> Buffer:
        """Return a user's buffer, begun anew when another process has written that user; the caller holds the lock.

        Raises:
            EmbeddingMismatchError: The table was built with another model.
        """
        token = self._table.token()
        known = self._buffers.get(user_id)
        if known is not None and known.token == token and self._table.broken is None:
            return known
        base = self._stored_cursor(user_id)
        if known is None or known.base != base:
            if known is None and len(self._buffers) >= _USERS_KEPT:
                for user in [user for user, buffer in self._buffers.items() if not buffer.worth_writing]:
                    del self._buffers[user]
            known = self._buffers[user_id] = Buffer(base, token)
            self._counts.pop(user_id, None)
        if self._table.broken is not None:
            known.cleared = True
        known.token = token
        return known

    def row_count(self, user_id: str) -> int:
        """Return about how many rows the table has of that user."""
        count = self._counts.get(user_id)
        if count is None:
            count = self._counts[user_id] = self._table.count(layout.owned(user_id))
        return count

    def few_rows(self, user_id: str) -> bool:
        """Whether that user is best searched exactly."""
        return not self._table.indexed or self.row_count(user_id) < EXACT_ROWS

    def pending(self) -> int:
        """Return how many changes wait to be written."""
        with self._lock:
            return sum(map(len, self._buffers.values()))

    def _stored_cursor(self, user_id: str) -> str | None:
        try:
            self._table.check(self._embedder.model_id)
            found = self._table.rows(layout.among([layout.cursor_uid(user_id)]), ["entry"])
        except IndexUnavailableError as error:
            if self._table.broken is None:
                raise
            log.warning("%s", error)
            return None
        return found["entry"][0].as_py() if found is not None and len(found) else None

    # --- writing ---------------------------------------------------------------------------------------------------

    def flush_if_due(self) -> None:
        """Write when enough changes are collected: more for a larger table, so that its files stay few."""
        limit = max(self._buffer_rows, min(MAX_BUFFERED, self._table_rows // 32))
        building = self._builder is not None and self._builder.is_alive()
        if self.pending() >= limit and not building and monotonic() >= self._next_try:
            self._flush(_PATIENCE_S)

    def flush(self) -> None:
        """Write every buffer whose user no other process has written meanwhile, and wait for an index being built.

        Raises:
            IndexUnavailableError: The table could not be written; everything stays in memory.
        """
        self._wait_for_builder()
        self._flush(None)
        self._wait_for_builder()

    def _flush(self, patience_s: float | None) -> None:
        with self._flushing:
            with self._lock:
                due = {user: buffer.snapshot() for user, buffer in self._buffers.items() if buffer.worth_writing}
                held = {user: self._buffers[user] for user in due}
            if not due:
                return
            with self._table.locked(patience_s) as turn:
                if not turn:
                    self._next_try = monotonic() + _PAUSE_S
                    log.info("Another process is writing the vector index; %d users' changes wait", len(due))
                    return
                rebuilt = self._table.broken is not None
                before = self._table.token()
                index_due = False
                current = {user: snapshot for user, snapshot in due.items() if self._is_current(user, snapshot)}
                if current:
                    self._write(current)
                    index_due = self._table.maintain()
                    self._table_rows = self._table.read(lambda table: int(table.count_rows())) or 0
                after = self._table.token()
            with self._lock:
                for user, snapshot in current.items():
                    held[user].written(snapshot)
                    self._counts.pop(user, None)
                for buffer in self._buffers.values():
                    if buffer.token == before and not rebuilt:
                        buffer.token = after

            if index_due and self._builder is None:
                self._builder = Thread(target=self._build, name="memory-core-vector-index")
                self._builder.start()

    def _build(self) -> None:
        with self._table.locked() as turn:
            if turn:
                self._table.build_index()

    def _wait_for_builder(self) -> None:
        if self._builder is not None:
            self._builder.join()
            self._builder = None

    def _is_current(self, user_id: str, snapshot: Snapshot) -> bool:
        stored = self._stored_cursor(user_id) if self._table.broken is None else None
        if self._table.broken is not None:  # writing makes it anew: only what is the whole may be written with a cursor
            return snapshot.cleared or snapshot.base is None
        return stored == snapshot.base

    def _write(self, due: dict[str, Snapshot]) -> None:
        doomed = [
            layout.owned(user) for user, snapshot in due.items() if snapshot.cleared and snapshot.base is not None
        ]
        removed = [uid for snapshot in due.values() for uid in snapshot.removed]
        for start in range(0, len(removed), _CHUNK):
            condition = layout.among(removed[start : start + _CHUNK])
            self._forget_rows(condition)
            doomed.append(condition)
        rows = [row for snapshot in due.values() for row in snapshot.rows.values()]
        cursors = [(user, snapshot.cursor) for user, snapshot in due.items() if snapshot.cursor is not None]
        if not rows and self._table.token() is None:
            return
        schema = layout.schema(self._embedder.model_id, self._embedder.dim)
        self._table.commit(doomed, layout.to_arrow(rows, cursors, schema), schema)

    def _forget_rows(self, condition: object) -> None:
        if isinstance(self._embedder, CachedEmbedder) and self._table.broken is None:
            found = self._table.rows(condition, ["entry"])
            if found is not None and len(found):
                self.forget_vectors(map(layout.entry_of, found["entry"].to_pylist()))

    def forget_vectors(self, gone: Iterable[MemoryEntry]) -> None:
        """Take the vectors of removed memories out of the cache: a vector can betray its text."""
        if isinstance(self._embedder, CachedEmbedder):
            self._embedder.cache.discard([embedding_text(entry) for entry in gone])

    def clear(self, user_id: str | None) -> None:
        """Delete everything, or everything of one user, at once.

        Raises:
            IndexUnavailableError: Another process keeps writing, or the table cannot be written.
        """
        self._wait_for_builder()
        with self._flushing, self._table.locked() as turn:
            if not turn:
                raise IndexUnavailableError(
                    "The vector index was not cleared: another process is writing it. Try again when it has finished."
                )
            if user_id is None:
                self._table.drop()
            elif self._table.token() is not None and self._table.broken is None:
                # The cursor goes first: after a crash between the two, all is told again.
                self._table.commit([layout.among([layout.cursor_uid(user_id)]), layout.owned(user_id)], None, None)
            with self._lock:
                if user_id is None:
                    self._buffers.clear()
                    self._counts.clear()
                    self._table_rows = 0
                else:
                    self._buffers[user_id] = Buffer(None, self._table.token())
                    self._counts.pop(user_id, None)
