"""The promises of the core as ratios in one run: `python benchmarks/core.py [--json FILE] [--quick]`.

Every figure is the median of several runs, beside the bare operation on the same data in the same process, so that a
slow or busy machine slows both. Exit code 1 when a promise does not hold.
"""

import os
import random
import sqlite3
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])  # started by its path, Python would look in this folder

from benchmarks._measure import Row, arguments, folder, in_turn, median_s, ratio, report
from memory_core import MemoryTalent, load_provider
from memory_core.model import MemoryEntry
from memory_core.solution import StandardSolution
from memory_core.testing import make_entry
from memory_core.text import unique_tokens
from memory_searcher_fulltext.searcher import FulltextSearcher
from memory_storer_markdown.storer import MarkdownStorer

ROOT = Path(__file__).resolve().parents[1]
SUBJECTS = ["user", "team", "project", "server", "client", "manager", "designer", "customer", "neighbour", "sister"]
VERBS = ["likes", "prefers", "avoids", "wrote", "moved", "bought", "deployed", "tested", "learned", "planned"]
COMMON = [
    "the",
    "a",
    "of",
    "in",
    "on",
    "with",
    "for",
    "and",
    "to",
    "every",
    "week",
    "morning",
    "evening",
    "home",
    "office",
    "near",
    "new",
    "old",
    "big",
    "small",
]


def sentences(count: int, seed: int = 7) -> Iterator[MemoryEntry]:
    """Yield entries of 12 to 30 words: frequent words, and a long tail of rare ones."""
    source = random.Random(seed)
    rare = [f"{a}{b}" for a in ("lum", "tor", "ves", "kin", "dra", "pol", "mar", "sel") for b in map(str, range(2_500))]
    for number in range(count):
        words = [source.choice(SUBJECTS), source.choice(VERBS)]
        words += source.choices(COMMON, k=source.randint(6, 18)) + source.choices(rare, k=4)
        yield make_entry(f"memory-{number}", " ".join(words), importance=number % 10 + 1)


def questions(count: int, seed: int = 11) -> list[str]:
    """Return queries of the same language, each with two rare words."""
    source = random.Random(seed)
    entries = list(sentences(400))
    return ["what about " + " ".join(source.sample(source.choice(entries).content.split(), 5)) for _ in range(count)]


def bare_fts5(entries: list[MemoryEntry]) -> Callable[[str], object]:
    """Return a query over a bare FTS5 table with the same pre-tokenised text: any term, best five by rank."""
    from memory_core.text import tokens

    table = sqlite3.connect(":memory:")
    table.execute("CREATE VIRTUAL TABLE plain USING fts5(text)")
    table.executemany(
        "INSERT INTO plain (text) VALUES (?)", ((" ".join(tokens(f"{e.id.key} {e.content}")),) for e in entries)
    )
    table.commit()

    def query(text: str) -> object:
        match = " OR ".join(f'"{token}"' for token in unique_tokens(text))
        return table.execute(
            "SELECT rowid, rank FROM plain WHERE plain MATCH ? ORDER BY rank LIMIT 5", (match,)
        ).fetchall()

    return query


def opened(root: Path) -> StandardSolution:
    """Open a solution over Markdown and full text as the workspace provider does."""
    storer = MarkdownStorer({"user": root / "user", "workspace": root / "workspace"})
    return StandardSolution(storer, FulltextSearcher(snapshot_dir=root / "index"), ["user", "workspace"])


def bench_search(count: int, queries: list[str]) -> Row:
    """Search through the solution against the bare FTS5 query."""
    entries = list(sentences(count))
    with folder() as root:
        solution = opened(root)
        # Files are written without fsync here: only reading is measured.
        quick = MarkdownStorer({"user": root / "user", "workspace": root / "workspace"}, fsync=False)
        quick.put_many(entries)
        quick.close()
        solution.sync()
        bare = bare_fts5(entries)
        for query in queries[:20]:
            assert solution.search(query)
            assert bare(query)
        measured = in_turn(solution.search, bare, queries)
        solution.close()
    return ratio(f"search at {count:,} entries", measured, "bare FTS5", 3.0)


def bench_remember(times: int) -> Row:
    """Durable `remember` against writing a temporary file, fsync, rename."""
    with folder() as root:
        solution = opened(root)
        solution.remember("first", "makes the directories")
        bare_dir = root / "bare"
        bare_dir.mkdir()
        text = "x" * 300

        def write(entry: MemoryEntry) -> None:
            temporary = bare_dir / f"{entry.id.key}.tmp"
            with temporary.open("w") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(bare_dir / f"{entry.id.key}.md")

        def remember(entry: MemoryEntry) -> object:
            return solution.remember(entry.id.key, entry.content, entry.importance)

        measured = in_turn(remember, write, sentences(times))
        solution.close()
    return ratio("durable remember", measured, "write, fsync, rename", 3.0)


START = """
import sys, time
from pathlib import Path
start = time.perf_counter()
sys.path.insert(0, {root_of_benchmarks!r})
from benchmarks.core import opened
loaded = time.perf_counter()
solution = opened(Path({root!r}))
hits = solution.search("what about lum7")
print(time.perf_counter() - loaded)
solution.close()
"""


