"""What the benchmarks share: a row with its promise, a folder on the disk, two calls in turn, the table.

Imported as `_measure`: each benchmark runs as `python benchmarks/NAME.py`, which puts this folder on the path.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement; a `bound` makes it a promise: at most that, or `at_least`."""

    name: str
    value: float
    unit: str
    bound: float | None = None
    detail: str = ""
    at_least: bool = False

    @property
    def holds(self) -> bool:
        """Whether the value keeps within its bound."""
        if self.bound is None:
            return True
        return self.value >= self.bound if self.at_least else self.value <= self.bound


@contextmanager
def folder() -> Generator[Path]:
    """Give a directory on the disk where the repository is (or `BENCH_DIR`), not in memory."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR", "."), prefix=".bench-") as name:
        yield Path(name).absolute()


def median_s(run: Callable[[], object], times: int, clock: Callable[[], float] = time.perf_counter) -> float:
    """Return the median seconds of one call."""
    measured: list[float] = []
    for _ in range(times):
        start = clock()
        run()
        measured.append(clock() - start)
    return statistics.median(measured)


def in_turn(ours: Callable[[T], object], bare: Callable[[T], object], given: Iterable[T]) -> tuple[float, float]:
    """Return the median seconds of both, called in turn for each item: a busy machine slows both."""
    one, other = medians_in_turn(given, ours, bare)
    return one, other


def medians_in_turn(given: Iterable[T], *runs: Callable[[T], object]) -> list[float]:
    """Return the median seconds of each of several calls, called in turn for each item."""
    times: list[list[float]] = [[] for _ in runs]
    for item in given:
        for run, into in zip(runs, times, strict=True):
            start = time.perf_counter()
            run(item)
            into.append(time.perf_counter() - start)
    return [statistics.median(taken) for taken in times]


def ratio(name: str, measured: tuple[float, float], bare: str, bound: float | None) -> Row:
    """Return the row of a pair of medians in seconds."""
    ours, theirs = measured
    return Row(name, ours / theirs, f"× {bare}", bound, f"{ours * 1e6:,.0f} µs against {theirs * 1e6:,.0f} µs")


def arguments(about: str | None, *, only: bool = False) -> argparse.Namespace:
    """Read the command line: `--json FILE`, `--quick`, and `--only PART` where a benchmark can do with less."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--quick", action="store_true", help="smaller sizes: to see that it runs, not for figures")
    if only:
        parser.add_argument("--only", default="", metavar="PART", help="run only measurements whose name contains this")
    return parser.parse_args()


def report(rows: Iterable[Row], file: Path | None, **about: str) -> int:
    """Print rows as they come and write them as JSON; return the exit code: 1 when a promise does not hold."""
    done: list[Row] = []
    for row in rows:
        done.append(row)
        mark = "FAIL" if not row.holds else "ok  " if row.bound is not None else "    "
        bound = "" if row.bound is None else f"({'≥' if row.at_least else '≤'} {row.bound:g})"
        print(f"{mark} {row.name:40} {row.value:9.3f} {row.unit:24} {bound:8} {row.detail}", flush=True)
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        figures = [{**asdict(row), "holds": row.holds} for row in done]
        file.write_text(json.dumps({"python": sys.version, **about, "rows": figures}, indent=1) + "\n")
    return 0 if all(row.holds for row in done) else 1
