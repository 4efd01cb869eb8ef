"""A provider's cache: one solution per working directory, bounded, closed on eviction."""

from abc import abstractmethod
from collections import OrderedDict
from pathlib import Path

from memory_core.contracts import MemorySolution, MemorySolutionProvider
from memory_core.forking import OUTER, ForkLock

MAX_OPEN_SOLUTIONS = 32


class CachingProvider(MemorySolutionProvider):
    """Base of providers: implement `build`; `get` caches by real path and closes what was not used for longest."""

    def __init__(self, max_open: int = MAX_OPEN_SOLUTIONS) -> None:
        self._open: OrderedDict[Path, MemorySolution] = OrderedDict()
        self._lock = ForkLock(OUTER)
        self._max_open = max(1, max_open)

    @abstractmethod
    def build(self, cwd: Path) -> MemorySolution:
        """Make the solution for a working directory, given as its real path."""

    def get(self, cwd: Path | str) -> MemorySolution:
        """Return the solution for `cwd`; the same object for the same real directory while it is open."""
        path = Path(cwd).expanduser().resolve()
        with self._lock:
            solution = self._open.get(path)
            if solution is None:
                solution = self._open[path] = self.build(path)
            self._open.move_to_end(path)
            while len(self._open) > self._max_open:
                self._open.popitem(last=False)[1].close()
            return solution

    def close(self) -> None:
        """Close every solution that is open."""
        with self._lock:
            while self._open:
                self._open.popitem()[1].close()
