"""What a searcher can say of a query before its entries are read: which they are, and how well they fit."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

from memory_core.model import MemoryEntry, MemoryId, SearchHit


@dataclass(frozen=True, slots=True)
class Candidates:
    """The answer to a query as ids and scores, best first. Reading an entry may cost, so it is done for those wanted.

    `entry` gives one of them, or None when it has gone since.
    """

    ranked: Sequence[tuple[MemoryId, float]]
    entry: Callable[[MemoryId], MemoryEntry | None]

    @classmethod
    def of(cls, hits: Sequence[SearchHit]) -> Self:
        """Return hits, which hold their entries, as candidates."""
        entries = {hit.entry.id: hit.entry for hit in hits}
        return cls([(hit.entry.id, hit.score) for hit in hits], entries.get)
