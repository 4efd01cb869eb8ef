"""What keeps entries: the truth."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from memory_core.contracts.problem import Problem
from memory_core.errors import CorruptEntryError, InvalidEntryError, InvalidKeyError, UnknownScopeError
from memory_core.model import ChangeBatch, MemoryEntry, MemoryId

log = logging.getLogger(__name__)

FEED_PAGE = 1_000
"""How many changes a store hands over at a time."""

UNSTORABLE = (InvalidEntryError, InvalidKeyError, UnknownScopeError)
"""The errors of a store about one entry: it can take others."""


class MemoryStorer(ABC):
    """Keeps entries: the truth that every index follows.

    Writes are durable when they return and raise when they cannot be; nothing is ever reported as saved that is
    not. Reads never write an entry. An expired entry is absent from every read, before it is purged and after. What
    happens to a key in one scope never touches another scope's copy. All methods may be called from several threads,
    and in a child process that was forked while others were in them (see `memory_core.forking`).
    """

    @abstractmethod
    def put(self, entry: MemoryEntry) -> None:
        """Store `entry`, replacing what has the same id, atomically and durably.

        Raises:
            InvalidEntryError: This store cannot hold it, for example because it is too large.
            UnknownScopeError: The entry's scope is not one of this store's.
            StorageUnavailableError: It could not be written; what was there before is still there.
        """

    def put_many(self, entries: Iterable[MemoryEntry]) -> int:
        """Store many entries and return how many were given; each of them is atomic, all are durable on return.

        Not all as one: when it raises or the process is killed, each entry is there as a whole or not at all, and
        repeating the call is harmless. Of several with one id the last counts. Optional: a store overrides it where
        many at a time cost less than one at a time (one transaction, one round trip, one wait for the disk).

        Raises:
            InvalidEntryError, UnknownScopeError, StorageUnavailableError: As `put`, for one of them.
        """
        count = 0
        for entry in entries:
            self.put(entry)
            count += 1
        return count

    @abstractmethod
    def get(self, id: MemoryId) -> MemoryEntry | None:
        """Return the live entry with that id, or None.

        Raises:
            CorruptEntryError: It is there and cannot be read; `put` replaces it, `remove` removes it.
            StorageUnavailableError: The store could not be read.
        """

    def get_many(self, ids: Sequence[MemoryId]) -> dict[MemoryId, MemoryEntry]:
        """Return the live entries among `ids`; absent ones are left out, and unreadable ones too, with a log line.

        Raises:
            StorageUnavailableError: The store could not be read.
        """
        found: dict[MemoryId, MemoryEntry] = {}
        for id in ids:
            try:
                entry = self.get(id)
            except CorruptEntryError as error:
                log.warning("%s", error)
                continue
            if entry is not None:
                found[id] = entry
        return found

    @abstractmethod
    def remove(self, id: MemoryId) -> bool:
        """Remove that entry durably; return whether a live one was there.

        Raises:
            StorageUnavailableError: It could not be removed.
        """

    @abstractmethod
    def scan(self, user_id: str | None = None, scope: str | None = None) -> Iterator[MemoryEntry]:
        """Yield every live entry, or those of one user or scope. The order is not defined.

        What cannot be read is logged and left out.
        """

    def users(self) -> list[str]:
        """Return the ids of all users who have live entries, sorted."""
        return sorted({entry.id.user_id for entry in self.scan()})

    @abstractmethod
    def changes(self, since: str | None, user_id: str, limit: int = FEED_PAGE) -> ChangeBatch:
        """Return what happened to one user's entries after the cursor `since`, oldest first, at most about `limit`.

        `since=None`, a cursor of another store, and one that is too old give a batch with `complete=True`. A key
        that changed twice is named once, with its last state. Expired entries are never upserts. Writes of other
        processes and machines are included. Repeating a call with the same cursor is harmless.
        """

    @abstractmethod
    def purge_expired(self, now: datetime) -> int:
        """Delete what has expired at `now` and return how many; followers see removals."""

    def problems(self) -> list[Problem]:
        """Say what is wrong with the store (unreadable files, a server that may lose data); for `doctor`."""
        return []

    def close(self) -> None:
        """Release files and connections. Closing twice is harmless."""
        return
