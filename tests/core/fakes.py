"""Stores and indexes that fail on purpose, and a solution over real ones."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from memory_core.contracts import Clock, MemorySearcher, MemoryStorer
from memory_core.errors import StorageUnavailableError
from memory_core.model import ChangeBatch, MemoryEntry, MemoryId, SearchHit
from memory_core.solution import StandardSolution
from memory_core.testing import FakeClock
from memory_searcher_fulltext.searcher import FulltextSearcher
from memory_storer_markdown.storer import MarkdownStorer

SCOPES = ("user", "workspace")


class FailingStorer(MarkdownStorer):
    """A real store whose operations fail where `fails(operation, id)` gives an error."""

    def __init__(self, root: Path, clock: Clock) -> None:
        super().__init__({scope: root / scope for scope in SCOPES}, clock=clock, fsync=False)
        self.fails: Callable[[str, Any], Exception | None] = lambda operation, id: None
        self.calls: list[str] = []

    def _check(self, operation: str, id: Any = None) -> None:
        self.calls.append(operation)
        error = self.fails(operation, id)
        if error is not None:
            raise error

    def put(self, entry: MemoryEntry) -> None:
        self._check("put", entry.id)
        super().put(entry)

    def put_many(self, entries: Iterable[MemoryEntry]) -> int:
        self._check("put_many")
        return super().put_many(entries)

    def get(self, id: MemoryId) -> MemoryEntry | None:
        self._check("get", id)
        return super().get(id)

    def remove(self, id: MemoryId) -> bool:
        self._check("remove", id)
        return super().remove(id)

    def changes(self, since: str | None, user_id: str, limit: int = 1000) -> ChangeBatch:
        self._check("changes", user_id)
        return super().changes(since, user_id, limit)

    def purge_expired(self, now: Any) -> int:
        self._check("purge")
        return super().purge_expired(now)


def down(*operations: str) -> Callable[[str, Any], Exception | None]:
    """Return a rule: these operations fail as a store that cannot be reached does."""
    return lambda operation, id: StorageUnavailableError(f"the {operation} failed") if operation in operations else None


def make_solution(
    root: Path, clock: FakeClock | None = None, searcher: MemorySearcher | None = None, **more: Any
) -> tuple[StandardSolution, FailingStorer, FakeClock]:
    """Return a solution over real files, its store, and its clock."""
    clock = clock or FakeClock()
    storer = FailingStorer(root, clock)
    return StandardSolution(storer, searcher or FulltextSearcher(), SCOPES, clock=clock, **more), storer, clock


def solution_over(storer: MemoryStorer, clock: FakeClock) -> StandardSolution:
    """Return another solution over the same store, as another process would open it."""
    return StandardSolution(storer, FulltextSearcher(), SCOPES, clock=clock)


Parts = tuple[StandardSolution, FailingStorer, FakeClock]


def keys(found: list[SearchHit] | list[MemoryEntry]) -> list[str]:
    return [(item.entry if isinstance(item, SearchHit) else item).id.key for item in found]
