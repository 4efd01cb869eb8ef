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
import statistics
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

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


def timed(work: Callable[[], object]) -> float:
    """Return the milliseconds of one call."""
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1000


def bare_scan(workspace: Path, query: str) -> list[str]:
    """Look for a substring in all files: the loop that an index replaces."""
    found: list[str] = []
    for path in [workspace / "MEMORY.md", *(workspace / "memory").glob("*.md")]:
        found.extend(line for line in path.read_text("utf-8").split("\n") if query in line)
    return found


class _Now:
    """The day after the last ledger."""

    def now(self) -> datetime:
        return datetime(ENDS.year, ENDS.month, ENDS.day, 12, tzinfo=UTC)


def measure(days: int, bullets: int, rounds: int) -> dict[str, float]:
    """Return name → milliseconds."""
    with tempfile.TemporaryDirectory() as folder:
        workspace = Path(folder)
        facts = Facts()
        write_year(workspace, days, bullets, facts)
        firsts: list[float] = []
        for _ in range(3):
            ledger = Ledger(workspace, timezone="UTC", searcher=_fulltext)
            firsts.append(timed(lambda ledger=ledger: ledger.search("anything")))
        time.sleep(2.1)  # files that were written within the last two seconds are read again: measure the steady state
        ledger.search("anything")
        queries = [facts.query() for _ in range(rounds)]
        pauses: list[float] = []
        for query in queries[:5]:
            time.sleep(1.1)  # then the whole folder is looked through again
            pauses.append(timed(lambda query=query: ledger.search(query)))
        searches = [timed(lambda query=query: ledger.search(query)) for query in queries]
        blocks = [timed(ledger.context_block) for _ in range(rounds)]
        today = workspace / "memory" / f"{ENDS}.md"
        follows: list[float] = []
        for n in range(20):
            with today.open("a", encoding="utf-8") as file:
                file.write(f"- a new line {n}\n")
            follows.append(timed(lambda: ledger.search("new line")))
        scans = [timed(lambda query=query: bare_scan(workspace, query)) for query in queries[:20]]
        return {
            "first index": statistics.median(firsts),
            "search p50": statistics.median(searches),
            "search after a pause p50": statistics.median(pauses),
            "search p95": statistics.quantiles(searches, n=20)[-1],
            "context block p50": statistics.median(blocks),
            "search after an append p50": statistics.median(follows),
            "bare scan of all files p50": statistics.median(scans),
        }


def _fulltext() -> "object":
    from memory_searcher_fulltext.searcher import FulltextSearcher

    return FulltextSearcher()


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=int, default=365)
    parser.add_argument("--bullets", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    figures = measure(options.days, options.bullets, options.rounds)
    scan = figures["bare scan of all files p50"]
    print(f"{options.days} files of {options.bullets} bullets\n")
    print(f"{'what':32}{'ms':>10}{'÷ bare scan':>14}{'limit ms':>11}")
    for name, value in figures.items():
        limit = LIMITS_MS.get(name)
        verdict = "" if limit is None else f"{limit:>10.0f} {'ok' if value <= limit else 'OVER'}"
        print(f"{name:32}{value:>10.2f}{value / scan:>14.2f} {verdict}")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
