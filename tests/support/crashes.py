"""What every store must survive: many processes at once, and writers that are killed in the middle."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import ClassVar

import pytest

from memory_core.contracts import MemoryStorer
from tests.support.stores import ROOT, Follower

SOAK = bool(os.environ.get("MEMORY_CORE_SOAK"))
BATCH = 150
WRITER = """
import sys
from pathlib import Path
kind, target, who, count, batch = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])
if kind == "kv":
    from memory_storer_kv.storer import KvStorer
    storer = KvStorer({"workspace": Path(target)})
elif kind == "markdown":
    from memory_storer_markdown.storer import MarkdownStorer
    storer = MarkdownStorer({"workspace": target})
else:
    from memory_storer_redis import RedisOptions
    from memory_storer_redis.server import Server
    from memory_storer_redis.storer import RedisStorer
    storer = RedisStorer(Server(RedisOptions.model_validate({"url": target, "retries": 0})), {"workspace": "ns"})
from tests.support.stores import entry
for start in range(0, count, batch):
    entries = [entry(f"{who}-{n}", content=f"from {who} " + "x" * 500) for n in range(start, min(start + batch, count))]
    if batch == 1:
        storer.put(entries[0])
    else:
        storer.put_many(entries)
    print("\\n".join(stored.id.key for stored in entries), flush=True)
storer.close()
"""


def start_writer(kind: str, target: object, who: str, count: int, batch: int = 1) -> "subprocess.Popen[str]":
    """Start a process that stores `count` entries, `batch` at a time, and names each after it was acknowledged."""
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, kind, str(target), who, str(count), str(batch)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=ROOT,
    )


def acknowledged_before(process: "subprocess.Popen[str]", end: Callable[[], object], first: int) -> set[str]:
    """Read so many acknowledged writes, let `end` stop the writer or its server, and return all acknowledged ones."""
    assert process.stdout is not None
    seen = {process.stdout.readline().strip() for _ in range(first)}
    end()
    rest = process.stdout.read()  # not `communicate`, which forgets what `readline` has taken in
    process.stdout.close()
    process.wait(timeout=60)
    return (seen | {line.strip() for line in rest.splitlines(keepends=True) if line.endswith("\n")}) - {""}


def kill_after(process: "subprocess.Popen[str]", acknowledged: int, pause_s: float = 0.0) -> set[str]:
    """Kill a writer without warning after so many acknowledged writes; return all that it acknowledged."""

    def kill() -> None:
        time.sleep(pause_s)
        process.send_signal(signal.SIGKILL)

    return acknowledged_before(process, kill, acknowledged)


def assert_whole(storer: MemoryStorer, acknowledged: set[str]) -> None:
    """Check that every acknowledged entry is there, that none is half there, and that the change feed says the same."""
    found = {entry.id.key: entry.content for entry in storer.scan()}
    assert acknowledged <= found.keys()
    assert all(content.endswith(" " + "x" * 500) for content in found.values())
    follower = Follower(storer, limit=100)
    follower.follow()
    assert follower.keys() == found.keys()


class CrashContract:
    """Subclass it, name the `kind` of store for the writing process, and give the fixtures `target` and `reopen`."""

    kind: ClassVar[str]
    rounds: ClassVar[int] = 50 if SOAK else 5

    @pytest.fixture
    def target(self) -> object:
        """Return where the writing process finds the store: a folder or a URL."""
        raise NotImplementedError("give your test class a fixture `target`")

    @pytest.fixture
    def reopen(self) -> Callable[[], MemoryStorer]:
        """Return how to open the same store here; it is closed by the fixture."""
        raise NotImplementedError("give your test class a fixture `reopen`")

    @pytest.mark.parametrize("batch", [1, 100])
    def test_four_processes_write_250_each(
        self, target: object, reopen: Callable[[], MemoryStorer], batch: int
    ) -> None:
        writers = [start_writer(self.kind, target, f"p{place}", 250, batch) for place in range(4)]
        acknowledged: set[str] = set()
        for writer in writers:
            out, _ = writer.communicate(timeout=120)
            assert writer.returncode == 0
            acknowledged |= set(out.split())
        assert len(acknowledged) == 1_000
        storer = reopen()
        keys = [found.id.key for found in storer.scan()]
        assert len(keys) == len(set(keys)) == 1_000
        assert_whole(storer, acknowledged)

    def test_kill_9_loses_nothing_that_was_acknowledged(
        self, target: object, reopen: Callable[[], MemoryStorer]
    ) -> None:
        acknowledged: set[str] = set()
        for place in range(self.rounds):
            acknowledged |= kill_after(start_writer(self.kind, target, f"w{place}", 100_000), 1 + place * 7 % 40)
        assert_whole(reopen(), acknowledged)

    def test_kill_9_amid_many_leaves_each_whole_or_absent(
        self, target: object, reopen: Callable[[], MemoryStorer]
    ) -> None:
        chance = random.Random(self.kind)
        acknowledged: set[str] = set()
        for place in range(self.rounds):
            writer = start_writer(self.kind, target, f"w{place}", 100_000, BATCH)
            acknowledged |= kill_after(writer, 1 + place % 3 * BATCH, chance.random() / 10)
        assert len(acknowledged) >= self.rounds * BATCH
        assert_whole(reopen(), acknowledged)
