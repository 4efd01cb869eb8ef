"""What a searcher can say of a query before its entries are read: which they are, and how well they fit."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from memory_core.model import MemoryEntry, MemoryId, SearchHit


@dataclass(frozen=True, slots=True)
class Candidates:
    """The answer to a query as ids and scores, best first. Reading entries may cost, so it is done for those wanted.

    `entries` gives those of the ids that are still there; `in_memory` says that this costs next to nothing.
    """

    ranked: Sequence[tuple[MemoryId, float]]
    entries: Callable[[Sequence[MemoryId]], Mapping[MemoryId, MemoryEntry]]
    in_memory: bool = False

    @classmethod
    def of(cls, hits: Sequence[SearchHit]) -> Self:
        """Return hits, which hold their entries, as candidates."""
        return cls.held([(hit.entry, hit.score) for hit in hits])

    @classmethod
    def held(cls, found: Sequence[tuple[MemoryEntry, float]]) -> Self:
        """Return entries that are in memory, and their scores, as candidates."""
        known = {entry.id: entry for entry, _ in found}
        return cls(
            [(entry.id, score) for entry, score in found],
            lambda ids: {id: entry for id in ids if (entry := known.get(id)) is not None},
            in_memory=True,
        )