def bench_start(count: int, times: int) -> list[Row]:
    """A first start (nothing derived is there) and later ones, each in a process of its own."""
    with folder() as root:
        quick = MarkdownStorer({"user": root / "user", "workspace": root / "workspace"}, fsync=False)
        quick.put_many(sentences(count))
        quick.close()
        code = START.format(root_of_benchmarks=str(ROOT), root=str(root))

        def start() -> float:
            return float(
                subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
            )

        first: list[float] = []
        later: list[float] = []
        for _ in range(times):
            for path in [*root.glob("*/.memory-core/*.sqlite3*"), *root.glob("index/*")]:
                path.unlink()
            first.append(start())
            later += [start(), start()]
    slow, fast = statistics.median(first), statistics.median(later)
    return [
        Row(f"second start on {count:,} files", fast, "s", 1.0, f"first start {slow:.2f} s"),
        Row(f"second start on {count:,} files", fast / slow, "× the first", 0.35),
    ]


MEMORY = """
import sys
from pathlib import Path
import psutil
process = psutil.Process()
before = process.memory_info().rss
from memory_core.solution import StandardSolution
from memory_searcher_fulltext.searcher import FulltextSearcher
from memory_storer_markdown.storer import MarkdownStorer
root = Path({root!r})
storer = MarkdownStorer({{"user": root / "user", "workspace": root / "workspace"}})
solution = StandardSolution(storer, FulltextSearcher(snapshot_dir=root / "index"), ["user", "workspace"])
assert len(solution.search("what about the team", top_k=50)) and len(solution.hot()) == 5
print((process.memory_info().rss - before) / 2**20)
"""


def bench_memory(count: int) -> Row:
    """Resident memory over that of the interpreter, everything imported and indexed."""
    with folder() as root:
        quick = MarkdownStorer({"user": root / "user", "workspace": root / "workspace"}, fsync=False)
        quick.put_many(sentences(count))
        quick.close()
        code = MEMORY.format(root=str(root))
        used = float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)
    return Row(f"memory at {count:,} entries", used, "MB over the interpreter", 60.0)


def bench_import(times: int) -> list[Row]:
    """`import memory_core` against `import pydantic`, and what it must not load."""
    heavy = ("numpy", "redis", "lancedb", "whoosh", "torch", "pydantic_ai")

    def timed(statement: str) -> float:
        code = f"import time; s = time.perf_counter(); {statement}; print(time.perf_counter() - s)"
        return float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)

    code = f"from memory_core import *; import sys; print([m for m in {heavy} if m in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()
    statements = (
        "import pydantic",
        "import memory_core",
        "from pydantic import BaseModel",
        "from memory_core import MemoryTalent, MemoryEntry",
    )
    measured: dict[str, list[float]] = {statement: [] for statement in statements}
    for _ in range(times):
        for statement, into in measured.items():
            into.append(timed(statement))
    bare, ours, bare_used, ours_used = (statistics.median(times) * 1_000 for times in measured.values())
    used = f"{ours_used:.0f} ms against {bare_used:.0f} ms"
    return [
        Row("import memory_core", ours / bare, "× import pydantic", 2.5, f"{ours:.0f} ms against {bare:.0f} ms"),
        Row("… and its names", ours_used / bare_used, "× pydantic.BaseModel", 2.5, used),
        Row("heavy packages loaded by import", 0.0 if loaded == "[]" else 1.0, "", 0.0, loaded),
    ]


def bench_injection(count: int, queries: list[str]) -> Row:
    """The instruction for one prompt."""
    with folder() as root:
        (root / "work").mkdir()
        provider = load_provider(
            root, overrides={"home": str(root / "home"), "storers": {"markdown": {"fsync": False}}}
        )
        solution = provider.get(root / "work")
        solution.storer.put_many(sentences(count))
        solution.sync()
        talent = MemoryTalent(provider)
        for query in queries[:10]:
            assert "memory-" in talent.instruction(query, cwd=root / "work")
        ordered = iter(queries)
        value = 1e3 * median_s(lambda: talent.instruction(next(ordered), cwd=root / "work"), len(queries))
        provider.close()
    return Row(f"injection at {count:,} entries", value, "ms", 5.0)


def main() -> int:
    """Measure, print a table, write JSON."""
    options = arguments(__doc__)
    small, large = (1_000, 2_000) if options.quick else (10_000, 100_000)
    queries = questions(60 if options.quick else 200)

    def rows() -> Iterator[Row]:
        yield from bench_import(3 if options.quick else 9)
        yield bench_remember(50 if options.quick else 300)
        yield from bench_start(small, 1 if options.quick else 3)
        yield bench_memory(small)
        yield bench_injection(small, queries)
        yield bench_search(small, queries)
        yield bench_search(large, queries)

    return report(rows(), options.json, sqlite=sqlite3.sqlite_version)


if __name__ == "__main__":
    sys.exit(main())
