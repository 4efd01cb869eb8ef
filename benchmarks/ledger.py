"""A year of ledgers: how long the search, the context block and the first index take.

    python benchmarks/ledger.py [--days 365] [--bullets 20] [--json FILE]

Writes the daily files and a `MEMORY.md` at its limit into a temporary folder, then measures through the public
interface. Each figure stands beside a bare loop over the same files in the same run (read all files, look for a
substring), because this is what a memory in files costs without an index.
"""

import argparse
import json
import os
import random
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path

from memory_core.contracts import MemorySearcher
from memory_core.ledger import Ledger
from memory_core.text import estimate_tokens

ENDS = date(2026, 6, 1)
LIMITS_MS = {"search p50": 3.0, "context block p50": 5.0, "first index": 1000.0}

WORDS, CHARS = 5_000, 1_200
"""How many different words and Chinese characters the made-up facts are drawn from, as Zipf's law has it."""


class Facts:
    """Makes facts and queries; the same ones in every run."""

    def __init__(self) -> None:
        self.rng = random.Random(7)
        syllables = [a + b for a in "bdfgklmnprstvz" for b in ("a", "e", "i", "o", "u", "an", "er", "on")]
        self.words = ["".join(self.rng.choices(syllables, k=self.rng.randint(1, 4))) for _ in range(WORDS)]
        self.chars = [chr(0x4E00 + n * 7) for n in range(CHARS)]
        self.word_weights = [1 / (rank + 3) for rank in range(WORDS)]
        self.char_weights = [1 / (rank + 10) for rank in range(CHARS)]
        self.number = 0

    def fact(self) -> str:
        """Return one fact of about twelve words, or, one in five, of about twenty Chinese characters."""
        self.number += 1
        if self.rng.random() < 0.2:
            return "".join(self.rng.choices(self.chars, self.char_weights, k=20)) + f"，第{self.number}条"
        return " ".join(self.rng.choices(self.words, self.word_weights, k=12)) + f" (ticket {self.number})"

    def query(self) -> str:
        """Return a question of six words, or, one in five, a phrase of four Chinese characters."""
        if self.rng.random() < 0.2:
            return "".join(self.rng.choices(self.chars, self.char_weights, k=4))
        return " ".join(self.rng.choices(self.words, self.word_weights, k=6)) + "?"


def write_year(workspace: Path, days: int, bullets: int, facts: Facts) -> None:
    """Write the daily files and a `MEMORY.md` of about 4,000 tokens."""
    (workspace / "memory").mkdir()
    for back in range(days):
        day = ENDS - timedelta(days=back)
        lines = [f"# {day}", ""]
        for start in range(0, bullets, 5):
            lines += [f"## {9 + start // 5:02}:00:00 +00:00", ""]
            for _ in range(min(5, bullets - start)):
                lines.append(f"- {facts.fact()}")
            lines.append("")
        path = workspace / "memory" / f"{day}.md"
        path.write_text("\n".join(lines), "utf-8")
        written = datetime(day.year, day.month, day.day, 18, tzinfo=UTC).timestamp()
        os.utime(path, (written, written))
    memory = ["# Memory", "", "## Facts"]
    while estimate_tokens("\n".join(memory)) < 4_000:
        memory.append(f"- {facts.fact()}")
    (workspace / "MEMORY.md").write_text("\n".join(memory) + "\n", "utf-8")


@dataclass(frozen=True, slots=True)
class Times:
    """Milliseconds of many calls: on the wall, and of this process' own work, which a busy machine disturbs less."""

    wall: list[float]
    own: list[float]

    def at(self, share: float) -> tuple[float, float]:
        """Return that quantile of both."""
        return _quantile(self.wall, share), _quantile(self.own, share)


def _quantile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def timed(calls: Iterable[Callable[[], object]]) -> Times:
    """Run each call once and return the milliseconds that each took."""
    times = Times([], [])
    for call in calls:
        wall, own = time.perf_counter(), time.process_time()
        call()
        times.wall.append((time.perf_counter() - wall) * 1000)
        times.own.append((time.process_time() - own) * 1000)
    return times


def bare_scan(workspace: Path, query: str) -> list[str]:
    """Look for a substring in all files: the loop that an index replaces."""
    found: list[str] = []
    for path in [workspace / "MEMORY.md", *(workspace / "memory").glob("*.md")]:
        found.extend(line for line in path.read_text("utf-8").split("\n") if query in line)
    return found


def measure(days: int, bullets: int, rounds: int) -> dict[str, tuple[float, float]]:
    """Return name → milliseconds on the wall and of this process."""
    with tempfile.TemporaryDirectory() as folder:
        workspace = Path(folder)
        facts = Facts()
        write_year(workspace, days, bullets, facts)
        queries = [facts.query() for _ in range(rounds)]
        ledgers = [Ledger(workspace, timezone="UTC", searcher=fulltext) for _ in range(5)]
        firsts = timed(partial(ledger.search, "anything") for ledger in ledgers)
        ledger = ledgers[0]
        pauses = timed(after_a_pause(ledger, queries[:5]))
        searches = timed(partial(ledger.search, query) for query in queries)
        blocks = timed([ledger.context_block] * rounds)
        appends = Times([], [])
        for n in range(20):
            with (workspace / "memory" / f"{ENDS}.md").open("a", encoding="utf-8") as file:
                file.write(f"- a new line {n}\n")
            once = timed([partial(ledger.search, "new line")])
            appends.wall.extend(once.wall)
            appends.own.extend(once.own)
        scans = timed(partial(bare_scan, workspace, query) for query in queries[:20])
        return {
            "first index": firsts.at(0.5),
            "search p50": searches.at(0.5),
            "search p95": searches.at(0.95),
            "search after a pause p50": pauses.at(0.5),
            "search after an append p50": appends.at(0.5),
            "context block p50": blocks.at(0.5),
            "bare scan of all files p50": scans.at(0.5),
        }


def after_a_pause(ledger: Ledger, queries: Iterable[str]) -> Iterator[Callable[[], object]]:
    """Give searches that come after more than a second without one: the whole folder is looked through again."""
    for query in queries:
        time.sleep(1.1)
        yield partial(ledger.search, query)


def fulltext() -> MemorySearcher:
    """Return the default searcher."""
    from memory_searcher_fulltext.searcher import FulltextSearcher

    return FulltextSearcher()


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=int, default=365)
    parser.add_argument("--bullets", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--json", type=Path, help="Write the figures there too.")
    options = parser.parse_args()
    figures = measure(options.days, options.bullets, options.rounds)
    scan = figures["bare scan of all files p50"][0]
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    print(f"{options.days} files of {options.bullets} bullets; load {load} on {os.cpu_count()} processors\n")
    print(f"{'':28}{'wall ms':>10}{'own ms':>10}{'÷ bare scan':>13}{'limit ms':>10}")
    for name, (wall, own) in figures.items():
        limit = LIMITS_MS.get(name)
        verdict = (
            ""
            if limit is None
            else f"{limit:>10.0f} {'ok' if wall <= limit else 'ok of its own' if own <= limit else 'OVER'}"
        )
        print(f"{name:28}{wall:>10.2f}{own:>10.2f}{wall / scan:>13.2f}{verdict}")
    if options.json:
        data = {name: {"wall_ms": wall, "own_ms": own} for name, (wall, own) in figures.items()}
        options.json.write_text(json.dumps({"load": load, "figures": data}, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
