"""The promises of the stores as ratios in one run: `python benchmarks/stores.py [--json FILE] [--quick]`.

Every figure is the median of many calls, ours and the bare driver's in turn on the same kind of data in the same
process, so that a slow or busy machine slows both. A Redis server is started for the run; without `redis-server` its
rows are missing, and said to be. Exit code 1 when a promise does not hold.
"""

import argparse
import json
import os
import shutil
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from memory_core.contracts import MemoryStorer
from memory_core.model import MemoryEntry
from memory_core.policy import expiry
from memory_core.serial import to_json
from memory_core.testing import make_entry
from memory_core.transfer import migrate
from memory_storer_kv.storer import KvStorer
from memory_storer_markdown.storer import MarkdownStorer

SCOPES = ("user", "workspace")
TTL_S = 30 * 86_400


@dataclass
class Row:
    """One measurement; a `bound` makes it a promise."""

    name: str
    value: float
    unit: str
    bound: float | None
    detail: str = ""

    @property
    def holds(self) -> bool:
        return self.bound is None or self.value <= self.bound


def entries(count: int, prefix: str = "memory") -> Iterator[MemoryEntry]:
    """Yield memories of about 300 characters that expire in 30 days."""
    for number in range(count):
        text = f"{number}: " + "the user prefers short answers 喜欢简短 " * 9
        entry = make_entry(f"{prefix}-{number}", text, at=datetime.now(UTC))
        yield entry.model_copy(update={"expires_at": expiry(entry.created_at, TTL_S)})


def in_turn(
    ours: Callable[[MemoryEntry], object], bare: Callable[[MemoryEntry], object], given: list[MemoryEntry]
) -> tuple[float, float]:
    """Return the median microseconds of both, called in turn for each entry."""
    times: tuple[list[float], list[float]] = ([], [])
    for entry in given:
        for run, into in zip((ours, bare), times, strict=True):
            start = time.perf_counter()
            run(entry)
            into.append(time.perf_counter() - start)
    return statistics.median(times[0]) * 1e6, statistics.median(times[1]) * 1e6


def got(storer: MemoryStorer) -> Callable[[MemoryEntry], object]:
    """Return a read of one entry that must be there."""

    def get(entry: MemoryEntry) -> None:
        assert storer.get(entry.id) is not None

    return get


def ratio(name: str, measured: tuple[float, float], bare: str, bound: float | None) -> Row:
    """Return the row of a pair of medians."""
    ours, theirs = measured
    return Row(name, ours / theirs, f"× {bare}", bound, f"{ours:.0f} µs against {theirs:.0f} µs")


