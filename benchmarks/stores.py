"""The promises of the stores as ratios in one run: `python benchmarks/stores.py [--json FILE] [--quick]`.

Every figure is the median of many calls, ours and the bare driver's in turn on the same kind of data in the same
process, so that a slow or busy machine slows both. A Redis server is started for the run; without `redis-server` its
rows are missing, and said to be. Exit code 1 when a promise does not hold.
"""

import os
import shutil
import socket
import sqlite3
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])  # started by its path, Python would look in this folder

from benchmarks._measure import Row, arguments, folder, in_turn, ratio, report
from memory_core.contracts import MemoryStorer
from memory_core.model import MemoryEntry
from memory_core.policy import expiry
from memory_core.serial import from_json, to_json
from memory_core.solution import StandardSolution
from memory_core.testing import make_entry
from memory_core.transfer import import_jsonl, migrate
from memory_searcher_fulltext.searcher import FulltextSearcher
from memory_storer_kv.storer import KvStorer
from memory_storer_markdown.storer import MarkdownStorer

SCOPES = ("user", "workspace")
TTL_S = 30 * 86_400


def entries(count: int, prefix: str = "memory") -> Iterator[MemoryEntry]:
    """Yield memories of about 300 characters that expire in 30 days."""
    for number in range(count):
        text = f"{number}: " + "the user prefers short answers 喜欢简短 " * 9
        entry = make_entry(f"{prefix}-{number}", text, at=datetime.now(UTC))
        yield entry.model_copy(update={"expires_at": expiry(entry.created_at, TTL_S)})


def got(storer: MemoryStorer) -> Callable[[MemoryEntry], object]:
    """Return a read of one entry that must be there."""

    def get(entry: MemoryEntry) -> None:
        assert storer.get(entry.id) is not None

    return get


def kv(root: Path, durability: Any = "full") -> KvStorer:
    """Open the KV store."""
    return KvStorer({scope: root / scope for scope in SCOPES}, durability=durability)


def catch_up(name: str, storer: MemoryStorer, times: int, bound: float | None = 100.0) -> Row:
    """Return how long a follower takes for 1,000 changes: 900 upserts and 100 removals."""
    measured: list[float] = []
    own: list[float] = []
    for turn in range(times):
        user = f"follower-{turn}"
        first = [entry.model_copy(update={"id": make_entry(entry.id.key, user=user).id}) for entry in entries(1_000)]
        storer.put_many(first)
        cursor = storer.changes(None, user, 10_000).cursor
        storer.put_many(entry.model_copy(update={"content": "changed " + entry.content}) for entry in first[:900])
        for entry in first[900:]:
            storer.remove(entry.id)
        count, more = 0, True
        start, start_own = time.perf_counter(), time.process_time()
        while more:
            batch = storer.changes(cursor, user)
            count, cursor, more = count + len(batch.upserts) + len(batch.removals), batch.cursor, batch.more
        measured.append((time.perf_counter() - start) * 1_000)
        own.append((time.process_time() - start_own) * 1_000)
        assert count == 1_000
    detail = f"{statistics.median(own):.0f} ms of this process, which a busy machine disturbs less"
    return Row(f"{name}: catching up 1,000 changes", statistics.median(measured), "ms", bound, detail)


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

                def bare_remove(entry: MemoryEntry, bare: sqlite3.Connection = bare) -> None:
                    bare.execute("BEGIN IMMEDIATE")
                    bare.execute("DELETE FROM kv WHERE key = ?", (entry.id.key,))
                    bare.execute("COMMIT")

                yield ratio("kv: remove", in_turn(removed(storer), bare_remove, given), "bare transaction", None)
            storer.close()
            bare.close()


def removed(storer: MemoryStorer) -> Callable[[MemoryEntry], object]:
    """Return a removal of one entry that must be there."""

    def remove(entry: MemoryEntry) -> None:
        assert storer.remove(entry.id)

    return remove


def scan(name: str, storer: MemoryStorer, given: list[MemoryEntry]) -> Row:
    """Return the time of a scan for each entry that it yields."""
    start = time.perf_counter()
    count = sum(1 for _ in storer.scan())
    assert count >= len(given)
    return Row(f"{name}: scan", (time.perf_counter() - start) / count * 1e6, "µs an entry", None, f"{count:,} entries")


