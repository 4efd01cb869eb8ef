"""What the tests of stores share: entries, a clock that stands still, a follower."""

import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from memory_core.contracts import MemoryStorer
from memory_core.model import MemoryEntry, MemoryId
from memory_storer_redis import RedisOptions

ROOT = Path(__file__).resolve().parents[2]
START = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)
REDIS_SCOPES = {"user": "", "workspace": "ns"}


def redis_options(url: str, **more: Any) -> RedisOptions:
    return RedisOptions.model_validate({"url": url, **more})


class StillClock:
    """Stands still until it is told to go on."""

    def __init__(self, moment: datetime = START) -> None:
        self.moment = moment

    def now(self) -> datetime:
        return self.moment

    def advance(self, **amount: float) -> None:
        self.moment += timedelta(**amount)


def entry(
    key: str, content: str = "likes tea", *, scope: str = "workspace", user: str = "shared", **more: Any
) -> MemoryEntry:
    fields: dict[str, Any] = {"created_at": START, "updated_at": START, **more}
    return MemoryEntry(id=MemoryId(scope, user, key), content=content, **fields)


class Follower:
    """Follows one user's changes as an index does, and knows what an index would then hold."""

    def __init__(self, storer: MemoryStorer, user: str = "shared", limit: int = 1_000) -> None:
        self._storer, self._user, self._limit = storer, user, limit
        self.cursor: str | None = None
        self.held: dict[MemoryId, MemoryEntry] = {}
        self.restarts = 0

    def follow(self, storer: MemoryStorer | None = None) -> int:
        """Catch up; return how many changes there were."""
        count = 0
        while True:
            batch = (storer or self._storer).changes(self.cursor, self._user, self._limit)
            if batch.complete:
                self.held.clear()
                self.restarts += 1
            for id in batch.removals:
                self.held.pop(id, None)
            self.held.update((found.id, found) for found in batch.upserts)
            self.cursor = batch.cursor
            count += len(batch.upserts) + len(batch.removals)
            if not batch.more:
                return count

    def keys(self) -> set[str]:
        return {id.key for id in self.held}


def raw(file: Path, statement: str, *arguments: object) -> list[tuple[Any, ...]]:
    """Run one statement on a file behind the storer's back."""
    db = sqlite3.connect(file)
    try:
        with db:
            return db.execute(statement, arguments).fetchall()
    finally:
        db.close()
