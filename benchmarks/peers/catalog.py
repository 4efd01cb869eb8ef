"""Who is measured: our combinations of store and searcher, and the peers with what each needs."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
REQUIREMENTS = HERE / "requirements"


@dataclass(frozen=True, slots=True)
class Contender:
    """One thing to measure.

    `requirements` is a file in `requirements/`; ours have none and run in this interpreter. `kind` is what it is
    compared as: `memory` (a memory store for agents), `bare` (a library to build one with), `ours`. `finds_by` is
    `words`, `vectors` or both. `batch` is how many texts a `fill` is given at once.
    """

    name: str
    title: str
    script: str
    kind: str
    finds_by: str
    requirements: str | None = None
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    minimum_python: tuple[int, int] = (3, 11)
    batch: int = 1_000
    notes: tuple[str, ...] = ()

    @property
    def ours(self) -> bool:
        return self.kind == "ours"

    @property
    def module(self) -> str:
        return f"benchmarks.peers.scripts.{self.script}"


def _ours(
    store: str, searcher: str, finds_by: str, settings: dict[str, Any] | None = None, name: str = ""
) -> Contender:
    name = name or f"{store}+{searcher}"
    options = {"storer": store, "searcher": searcher, **(settings or {})}
    return Contender(name, f"ours: {name}", "peer_ours", "ours", finds_by, options=options)


_REBUILDS = "has no way to add a text: every add makes a new index over all"
_MEM0 = (
    "infer is off; vectors only, as in a plain installation: its keyword scores need fastembed with a downloaded model",
    "filled through its vector store's own `insert`, many at once; adds are measured one by one through `Memory.add`",
)

CONTENDERS = (
    _ours("markdown", "fulltext", "words"),
    _ours("kv", "fulltext", "words"),
    _ours("kv", "whoosh", "words"),
    _ours("kv", "numpy", "vectors"),
    _ours("kv", "lancedb", "vectors"),
    _ours("kv", "hybrid", "words and vectors"),
    _ours(
        "kv",
        "hybrid",
        "words and vectors",
        {"searchers": {"hybrid": {"arms": ["fulltext", "lancedb"]}}},
        "kv+hybrid(fulltext, lancedb)",
    ),
    Contender(
        "mem0-qdrant",
        "mem0 with local qdrant",
        "peer_mem0",
        "memory",
        "vectors",
        "mem0.txt",
        {"store": "qdrant"},
        notes=_MEM0,
    ),
    Contender(
        "mem0-faiss", "mem0 with faiss", "peer_mem0", "memory", "vectors", "mem0.txt", {"store": "faiss"}, notes=_MEM0
    ),
    Contender(
        "langgraph",
        "LangGraph InMemoryStore",
        "peer_langgraph",
        "memory",
        "vectors",
        "langgraph.txt",
        notes=("lives in one process' memory by design", "its `embed` function returns lists, as its type asks"),
    ),
    Contender(
        "basic-memory",
        "basic-memory",
        "peer_basic_memory",
        "memory",
        "words",
        "basic-memory.txt",
        minimum_python=(3, 12),
        batch=250,
        notes=(
            "by its own tools `write_note` and `search_notes`; text search, as its vectors need a downloaded model",
            "filled by writing its Markdown files and `basic-memory reindex --search`",
            "before its notes are counted, the same command recovers what it can",
        ),
    ),
    Contender(
        "rank-bm25",
        "bare rank_bm25",
        "peer_rank_bm25",
        "bare",
        "words",
        "rank-bm25.txt",
        batch=10_000,
        notes=(_REBUILDS, "words between spaces, as its page shows; in memory only"),
    ),
    Contender(
        "bm25s",
        "bare bm25s",
        "peer_bm25s",
        "bare",
        "words",
        "bm25s.txt",
        batch=10_000,
        notes=(_REBUILDS, "its own tokenizer; in memory only"),
    ),
    Contender(
        "whoosh",
        "bare Whoosh",
        "peer_whoosh",
        "bare",
        "words",
        "whoosh.txt",
        notes=("its own analyzer; a commit an add",),
    ),
    Contender("numpy", "bare numpy", "peer_numpy", "bare", "vectors", "numpy.txt", notes=("one matrix in memory",)),
)


def chosen(names: str | None) -> list[Contender]:
    """Return the contenders that a comma-separated list names: by name, or by `ours`, `memory`, `bare`.

    Raises:
        ValueError: There is none of that name.

    """
    if not names:
        return list(CONTENDERS)
    wanted = [name.strip() for name in re.split(r",(?![^(]*\))", names) if name.strip()]
    known = {contender.name for contender in CONTENDERS} | {contender.kind for contender in CONTENDERS}
    if unknown := [name for name in wanted if name not in known]:
        raise ValueError(f"There is no peer {unknown[0]!r}. There are: {', '.join(sorted(known))}.")
    return [contender for contender in CONTENDERS if contender.name in wanted or contender.kind in wanted]
