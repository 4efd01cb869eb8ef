"""Measures one store with one searcher in this process, stage by stage; each figure is told when it is known."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
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
_PAUSE_S = 0.1


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


def measure(
    pair: BenchPair, texts: Texts, size: int, *, repeats: Repeats, tell: Tell, stage: Callable[[str], None]
) -> None:
    """Measure a filled store: index, size on disk, writes, searches, injection, growth by single upserts.

    Raises:
        MemoryCoreError: A backend failed, or a written memory was not found.

    """
    provider = pair.open()
    try:
        solution = provider.get(pair.work)
        numbers = (count(), count(size))
        _Measurement(pair, provider, texts, size, repeats, tell, solution, *numbers).run(stage)
    finally:
        provider.close()


@dataclass(slots=True)
class _Measurement:
    pair: BenchPair
    provider: MemorySolutionProvider
    texts: Texts
    size: int
    repeats: Repeats
    tell: Tell
    solution: MemorySolution
    asked: Iterator[int]
    fresh: Iterator[int]

    def run(self, stage: Callable[[str], None]) -> None:
        for name in ("index", "write", "visible", "search", "hot", "injection", "growth"):
            stage(name)
            getattr(self, f"_{name}")()

    def _index(self) -> None:
        start = time.perf_counter()
        self.solution.sync()
        while any(problem.code == "arm-behind" for problem in self.solution.problems()):
            time.sleep(_PAUSE_S)  # a hybrid answers before its vectors are made; what it costs then passes
        self.tell("index_s", time.perf_counter() - start)
        for number in range(_WARM_UP):
            self.solution.search(self._query(number))

    def _write(self) -> None:
        entries = [self.texts.entry(number, datetime.now(UTC)) for number in islice(self.fresh, self.repeats.writes)]

        def write(number: int) -> None:
            entry = entries[number]
            self.solution.remember(entry.id.key, entry.content, entry.importance, scope=entry.id.scope)

        self._percentiles("write_ms", self._times(write, len(entries)), 0.50, 0.95)

    def _visible(self) -> None:
        numbers = list(islice(self.fresh, self.repeats.visible))

        def appear(number: int) -> None:
            key = self.texts.key(numbers[number])
            text = f"{self.texts.text(numbers[number])} ({key})"
            self.solution.remember(key, text)
            give_up = time.perf_counter() + _VISIBLE_S
            while not any(hit.entry.content == text for hit in self.solution.search(text, top_k=_SEEN_IN)):
                if time.perf_counter() > give_up:
                    raise MemoryCoreError(f"a written memory was not found within {_VISIBLE_S:g} s")

        self._percentiles("visible_ms", self._times(appear, len(numbers)), 0.50, 0.95)

    def _search(self) -> None:
        self.solution.sync()
        times = self._searches(self.repeats.searches)
        self._percentiles("search_ms", times, 0.50, 0.95, *([0.99] if len(times) >= 100 else []))

    def _hot(self) -> None:
        query = self._query(0)
        times = self._times(lambda _: self.solution.search(query, top_k=_TOP_K), self.repeats.hot)
        self._percentiles("hot_ms", times, 0.50)

    def _injection(self) -> None:
        talent = MemoryTalent(self.provider)
        queries = [self._query(next(self.asked)) for _ in range(self.repeats.injections)]
        talent.instruction(queries[0], cwd=self.pair.work)
        times = self._times(lambda number: talent.instruction(queries[number], cwd=self.pair.work), len(queries))
        self._percentiles("injection_ms", times, 0.50, 0.95)

    def _growth(self) -> None:
        store_files, store_bytes, index_files, index_bytes = self._sizes(first=True)
        before = self._searches(self.repeats.after, anew=True)
        start, done = time.perf_counter(), 0
        for number in range(self.repeats.upserts):
            entry = self.texts.entry(number % self.size, datetime.now(UTC))
            text = f"{self.texts.text(self.size + number)} Now."
            self.solution.remember(entry.id.key, text, entry.importance, scope=entry.id.scope)
            self.solution.sync()
            done += 1
            if time.perf_counter() - start > 4 * self.repeats.stage_s:
                break
        self.tell("upserts_s", time.perf_counter() - start)
        self.tell("upserts", done)
        grown = self._sizes()
        self.tell("grown_store_files", grown[0] - store_files)
        self.tell("grown_store_bytes", grown[1] - store_bytes)
        self.tell("grown_index_files", grown[2] - index_files)
        self.tell("grown_index_bytes", grown[3] - index_bytes)
        self._percentiles("before_ms", before, 0.50)
        self._percentiles("after_ms", self._searches(self.repeats.after, anew=True), 0.50)

    def _sizes(self, *, first: bool = False) -> tuple[int, int, int, int]:
        store_files, store_bytes = used(self.pair.store_folders)
        if self.pair.storer == "redis":
            store_bytes = used_bytes(self.pair.redis_url)
        index_files, index_bytes = used([self.pair.index_folder])
        if first and self.pair.storer != "redis":
            self.tell("store_files", store_files)
            self.tell("store_bytes", store_bytes)
        if first:
            self.tell("index_files", index_files)
            self.tell("index_bytes", index_bytes)
            self.tell("cache_bytes", used([self.pair.cache_folder])[1])
        return store_files, store_bytes, index_files, index_bytes

    # --- helpers ---------------------------------------------------------------------------------------------------

    def _query(self, number: int) -> str:
        return self.texts.query(number, self.size)

    def _searches(self, times: int, *, anew: bool = False) -> list[float]:
        """Time different queries; `anew` asks the first ones once more, to compare."""
        numbers = range(times) if anew else islice(self.asked, times)
        queries = [self._query(number) for number in numbers]
        return self._times(lambda number: self.solution.search(queries[number], top_k=_TOP_K), len(queries))

    def _times(self, run: Callable[[int], object], times: int) -> list[float]:
        return timed(run, times, least=self.repeats.least, stage_s=self.repeats.stage_s)

    def _percentiles(self, name: str, times: list[float], *shares: float) -> None:
        for share in shares:
            self.tell(f"{name}_p{share * 100:.0f}", percentile(times, share))
