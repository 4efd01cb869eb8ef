"""One process' day: mixed operations on a solution, each written down with when it began and ended."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random

from memory_core.contracts import MemorySolution
from memory_core.evaluation.long_run.history import NEVER, Seen, Write
from memory_core.evaluation.long_run.journal import Journal
from memory_core.evaluation.long_run.stories import Stories, own_key, scope_of, shared_key
from memory_core.model import MemoryEntry

TOP_K = 10
EVERYTHING = 1_000_000
LISTED = 60
"""So many entries of a full listing are written down; all of the process' own are looked for."""

WEIGHTS = {
    "remember": 24,
    "update": 14,
    "forget": 8,
    "search_own": 16,
    "search_gone": 4,
    "search_any": 8,
    "recall_own": 6,
    "recall_other": 5,
    "list": 2,
    "merge": 4,
    "short_lived": 4,
    "share": 3,
    "recall_shared": 2,
}
"""How often each operation happens, relative to the others."""


@dataclass(slots=True)
class Player:
    """Does operations and knows what its own keys must hold.

    `live` are key → stamp of its own keys; what it stored for a second only stays in there until it is looked up.
    """

    solution: MemorySolution
    journal: Journal
    stories: Stories
    process: int
    processes: int
    source: Random
    live: dict[str, str] = field(default_factory=dict[str, str])
    gone: list[str] = field(default_factory=list[str])
    keys: int = 0
    versions: int = 0

    def resume(self, events: Iterable[Write]) -> None:
        """Take over what a process of the same number did before."""
        for write in events:
            self._learn(write)

    def play(self, operations: int) -> None:
        """Do that many operations; one that fails is written down and the next one is done."""
        names, weights = list(WEIGHTS), list(WEIGHTS.values())
        for _ in range(operations):
            name = self.source.choices(names, weights)[0]
            if not self.live and name not in ("share", "recall_shared", "short_lived"):
                name = "remember"
            action: Callable[[], None] = getattr(self, f"_{name}")
            begin = time.time()
            try:
                action()
            except Exception as error:  # noqa: BLE001 - whatever a backend raises is what is being looked for
                self.journal.line({"error": f"{name}: {type(error).__name__}: {error}"})
            self.journal.line({"op": [name, begin, time.time()]})

    # --- writing ---------------------------------------------------------------------------------------------------

    def _remember(self) -> None:
        self.keys += 1
        self._store(own_key(self.process, self.keys))

    def _update(self) -> None:
        self._store(self._own())

    def _short_lived(self) -> None:
        self.keys += 1
        self._store(own_key(self.process, self.keys), ttl_s=1)

    def _share(self) -> None:
        key = shared_key(self.source.randrange(100))
        if self.source.random() < 0.25:
            self._removed([key], lambda: self.solution.forget(key))
        else:
            self._store(key)

    def _store(self, key: str, ttl_s: int | None = None) -> None:
        stamp = self._stamp()
        text, importance = self.stories.text(stamp), self.source.randint(1, 10)
        begin = time.time()
        try:
            entry = self.solution.remember(key, text, importance, scope=scope_of(key), ttl_s=ttl_s).entry
        except BaseException:
            self.journal.note(Write(key, stamp, begin, NEVER))
            raise
        expires = NEVER if entry.expires_at is None else entry.expires_at.timestamp()
        self._done(Write(key, stamp, begin, time.time(), expires))

    def _forget(self) -> None:
        key = self._own()
        self._removed([key], lambda: self.solution.forget(key))

    def _merge(self) -> None:
        merged = list({self._own() for _ in range(3)})
        self.keys += 1
        target, stamp = own_key(self.process, self.keys), self._stamp()

        def consolidate() -> None:
            begin = time.time()
            self.solution.consolidate(merged, target, self.stories.text(stamp), scope=scope_of(target))
            self._done(Write(target, stamp, begin, time.time()))

        self._removed(merged, consolidate)

    def _removed(self, keys: list[str], remove: Callable[[], object]) -> None:
        begin, end = time.time(), NEVER
        try:
            remove()
            end = time.time()
        finally:
            for key in keys:
                self._done(Write(key, None, begin, end))

    def _done(self, write: Write) -> None:
        self.journal.note(write)
        self._learn(write)

    def _learn(self, write: Write) -> None:
        """Bring what this process knows of its own keys up to one of its writes."""
        if write.stamp is not None:
            self.versions = max(self.versions, int(write.stamp.partition("x")[2][:-1]))
        if not write.key.startswith(f"p{self.process}-"):
            return
        self.keys = max(self.keys, int(write.key.partition("-")[2]))
        before = self.live.pop(write.key, None)
        if before is not None:
            self.gone.append(before)
        if write.stamp is not None:
            self.live[write.key] = write.stamp

    def _stamp(self) -> str:
        self.versions += 1
        return self.stories.stamp(self.process, self.versions)

    def _own(self) -> str:
        return self.source.choice(list(self.live))

    # --- reading ---------------------------------------------------------------------------------------------------

    def _search_own(self) -> None:
        key = self._own()
        self._searched(self.stories.text(self.live[key]), "search", key)

    def _search_gone(self) -> None:
        if self.gone:
            self._searched(self.stories.text(self.source.choice(self.gone)), "search for a removed text")

    def _search_any(self) -> None:
        other = self.source.randrange(self.processes)
        number = self.source.randint(1, max(1, self.versions))
        self._searched(self.stories.text(self.stories.stamp(other, number)), "search for another's text")

    def _searched(self, text: str, how: str, expected: str | None = None) -> None:
        begin = time.time()
        hits = self.solution.search(text, top_k=TOP_K)
        self._saw([hit.entry for hit in hits], begin, time.time(), how, [] if expected is None else [expected])

    def _recall_own(self) -> None:
        self._recalled(self._own())

    def _recall_other(self) -> None:
        other = self.source.randrange(self.processes)
        self._recalled(own_key(other, self.source.randint(1, max(1, self.keys))))

    def _recall_shared(self) -> None:
        self._recalled(shared_key(self.source.randrange(100)))

    def _recalled(self, key: str) -> None:
        begin = time.time()
        entry = self.solution.recall(key)
        self._saw([] if entry is None else [entry], begin, time.time(), "recall", [key])

    def _list(self) -> None:
        begin = time.time()
        entries = self.solution.list_all(limit=EVERYTHING)
        end = time.time()
        there = {entry.id.key for entry in entries}
        missing = [key for key in self.live if key not in there]
        shown = self.source.sample(entries, min(LISTED, len(entries)))
        self._saw(shown, begin, end, "list", missing)
        if len(there) < len(entries):
            self.journal.line({"error": "list: one key was listed twice"})

    def _saw(self, entries: list[MemoryEntry], begin: float, end: float, how: str, expected: list[str]) -> None:
        """Write down what a read showed, and that the expected keys were not among it when they were not."""
        there = {entry.id.key for entry in entries}
        for entry in entries:
            self.journal.note(Seen(entry.id.key, self.stories.read(entry), begin, end, how))
        for key in expected:
            if key not in there:
                self.journal.note(Seen(key, None, begin, end, how))
        if len(there) < len(entries):
            self.journal.line({"error": f"{how}: one key was found twice"})
