"""The end of a long run: a fresh process reads store and index and writes down all that it sees."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

from memory_core.contracts import MemorySolution
from memory_core.evaluation.bench_pair import BenchPair
from memory_core.evaluation.long_run.history import History, Seen, Write, read_line
from memory_core.evaluation.long_run.journal import Journal, lines
from memory_core.evaluation.long_run.player import EVERYTHING, TOP_K
from memory_core.evaluation.long_run.stories import Stories, scope_of
from memory_core.model import SHARED_USER_ID, MemoryEntry, MemoryId

SEARCHED = 400
"""So many living and so many removed or replaced texts are searched for; all are where there are fewer."""


def verify(pair: BenchPair, seed: int, journals: Sequence[Path], target: Path) -> None:
    """Compare store, index and model by what a new process sees; the judge reads it from the journal `target`."""
    history = History(event for path in journals for event in map(read_line, lines(path)) if isinstance(event, Write))
    provider = pair.open()
    journal = Journal(target)
    try:
        Verification(provider.get(pair.work), history, Stories(seed), journal, Random(seed)).run()
    except Exception as error:  # noqa: BLE001 - whatever a backend raises is what is being looked for
        journal.line({"error": f"final check: {type(error).__name__}: {error}"})
    finally:
        journal.close()
        provider.close()


class Verification:
    """What one process sees of store and index, written down in its journal."""

    def __init__(
        self, solution: MemorySolution, history: History, stories: Stories, journal: Journal, source: Random
    ) -> None:
        self._solution = solution
        self._history = history
        self._stories = stories
        self._journal = journal
        self._source = source

    def run(self) -> None:
        """Read everything, and search for what is there and for what is not."""
        self.everything("the store in the end", self._read_store)
        self.everything("the list in the end", lambda: self._solution.list_all(limit=EVERYTHING))
        self._searches()
        for problem in self._solution.problems():
            if problem.severity == "error":
                self._journal.line({"error": f"final check: {problem.code}: {problem.message}"})

    def _read_store(self) -> list[MemoryEntry]:
        return list(self._solution.storer.scan(SHARED_USER_ID))

    def everything(self, how: str, read: Callable[[], Sequence[MemoryEntry]]) -> None:
        """Write down every key that is there and, of all that were ever written, every one that is not.

        What expires while it is read may still be shown.
        """
        begin = time.time()
        entries = read()
        end = time.time()
        there = {entry.id.key: self._stories.read(entry) for entry in entries}
        for key, stamp in there.items():
            self._journal.note(Seen(key, stamp, begin, end, how))
        for key in self._history.keys:
            if key not in there:
                self._journal.note(Seen(key, None, begin, end, how))
        if len(there) < len(entries):
            self._journal.line({"error": f"{how}: one key is there twice"})
        self._journal.line({"entries": len(entries)})

    def _searches(self) -> None:
        now = time.time()
        living = [(key, write.stamp) for key in self._history.keys if (write := self._history.current(key, now))]
        stale = self._history.stale()
        for key, stamp in self._source.sample(living, min(SEARCHED, len(living))):
            self._search(str(stamp), "search in the end", key)
        for _, stamp in self._source.sample(stale, min(SEARCHED, len(stale))):
            self._search(stamp, "search for a removed text in the end")

    def _search(self, stamp: str, how: str, expected: str | None = None) -> None:
        begin = time.time()
        found = [hit.entry for hit in self._solution.search(self._stories.text(stamp), top_k=TOP_K)]
        end = time.time()
        for entry in found:
            self._journal.note(Seen(entry.id.key, self._stories.read(entry), begin, end, how))
            if self._solution.storer.get(entry.id) not in (entry, None):
                self._journal.line({"ghost": f"{how}: {entry.id.key} differs from what the store has"})
        if expected is None or any(entry.id.key == expected for entry in found):
            return
        # A key of several writers may hold another text than the one that was looked for: then it proves nothing.
        stored = self._solution.storer.get(MemoryId(scope_of(expected), SHARED_USER_ID, expected))
        if stored is not None and self._stories.read(stored) == stamp:
            self._journal.note(Seen(expected, None, begin, end, how))