def sync(directory: Path) -> None:
    """Make what happened in a directory durable."""
    handle = os.open(directory, os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)


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
            sync(root / "bare")

        given = list(entries(times))
        storer.put(next(entries(1, "first")))
        yield ratio(
            "markdown: put", in_turn(storer.put, bare_put, given), "write, fsync, rename, fsync directory", None
        )
        read = in_turn(got(storer), lambda e: (root / "bare" / f"{e.id.key}.md").read_text(), given)
        yield ratio("markdown: get", read, "reading a file", None)
        yield scan("markdown", storer, given)

        def bare_remove(entry: MemoryEntry) -> None:
            (root / "bare" / f"{entry.id.key}.md").unlink()
            sync(root / "bare")

        yield ratio("markdown: remove", in_turn(removed(storer), bare_remove, given), "unlink, fsync directory", None)
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

        storer = redis_store(port, "bench")
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

        def bare_remove(entry: MemoryEntry) -> None:
            with bare.pipeline(transaction=False) as pipe:
                pipe.delete(f"bare:{entry.id.key}")
                pipe.zrem("bare", entry.id.key)
                pipe.execute()

        yield ratio("redis: remove", in_turn(removed(storer), bare_remove, given), "DEL + ZREM", None)
        storer.close()
        bare.close()


def bench_growth(times: int) -> Iterator[Row]:
    """What one more Markdown file costs among 1,000, 10,000 and 40,000 (or a tenth), put and removed, as ratios.

    Without waiting for the disk, which is the same for each and would hide what grows.
    """
    sizes = [times * factor // 2 for factor in (1, 10, 40)]
    with folder() as root:
        storer = MarkdownStorer({"workspace": root}, fsync=False)
        filled, costs = 0, list[tuple[float, float]]()
        for size in sizes:
            storer.put_many(entries(size - filled, f"until-{size}"))
            filled = size
            storer.get(next(entries(1)).id)  # a look at all files belongs to nobody
            more = list(entries(300, f"at-{size}"))
            put = [timed(storer.put, entry) for entry in more]
            remove = [timed(storer.remove, entry.id) for entry in more]
            costs.append((statistics.median(put), statistics.median(remove)))
        storer.close()
    for place, what in enumerate(("put", "remove")):
        first, *others = (cost[place] for cost in costs)
        for size, cost in zip(sizes[1:], others, strict=True):
            name = f"markdown: {what} among {size:,} files"
            yield Row(name, cost / first, f"× among {sizes[0]:,}", 2.0, f"{cost * 1e6:.0f} µs")


def timed(call: Callable[[Any], object], argument: Any) -> float:
    """Return the seconds of one call."""
    start = time.perf_counter()
    call(argument)
    return time.perf_counter() - start


def bench_import(times: int) -> Iterator[Row]:
    """Importing many memories through a solution, beside storing each by itself, in turn."""
    count = times * 5
    with folder() as root, redis_server() as port:
        opened: dict[str, Callable[[str], MemoryStorer]] = {
            "markdown": lambda name: MarkdownStorer({scope: root / name / scope for scope in SCOPES}),
            "kv": lambda name: kv(root / name),
        }
        if port is not None:
            opened["redis"] = lambda name: redis_store(port, name)
        for name, open_store in opened.items():
            many = StandardSolution(open_store(f"{name}-many"), FulltextSearcher(), SCOPES)
            single = StandardSolution(open_store(f"{name}-single"), FulltextSearcher(), SCOPES)
            lines = [to_json(entry).encode() for entry in entries(count)]
            alone, together = list[float](), list[float]()
            step = max(1, count // 10)
            for start in range(0, count, step):
                some = lines[start : start + step]
                together.append(timed(partial(import_jsonl, many), some))
                if start // step % 5 == 2:  # a fifth of them, spread, is enough to know what one costs
                    alone.append(timed(store_each(single), some))
            each, all_of_them = sum(alone) / len(alone), sum(together)
            detail = f"{all_of_them:.1f} s; one by one {each * len(together):.1f} s (from a fifth)"
            yield Row(f"{name}: importing {count:,}", all_of_them / (each * len(together)), "× one by one", 1.0, detail)
            many.close()
            single.close()


def store_each(solution: StandardSolution) -> Callable[[list[bytes]], None]:
    """Return an import as it would be without `store_many`."""

    def store(lines: Iterable[bytes]) -> None:
        for line in lines:
            entry = from_json(line)
            assert solution.storer.get(entry.id) is None
            solution.store(entry)

    return store


def redis_store(port: int, namespace: str) -> MemoryStorer:
    """Open the Redis store in a namespace of its own."""
    from memory_storer_redis import RedisOptions
    from memory_storer_redis.server import Server
    from memory_storer_redis.storer import RedisStorer

    options = RedisOptions.model_validate({"url": f"redis://127.0.0.1:{port}/0"})
    return RedisStorer(Server(options), {"user": f"{namespace}-user", "workspace": namespace})


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
    options = arguments(__doc__)
    times = 200 if options.quick else 2_000
    measures = (bench_kv, bench_redis, bench_markdown, bench_growth, bench_import, bench_migration)
    return report((row for measure in measures for row in measure(times)), options.json, sqlite=sqlite3.sqlite_version)


if __name__ == "__main__":
    sys.exit(main())