@contextmanager
def folder() -> Generator[Path, None, None]:
    """Give a directory on the disk where the repository is, not in memory."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR", "."), prefix=".bench-") as name:
        yield Path(name).absolute()


def kv(root: Path, durability: Any = "full") -> KvStorer:
    """Open the KV store."""
    return KvStorer({scope: root / scope for scope in SCOPES}, durability=durability)


def catch_up(name: str, storer: MemoryStorer, times: int, bound: float | None = 100.0) -> Row:
    """Return how long a follower takes for 1,000 changes: 900 upserts and 100 removals."""
    measured: list[float] = []
    for turn in range(times):
        user = f"follower-{turn}"
        first = [entry.model_copy(update={"id": make_entry(entry.id.key, user=user).id}) for entry in entries(1_000)]
        storer.put_many(first)
        cursor = storer.changes(None, user, 10_000).cursor
        storer.put_many(entry.model_copy(update={"content": "changed " + entry.content}) for entry in first[:900])
        for entry in first[900:]:
            storer.remove(entry.id)
        count, more = 0, True
        start = time.perf_counter()
        while more:
            batch = storer.changes(cursor, user)
            count, cursor, more = count + len(batch.upserts) + len(batch.removals), batch.cursor, batch.more
        measured.append((time.perf_counter() - start) * 1_000)
        assert count == 1_000
    return Row(f"{name}: catching up 1,000 changes", statistics.median(measured), "ms", bound)


def bench_kv(times: int) -> Iterator[Row]:
    """The KV store beside a table of key and value in the same mode."""
    for durability, level in (("full", "FULL"), ("normal", "NORMAL")):
        with folder() as root:
            storer = kv(root, durability)
            bare = sqlite3.connect(root / "bare.sqlite3", isolation_level=None)
            bare.execute("PRAGMA journal_mode = WAL")
            bare.execute(f"PRAGMA synchronous = {level}")
            bare.execute("CREATE TABLE kv(key TEXT PRIMARY KEY, value TEXT)")

            def bare_put(entry: MemoryEntry, bare: sqlite3.Connection = bare) -> None:
                bare.execute("BEGIN IMMEDIATE")
                bare.execute("INSERT OR REPLACE INTO kv VALUES(?, ?)", (entry.id.key, to_json(entry)))
                bare.execute("COMMIT")

            def bare_get(entry: MemoryEntry, bare: sqlite3.Connection = bare) -> None:
                assert bare.execute("SELECT value FROM kv WHERE key = ?", (entry.id.key,)).fetchone()

            given = list(entries(times))
            storer.put(next(entries(1, "first")))
            yield ratio(f"kv: put ({durability})", in_turn(storer.put, bare_put, given), "bare transaction", 3.0)
            if durability == "full":
                yield ratio("kv: get", in_turn(got(storer), bare_get, given), "bare SELECT", None)
                yield scan("kv", storer, given)
                yield catch_up("kv", storer, 5)
            storer.close()
            bare.close()


def scan(name: str, storer: MemoryStorer, given: list[MemoryEntry]) -> Row:
    """Return the time of a scan for each entry that it yields."""
    start = time.perf_counter()
    count = sum(1 for _ in storer.scan())
    assert count >= len(given)
    return Row(f"{name}: scan", (time.perf_counter() - start) / count * 1e6, "µs an entry", None, f"{count:,} entries")


def bench_markdown(times: int) -> Iterator[Row]:
    """The Markdown store beside writing a file durably."""
    with folder() as root:
        storer = MarkdownStorer({scope: root / scope for scope in SCOPES})
        (root / "bare").mkdir()

        def bare_put(entry: MemoryEntry) -> None:
            temporary = root / "bare" / "file.tmp"
            with temporary.open("w") as file:
                file.write(to_json(entry))
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(root / "bare" / f"{entry.id.key}.md")

        given = list(entries(times))
        storer.put(next(entries(1, "first")))
        yield ratio("markdown: put", in_turn(storer.put, bare_put, given), "write, fsync, rename", None)
        read = in_turn(got(storer), lambda e: (root / "bare" / f"{e.id.key}.md").read_text(), given)
        yield ratio("markdown: get", read, "reading a file", None)
        yield scan("markdown", storer, given)
        storer.close()
    with folder() as root:
        quick = MarkdownStorer({scope: root / scope for scope in SCOPES}, fsync=False)
        yield catch_up("markdown", quick, 3)
        quick.close()


@contextmanager
def redis_server() -> Generator[int | None, None, None]:
    """Start a server on a free port of this machine that keeps an append-only file; None without `redis-server`."""
    binary = shutil.which("redis-server")
    if binary is None:
        yield None
        return
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    with folder() as root:
        settings = ["--port", str(port), "--bind", "127.0.0.1", "--dir", str(root), "--save", "", "--appendonly", "yes"]
        process = subprocess.Popen([binary, *settings], stdout=subprocess.DEVNULL)
        try:
            give_up = time.monotonic() + 20
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port), timeout=1).close()
                    break
                except OSError:
                    if time.monotonic() > give_up:
                        raise
                    time.sleep(0.05)
            yield port
        finally:
            process.terminate()
            process.wait()


def bench_redis(times: int) -> Iterator[Row]:
    """The Redis store beside bare commands of the same client library."""
    with redis_server() as port:
        if port is None:
            print("---- redis-server is not installed: nothing about Redis was measured", flush=True)
            return
        import redis

        from memory_storer_redis import RedisOptions
        from memory_storer_redis.server import Server
        from memory_storer_redis.storer import RedisStorer

        options = RedisOptions.model_validate({"url": f"redis://127.0.0.1:{port}/0"})
        storer = RedisStorer(Server(options), {"user": "", "workspace": "bench"})
        bare: Any = redis.Redis(port=port)

        def bare_put(entry: MemoryEntry) -> None:
            with bare.pipeline(transaction=False) as pipe:
                pipe.set(f"bare:{entry.id.key}", to_json(entry), ex=TTL_S)
                pipe.zadd("bare", {entry.id.key: time.time()})
                pipe.execute()

        def bare_get(entry: MemoryEntry) -> None:
            assert bare.get(f"bare:{entry.id.key}")

        given = list(entries(times))
        storer.put(next(entries(1, "first")))
        bare.ping()
        yield ratio("redis: put", in_turn(storer.put, bare_put, given), "SET EX + ZADD", 2.5)
        yield ratio("redis: get", in_turn(got(storer), bare_get, given), "GET", 2.0)
        yield scan("redis", storer, given)
        yield catch_up("redis", storer, 5)
        storer.close()
        bare.close()


def bench_migration(times: int) -> Iterator[Row]:
    """Moving Markdown files into a KV file, copied and verified; five times as many as there are other calls."""
    count = times * 5
    with folder() as root:
        source = MarkdownStorer({scope: root / "files" / scope for scope in SCOPES}, fsync=False)
        source.put_many(entries(count))
        target = kv(root / "kv")
        start = time.perf_counter()
        report = migrate(source, target)
        elapsed = time.perf_counter() - start
        assert report.copied == report.verified == count
        source.close()
        target.close()
    yield Row(f"migrating {count:,}: markdown → kv", elapsed, "s", 5.0, "copied, read again and compared")


def main() -> int:
    """Measure, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--quick", action="store_true", help="smaller sizes: to see that it runs, not for figures")
    options = parser.parse_args()
    times = 200 if options.quick else 2_000
    rows: list[Row] = []
    for measure in (bench_kv, bench_redis, bench_markdown, bench_migration):
        for row in measure(times):
            rows.append(row)
            mark = "FAIL" if not row.holds else "ok  " if row.bound is not None else "    "
            bound = "" if row.bound is None else f"(≤ {row.bound:g})"
            print(f"{mark} {row.name:36} {row.value:9.2f} {row.unit:22} {bound:8} {row.detail}", flush=True)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        figures = [{**asdict(row), "holds": row.holds} for row in rows]
        about = {"python": sys.version, "sqlite": sqlite3.sqlite_version, "rows": figures}
        options.json.write_text(json.dumps(about, indent=1))
    return 0 if all(row.holds for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
