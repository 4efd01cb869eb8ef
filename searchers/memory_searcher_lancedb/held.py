"""One user's rows as one state of the table has them, in memory: search and listings without asking the table.

A flat search of a table reads every vector again, some 20 ms for 10,000 entries; the same product in memory takes one.
A listing reads and sorts every row.
So a user with few entries is held, from the second search of an unchanged table on; any commit, also another process',
makes it a thing of the past.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from memory_core.model import MemoryEntry, SearchQuery
from memory_core.vectors import Vectors, descending
from memory_searcher_lancedb import rows as layout
from memory_searcher_lancedb.store import LanceTable

COLUMNS = (*layout.LISTED, "expires", "entry", "vector")
_READ_KEPT = 1_024
_USERS_ROWS = 4
"""So many times the rows that one user may have are held of all users together."""


@dataclass(frozen=True, slots=True)
class HeldRows:
    """All rows in the order of a listing; arrays and lists by place. A row without a vector has zeros."""

    token: object
    uids: Sequence[str]
    vectors: Vectors
    embedded: NDArray[np.bool_]
    places: dict[str, int]
    scopes: NDArray[np.str_]
    importance: NDArray[np.int64]
    expires: NDArray[np.int64]
    texts: Sequence[str]
    entries: dict[int, MemoryEntry]
    """By place, those that were hits already."""

    def nearest(self, query: SearchQuery, vector: Vectors) -> Iterator[tuple[str, MemoryEntry, float]]:
        """Yield uid, entry and cosine of the admitted rows, nearest first."""
        if not self.embedded.any():
            return
        admitted = np.flatnonzero(self._admitted(query.now, query.scopes, query.min_importance) & self.embedded)
        cosines = self.vectors @ vector
        for at in descending(cosines[admitted]):
            place = int(admitted[at])
            yield self.uids[place], self._entry(place), float(cosines[place])

    def listed(
        self, now: datetime | None, scopes: Sequence[str] | None, least: int | None
    ) -> Iterator[tuple[str, MemoryEntry]]:
        """Yield uid and entry of the admitted rows, in the order of a listing."""
        places: list[int] = np.flatnonzero(self._admitted(now, scopes, least)).tolist()
        for place in places:
            yield self.uids[place], self._entry(place)

    def counted(self, now: datetime | None) -> Iterator[tuple[str, int]]:
        """Yield uid and importance of the rows that have not expired."""
        places: list[int] = np.flatnonzero(self._admitted(now, None, None)).tolist()
        importance: list[int] = self.importance.tolist()
        return ((self.uids[place], importance[place]) for place in places)

    def _admitted(self, now: datetime | None, scopes: Sequence[str] | None, least: int | None) -> NDArray[np.bool_]:
        mask = np.ones(len(self.uids), dtype=np.bool_) if now is None else self.expires > layout.micros(now)
        if scopes is not None:
            mask &= np.isin(self.scopes, list(scopes))
        if least is not None:
            mask &= self.importance >= least
        return mask

    def _entry(self, place: int) -> MemoryEntry:
        entry = self.entries.get(place)
        if entry is None:
            if len(self.entries) >= _READ_KEPT:
                self.entries.clear()
            entry = self.entries[place] = layout.entry_of(self.texts[place])
        return entry


class Held:
    """Holds the users that were searched last, up to `most` rows each; safe for several threads.

    `row_count` says about how many rows the table has of a user.
    """

    def __init__(self, table: LanceTable, most: int, row_count: Callable[[str], int]) -> None:
        self._table = table
        self._most = most
        self._row_count = row_count
        self._lock = Lock()
        self._users: OrderedDict[str, HeldRows] = OrderedDict()
        self._asked: dict[str, object] = {}

    def of(self, user_id: str) -> HeldRows | None:
        """Return the user's rows as the table has them now; None when the table itself must be asked."""
        if not self._most or not self._table.local or self._row_count(user_id) > self._most:
            return None  # not even counted where nothing is ever held: counting may be a round trip
        token = self._table.token()
        if token is None:
            return None
        with self._lock:
            known = self._users.get(user_id)
            if known is not None and known.token == token:
                self._users.move_to_end(user_id)
                return known
            if self._asked.get(user_id) != token:
                if len(self._asked) > 1_000:
                    self._asked.clear()
                self._asked[user_id] = token
                return None
        rows = self._read(user_id, token)
        if rows is None or self._table.token() != token:
            return None
        with self._lock:
            self._users[user_id] = rows
            self._users.move_to_end(user_id)
            while sum(len(held.uids) for held in self._users.values()) > self._most * _USERS_ROWS:
                self._users.popitem(last=False)
        return rows

    def _read(self, user_id: str, token: object) -> HeldRows | None:
        table = self._table.rows(layout.owned(user_id), COLUMNS)
        if table is None:
            return None
        table = table.sort_by(layout.LISTING_ORDER)
        uids: list[str] = table["uid"].to_pylist()
        embedded = table["vector"].is_valid().to_numpy().astype(np.bool_)
        known = layout.vectors_of(table)[1]
        vectors: Vectors = np.zeros((len(uids), known.shape[1]), dtype=np.float32)
        vectors[embedded] = known
        return HeldRows(
            token,
            uids,
            vectors,
            embedded,
            {uid: place for place, uid in enumerate(uids)},
            np.array(table["scope"].to_pylist(), dtype=np.str_),
            table["importance"].to_numpy().astype(np.int64),
            table["expires"].to_numpy().astype(np.int64),
            table["entry"].to_pylist(),
            {},
        )

    def forget(self, user_id: str | None = None) -> None:
        """Free what is held of one user, or of all."""
        with self._lock:
            if user_id is None:
                self._users.clear()
                self._asked.clear()
            else:
                self._users.pop(user_id, None)
                self._asked.pop(user_id, None)
