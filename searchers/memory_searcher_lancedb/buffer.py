"""What a user's index has taken over from the store and not yet written to the table.

LanceDB makes several files a commit, so changes are collected here and written together. A search sees table and buffer
as one: what the buffer knows of an entry hides the table's row. A crash loses the buffer and nothing else, because the
table's cursor then stands before it and the store tells it again.
"""

from dataclasses import dataclass, field

import numpy as np

from memory_core.vectors import Vectors
from memory_searcher_lancedb.rows import Row


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A buffer at one moment, while it is being written."""

    base: str | None
    cursor: str | None
    cleared: bool
    generation: int
    rows: dict[str, Row]
    removed: frozenset[str]
    _stacked: list[tuple[list[str], Vectors]] = field(
        default_factory=list[tuple[list[str], Vectors]], compare=False, repr=False
    )

    def hides(self, uid: str) -> bool:
        """Whether the table's row of that id no longer counts."""
        return self.cleared or uid in self.rows or uid in self.removed

    def vectors(self) -> tuple[list[str], Vectors]:
        """Return the ids that have a vector, and their vectors as rows; put together once."""
        if not self._stacked:
            uids = [uid for uid, row in self.rows.items() if row.vector is not None]
            rows = [row.vector for row in self.rows.values() if row.vector is not None]
            self._stacked.append((uids, np.stack(rows) if rows else np.empty((0, 0), np.float32)))
        return self._stacked[0]


@dataclass(slots=True)
class Buffer:
    """One user's changes since `base`, the cursor that the table had when this process last looked.

    `cleared` says that nothing in the table counts for this user. `token` is the state of the table at which `base` was
    read.
    """

    base: str | None
    token: object
    cursor: str | None = None
    cleared: bool = False
    generation: int = 0
    rows: dict[str, Row] = field(default_factory=dict[str, Row])
    removed: set[str] = field(default_factory=set[str])
    _snapshot: Snapshot | None = None

    def __post_init__(self) -> None:
        self.cursor = self.base

    def __len__(self) -> int:
        return len(self.rows) + len(self.removed)

    @property
    def worth_writing(self) -> bool:
        """Whether the table would look different; a mere step of the cursor can wait."""
        return bool(self.rows or self.removed or (self.cleared and self.base is not None))

    def put(self, uid: str, row: Row) -> None:
        """Take over an entry."""
        self.rows[uid] = row
        self.removed.discard(uid)
        self._snapshot = None

    def remove(self, uid: str) -> Row | None:
        """Take over a removal; return what was not written yet."""
        gone = self.rows.pop(uid, None)
        if not self.cleared:
            self.removed.add(uid)
        self._snapshot = None
        return gone

    def clear(self) -> None:
        """Begin anew: nothing that was known counts."""
        self.rows, self.removed, self.cleared, self.cursor = {}, set(), True, None
        self.generation += 1
        self._snapshot = None

    def snapshot(self) -> Snapshot:
        """Return the state of this moment; the same object while nothing changes."""
        if self._snapshot is None or (self._snapshot.base, self._snapshot.cursor) != (self.base, self.cursor):
            self._snapshot = Snapshot(
                self.base, self.cursor, self.cleared, self.generation, dict(self.rows), frozenset(self.removed)
            )
        return self._snapshot

    def written(self, snapshot: Snapshot) -> None:
        """Forget what `snapshot` has put into the table; changes that came meanwhile stay."""
        self.base = snapshot.cursor
        self._snapshot = None
        if self.generation != snapshot.generation:
            return
        if snapshot.cleared:
            # While nothing in the table counted, a removal was not noted; what is written counts from now on.
            self.removed |= snapshot.rows.keys() - self.rows.keys()
        self.cleared = False
        for uid, row in snapshot.rows.items():
            if self.rows.get(uid) is row:
                del self.rows[uid]
        self.removed -= snapshot.removed
