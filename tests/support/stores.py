"""What the tests of stores share: entries, a clock that stands still, and processes that write and may be killed."""

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from memory_core.contracts import MemoryStorer
from memory_core.model import MemoryEntry, MemoryId
from memory_storer_redis import RedisOptions

ROOT = Path(__file__).resolve().parents[2]
START = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)
WRITER = """
import sys
from pathlib import Path
kind, target, who, count = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
if kind == "kv":
    from memory_storer_kv.storer import KvStorer
    storer = KvStorer({"workspace": Path(target)})
else:
    from memory_storer_redis import RedisOptions
    from memory_storer_redis.server import Server
    from memory_storer_redis.storer import RedisStorer
    storer = RedisStorer(Server(RedisOptions.model_validate({"url": target, "retries": 0})), {"workspace": "ns"})
from tests.support.stores import entry
for number in range(count):
    storer.put(entry(f"{who}-{number}", content=f"from {who} " + "x" * 500))
    print(f"{who}-{number}", flush=True)
storer.close()
"""


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


def start_writer(kind: str, target: object, who: str, count: int) -> "subprocess.Popen[str]":
    """Start a process that stores `count` entries one by one and names each after it was acknowledged."""
    environment: Mapping[str, str] = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, kind, str(target), who, str(count)],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        cwd=ROOT,
    )


def kill_after(process: "subprocess.Popen[str]", acknowledged: int) -> set[str]:
    """Kill a writer without warning after so many acknowledged writes; return all that it acknowledged."""
    assert process.stdout is not None
    seen = {process.stdout.readline().strip() for _ in range(acknowledged)}
    process.send_signal(signal.SIGKILL)
    rest, _ = process.communicate(timeout=30)
    return (seen | {line.strip() for line in rest.splitlines(keepends=True) if line.endswith("\n")}) - {""}
