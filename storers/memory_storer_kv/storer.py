"""The storer over the files of all scopes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from pathlib import Path

from memory_core.clock import SystemClock
from memory_core.contracts import FEED_PAGE, Clock, MemoryStorer, Problem
from memory_core.errors import CorruptEntryError, StorageUnavailableError, UnknownScopeError, did_you_mean
from memory_core.feed import merge_changes
from memory_core.model import ChangeBatch, MemoryEntry, MemoryId, clean_name
from memory_core.serial import readable_entries, stored_entry
from memory_storer_kv import FILE_NAME
from memory_storer_kv.connections import Durability
from memory_storer_kv.scope_file import ScopeFile

_BATCH = 500


class KvStorer(MemoryStorer):
    """Memories in one SQLite file per scope, in write-ahead mode: many processes read and write at once.

    Args:
        scopes: Scope → folder, low to high priority. Nothing is made before the first write.
        clock: Decides what has expired.
        durability: `"full"` waits for the disk with each write, `"normal"` only now and then.
        busy_timeout_s: How long a write waits for other processes.
        tombstones: How many removals are remembered for each user's followers.
    """

    def __init__(
        self,
        scopes: Mapping[str, Path | str],
        *,
        clock: Clock | None = None,
        durability: Durability = "full",
        busy_timeout_s: float = 30.0,
        tombstones: int = 10_000,
    ) -> None:
        clock = clock or SystemClock()
        self._files = {
            scope: ScopeFile(
                scope,
                Path(folder).expanduser() / FILE_NAME,
                clock,
                durability=durability,
                busy_timeout_s=busy_timeout_s,
                tombstones=tombstones,
            )
            for scope, folder in scopes.items()
        }

    def put(self, entry: MemoryEntry) -> None:  # noqa: D102 - the contract says it
        self._file(entry.id.scope).put([entry])

    def put_many(self, entries: Iterable[MemoryEntry]) -> int:
        """Store many entries, some hundred in one transaction; see the contract."""
        count, rest = 0, iter(entries)
        while batch := list(islice(rest, _BATCH)):
            by_scope: dict[str, list[MemoryEntry]] = {}
            for entry in batch:
                self._file(entry.id.scope)
                by_scope.setdefault(entry.id.scope, []).append(entry)
            for scope, some in by_scope.items():
                self._files[scope].put(some)
            count += len(batch)
        return count

    def get(self, id: MemoryId) -> MemoryEntry | None:  # noqa: D102 - the contract says it
        return self._file(id.scope).get(id)

    def get_many(self, ids: Sequence[MemoryId]) -> dict[MemoryId, MemoryEntry]:  # noqa: D102 - the contract says it
        by_scope: dict[str, list[MemoryId]] = {}
        for id in ids:
            self._file(id.scope)
            by_scope.setdefault(id.scope, []).append(id)
        return {entry.id: entry for scope, some in by_scope.items() for entry in self._files[scope].get_many(some)}

    def remove(self, id: MemoryId) -> bool:  # noqa: D102 - the contract says it
        return self._file(id.scope).remove(id)

    def scan(self, user_id: str | None = None, scope: str | None = None) -> Iterator[MemoryEntry]:
        """Yield live entries; what cannot be read is logged and left out. See the contract."""
        user_id = None if user_id is None else clean_name(user_id, "user id")
        return self._scan(user_id, list(self._files.values()) if scope is None else [self._file(scope)])

    def _scan(self, user_id: str | None, files: Sequence[ScopeFile]) -> Iterator[MemoryEntry]:
        for file in files:
            yield from readable_entries(file.rows(user_id))

    def users(self) -> list[str]:  # noqa: D102 - the contract says it
        return sorted({user for file in self._files.values() for user in file.users()})

    def changes(self, since: str | None, user_id: str, limit: int = FEED_PAGE) -> ChangeBatch:  # noqa: D102
        return merge_changes(self._files, since, clean_name(user_id, "user id"), limit)

    def purge_expired(self, now: datetime) -> int:  # noqa: D102 - the contract says it
        return sum(file.purge_expired(now) for file in self._files.values())

    def problems(self) -> list[Problem]:
        """Name files that are damaged or out of reach, and memories that cannot be read."""
        return [problem for file in self._files.values() for problem in self._problems_of(file)]

    def _problems_of(self, file: ScopeFile) -> Iterator[Problem]:
        where = str(file.path)
        try:
            damage = file.damage()
            if damage is not None:
                advice = "Move the file away and restore a backup, or import an export."
                yield Problem("error", "kv-damaged", f"The file is damaged: {damage}", where, advice)
                return
            for id, body in file.rows(None):
                try:
                    stored_entry(id, body)
                except CorruptEntryError as error:
                    yield Problem(
                        "error", "kv-unreadable-entry", str(error), where, "Store this memory again, or remove it."
                    )
        except StorageUnavailableError as error:
            yield Problem("error", "kv-unavailable", str(error), where)

    def close(self) -> None:  # noqa: D102 - the contract says it
        for file in self._files.values():
            file.close()

    def _file(self, scope: str) -> ScopeFile:
        file = self._files.get(scope)
        if file is None:
            raise UnknownScopeError(
                f"There is no scope {scope!r}.{did_you_mean(scope, self._files)} There are: {', '.join(self._files)}."
            )
        return file
