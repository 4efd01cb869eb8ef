"""Measures one store with one searcher in this process, stage by stage; each figure is told when it is known."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import count, islice

from memory_core.contracts import MemorySolution, MemorySolutionProvider
from memory_core.errors import MemoryCoreError
from memory_core.evaluation.bench_pair import BenchPair
from memory_core.evaluation.bench_texts import Texts
from memory_core.evaluation.redis_server import used_bytes
from memory_core.evaluation.speed.disk import used
from memory_core.evaluation.speed.plan import Repeats
from memory_core.evaluation.speed.timing import percentile, timed
from memory_core.talent import MemoryTalent

Tell = Callable[[str, float], None]
_STEP = 1_000
_VISIBLE_S = 5.0
_WARM_UP = 5
_TOP_K = 5
_SEEN_IN = 10


def fill(pair: BenchPair, texts: Texts, size: int, tell: Tell) -> None:
    """Fill the empty store with `size` memories, many at a time and without waiting for the disk."""
    provider = pair.open(hurried=True)
    try:
        storer, now = provider.get(pair.work).storer, datetime.now(UTC)
        start = time.perf_counter()
        for first in range(0, size, _STEP):
            storer.put_many(texts.entry(number, now) for number in range(first, min(size, first + _STEP)))
        tell("fill_s", time.perf_counter() - start)
    finally:
        provider.close()


def measure(pair: BenchPair, texts: Texts, size: int, repeats: Repeats, tell: Tell, stage: Callable[[str], None]) -> None:
    """Measure a filled store: index, size on disk, writes, searches, injection, growth by single upserts.

    Raises:
        MemoryCoreError: A backend failed, or a written memory was not found.

    """
    provider = pair.open()
    try:
        _Measurement(pair, provider, texts, size, repeats, tell, stage).run()
    finally:
        provider.close()


class _Measurement:
    def __init__(
        self,
        pair: BenchPair,
        provider: MemorySolutionProvider,
        texts: Texts,
        size: int,
        repeats: Repeats,
        tell: Tell,
        stage: Callable[[str], None],
    ) -> None:
        self._pair = pair
        self._provider = provider
        self._solution: MemorySolution = provider.get(pair.work)
        self._texts = texts
        self._size = size
        self._repeats = repeats
        self._tell = tell
        self._stage = stage
        self._asked = count()
        self._fresh = count(size)

    def run(self) -> None:
        for name in ("index", "write", "visible", "search", "hot", "injection", "growth"):
            self._stage(name)
            getattr(self, f"_{name}")()

    def _index(self) -> None:
        start = time.perf_counter()
        self._solution.sync()
        self._tell("index_s", time.perf_counter() - start)
        for number in range(_WARM_UP):
            self._solution.search(self._query(number))

    def _write(self) -> None:
        entries = [self._texts.entry(number, datetime.now(UTC)) for number in islice(self._fresh, self._repeats.writes)]

        def write(number: int) -> None:
            entry = entries[number]
            self._solution.remember(entry.id.key, entry.content, entry.importance, scope=entry.id.scope)

        self._percentiles("write_ms", self._times(write, len(entries)), 0.50, 0.95)

    def _visible(self) -> None:
        numbers = list(islice(self._fresh, self._repeats.visible))

        def appear(number: int) -> None:
            key = self._texts.key(numbers[number])
            text = f"{self._texts.text(numbers[number])} ({key})"
            self._solution.remember(key, text)
            give_up = time.perf_counter() + _VISIBLE_S
            while not any(hit.entry.content == text for hit in self._solution.search(text, top_k=_SEEN_IN)):
                if time.perf_counter() > give_up:
                    raise MemoryCoreError(f"a written memory was not found within {_VISIBLE_S:g} s")

        self._percentiles("visible_ms", self._times(appear, len(numbers)), 0.50, 0.95)

    def _search(self) -> None:
        self._solution.sync()
        times = self._searches(self._repeats.searches)
        self._percentiles("search_ms", times, 0.50, 0.95, *([0.99] if len(times) >= 100 else []))

    def _hot(self) -> None:
        query = self._query(0)
        times = self._times(lambda _: self._solution.search(query, top_k=_TOP_K), self._repeats.hot)
        self._percentiles("hot_ms", times, 0.50)

    def _injection(self) -> None:
        talent = MemoryTalent(self._provider)
        queries = [self._query(next(self._asked)) for _ in range(self._repeats.injections)]
        talent.instruction(queries[0], cwd=self._pair.work)
        times = self._times(lambda number: talent.instruction(queries[number], cwd=self._pair.work), len(queries))
        self._percentiles("injection_ms", times, 0.50, 0.95)

    def _growth(self) -> None:
        store_files, store_bytes, index_files, index_bytes = self._sizes(first=True)
        before = self._searches(self._repeats.after, anew=True)
        start, done = time.perf_counter(), 0
        for number in range(self._repeats.upserts):
            entry = self._texts.entry(number % self._size, datetime.now(UTC))
            text = f"{self._texts.text(self._size + number)} Now."
            self._solution.remember(entry.id.key, text, entry.importance, scope=entry.id.scope)
            self._solution.sync()
            done += 1
            if time.perf_counter() - start > 4 * self._repeats.stage_s:
                break
        self._tell("upserts_s", time.perf_counter() - start)
        self._tell("upserts", done)
        grown = self._sizes()
        self._tell("grown_store_files", grown[0] - store_files)
        self._tell("grown_store_bytes", grown[1] - store_bytes)
        self._tell("grown_index_files", grown[2] - index_files)
        self._tell("grown_index_bytes", grown[3] - index_bytes)
        self._percentiles("before_ms", before, 0.50)
        self._percentiles("after_ms", self._searches(self._repeats.after, anew=True), 0.50)

    def _sizes(self, *, first: bool = False) -> tuple[int, int, int, int]:
        store_files, store_bytes = used(self._pair.store_folders)
        if self._pair.storer == "redis":
            store_bytes = used_bytes(self._pair.redis_url)
        index_files, index_bytes = used([self._pair.index_folder])
        if first and self._pair.storer != "redis":
            self._tell("store_files", store_files)
            self._tell("store_bytes", store_bytes)
        if first:
            self._tell("index_files", index_files)
            self._tell("index_bytes", index_bytes)
            self._tell("cache_bytes", used([self._pair.cache_folder])[1])
        return store_files, store_bytes, index_files, index_bytes

    # --- helpers ---------------------------------------------------------------------------------------------------

    def _query(self, number: int) -> str:
        return self._texts.query(number, self._size)

    def _searches(self, times: int, *, anew: bool = False) -> list[float]:
        """Time different queries; `anew` asks the first ones once more, to compare."""
        numbers = range(times) if anew else islice(self._asked, times)
        queries = [self._query(number) for number in numbers]
        return self._times(lambda number: self._solution.search(queries[number], top_k=_TOP_K), len(queries))

    def _times(self, run: Callable[[int], object], times: int) -> list[float]:
        return timed(run, times, least=self._repeats.least, stage_s=self._repeats.stage_s)

    def _percentiles(self, name: str, times: list[float], *shares: float) -> None:
        for share in shares:
            self._tell(f"{name}_p{share * 100:.0f}", percentile(times, share))
