"""A follower of a store, as every index is one."""

from memory_core.contracts import MemoryStorer
from memory_core.model import ChangeBatch, MemoryEntry, MemoryId


class Follower:
    """A model of an index: what the change feed says, and nothing else."""

    def __init__(self, storer: MemoryStorer, user_id: str = "shared", page: int = 7) -> None:
        self.storer, self.user_id, self.page = storer, user_id, page
        self.cursor: str | None = None
        self.entries: dict[MemoryId, MemoryEntry] = {}
        self.completes = 0

    def follow(self) -> list[ChangeBatch]:
        """Read the feed to its end."""
        batches: list[ChangeBatch] = []
        for _ in range(100_000):
            batch = self.storer.changes(self.cursor, self.user_id, self.page)
            batches.append(batch)
            if batch.complete:
                self.completes += 1
                self.entries.clear()
            for id in batch.removals:
                self.entries.pop(id, None)
            self.entries.update((entry.id, entry) for entry in batch.upserts)
            self.cursor = batch.cursor
            if not batch.more:
                return batches
        raise AssertionError("the change feed never ends")
