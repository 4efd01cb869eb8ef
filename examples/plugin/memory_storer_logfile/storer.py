"""The storer: one `ScopeFile` per scope, and one change feed over all of them."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from itertools import groupby
from pathlib import Path

from memory_core.contracts import FEED_PAGE, Clock, MemoryStorer, Problem
from memory_core.errors import UnknownScopeError
from memory_core.feed import merge_changes
from memory_core.model import ChangeBatch, MemoryEntry, MemoryId
from memory_storer_logfile.log import ScopeFile


class LogfileStorer(MemoryStorer):
    """Keeps every change for ever, in a file per scope: simple, durable, safe for several processes.

    `files` maps scopes to files, from low to high priority.
    """

    def __init__(self, files: Mapping[str, Path], *, clock: Clock, fsync: bool = True) -> None:
        self._clock = clock
        self._files = {scope: ScopeFile(scope, path, clock, fsync=fsync) for scope, path in files.items()}

    def _file(self, scope: str) -> ScopeFile:
        try:
            return self._files[scope]
        except KeyError:
            raise UnknownScopeError(f"There is no scope {scope!r}; there are: {', '.join(self._files)}.") from None

    def put(self, entry: MemoryEntry) -> None:
        """Append the entry."""
        self._file(entry.id.scope).append([entry])

    def put_many(self, entries: Iterable[MemoryEntry]) -> int:
        """Append many entries with one flush to the disk per run of one scope."""
        count = 0
        for scope, group in groupby(entries, key=lambda entry: entry.id.scope):
            batch = list(group)
            self._file(scope).append(batch)
            count += len(batch)
        return count

    def get(self, id: MemoryId) -> MemoryEntry | None:
        """Return the live entry."""
        return self._file(id.scope).get(id)

    def remove(self, id: MemoryId) -> bool:
        """Append a removal, when there is something to remove."""
        file = self._file(id.scope)
        if file.get(id) is None:
            return False
        file.append([], [id])
        return True

    def scan(self, user_id: str | None = None, scope: str | None = None) -> Iterator[MemoryEntry]:
        """Yield the live entries, scope by scope."""
        now = self._clock.now()
        for file in self._files.values() if scope is None else [self._file(scope)]:
            yield from (entry for id, entry in file.live(now).items() if user_id is None or id.user_id == user_id)

    def changes(self, since: str | None, user_id: str, limit: int = FEED_PAGE) -> ChangeBatch:
        """Return the next batch over all scopes."""
        return merge_changes(self._files, since, user_id, limit)

    def purge_expired(self, now: datetime) -> int:
        """Append a removal for each expired entry."""
        return sum(file.purge(now) for file in self._files.values())

    def problems(self) -> list[Problem]:
        """Name the lines that cannot be read."""
        return [problem for file in self._files.values() for problem in file.problems()]
