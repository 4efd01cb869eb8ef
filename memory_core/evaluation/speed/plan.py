"""What is measured, how often, and the form of a result."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

SIZES = (1_000, 10_000, 100_000)


@dataclass(frozen=True, slots=True)
class Repeats:
    """How often each operation is timed. A stage ends early after `stage_s` seconds, but not before `least` times."""

    writes: int = 100
    visible: int = 30
    searches: int = 200
    hot: int = 100
    injections: int = 50
    upserts: int = 1_000
    after: int = 60
    warm_starts: int = 2
    least: int = 10
    stage_s: float = 15.0


QUICK = Repeats(
    writes=5, visible=3, searches=10, hot=5, injections=3, upserts=20, after=5, warm_starts=1, least=3, stage_s=2.0
)
"""Only to see that everything runs; its figures mean nothing."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Which stores with which searchers at which sizes; `budget_s` is the most that one of them may take.

    `data` is a labelled set whose texts and queries are used; empty for made ones.
    """

    storers: Sequence[str]
    searchers: Sequence[str]
    sizes: Sequence[int] = SIZES
    budget_s: float = 300.0
    seed: int = 0
    data: str = ""
    repeats: Repeats = field(default=Repeats())


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured quantity: its name in every report, its unit, and what it is."""

    name: str
    unit: str
    what: str


FIGURES = (
    Figure("fill_s", "s", "filling the empty store, without waiting for the disk after each memory"),
    Figure("index_s", "s", "building the index from the filled store, as the first search of a new user does"),
    Figure("write_ms_p50", "ms", "one durable write of a new memory, median"),
    Figure("write_ms_p95", "ms", "one durable write, 95th percentile"),
    Figure("visible_ms_p50", "ms", "from the beginning of a write until a search finds it, median"),
    Figure("visible_ms_p95", "ms", "the same, 95th percentile"),
    Figure("search_ms_p50", "ms", "one search for the best five, different queries, median"),
    Figure("search_ms_p95", "ms", "one search, 95th percentile"),
    Figure("search_ms_p99", "ms", "one search, 99th percentile; only from 100 searches on"),
    Figure("hot_ms_p50", "ms", "the same query again and again, median"),
    Figure(
        "injection_ms_p50", "ms", "the instruction block for one prompt: memories that fit and important ones, median"
    ),
    Figure("injection_ms_p95", "ms", "the instruction block, 95th percentile"),
    Figure(
        "cold_start_s",
        "s",
        "a new process, imports included, until its first search answers; index and vectors deleted",
    ),
    Figure("warm_start_s", "s", "the same with the index present"),
    Figure("memory_mb", "MB", "resident memory of that process after 20 searches, above a bare interpreter"),
    Figure("store_bytes", "bytes", "what the store keeps on disk (Redis: in the server's memory)"),
    Figure("index_bytes", "bytes", "what the index keeps on disk"),
    Figure("cache_bytes", "bytes", "cached vectors on disk, shared by the indexes of one user"),
    Figure("store_files", "files", "files of the store"),
    Figure("index_files", "files", "files of the index"),
    Figure("upserts_s", "s", "replacing memories one by one, the index following each"),
    Figure("upserts", "", "how many were replaced in that time"),
    Figure("grown_store_bytes", "bytes", "what that added to the store"),
    Figure("grown_index_bytes", "bytes", "what that added to the index"),
    Figure("grown_store_files", "files", "files that it added to the store"),
    Figure("grown_index_files", "files", "files that it added to the index"),
    Figure("before_ms_p50", "ms", "one search before these upserts, median"),
    Figure("after_ms_p50", "ms", "the same queries after them, median"),
)
"""Everything that is measured, in the order of the reports."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One store with one searcher at one size: figures by name, and why those that lack are not measured."""

    storer: str
    searcher: str
    size: int
    figures: dict[str, float] = field(default_factory=dict[str, float])
    not_measured: str | None = None
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Return the cell as JSON data."""
        return asdict(self)
