"""One scope's file: a line per change, and the number of the line is the number of the change.

The first line names the file (its epoch). A line is `{"put": entry}` or `{"remove": [user, key]}`. A crash can leave
half a line at the end; readers stop before it and the next writer cuts it off.
"""

import json
import os
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from filelock import FileLock

from memory_core.contracts import Clock, Problem
from memory_core.errors import CorruptEntryError, StorageUnavailableError
from memory_core.feed import Change, LogState
from memory_core.forking import INNER, ForkLock
from memory_core.model import MemoryEntry, MemoryId
from memory_core.serial import from_fields, to_fields


def _removal(id: MemoryId) -> dict[str, Any]:
    return {"remove": [id.user_id, id.key]}


class ScopeFile:
    """Reads what other processes appended before each answer; appends under a lock that all processes share."""

    def __init__(self, scope: str, path: Path, clock: Clock, *, fsync: bool) -> None:
        self._scope, self._path, self._clock, self._fsync = scope, path, clock, fsync
        self._lock = ForkLock(INNER)
        self._forget()

    def _forget(self) -> None:
        self._epoch, self._epoch_line, self._offset, self._head = "", b"", 0, 0
        self.entries: dict[MemoryId, MemoryEntry] = {}
        self.broken: list[int] = []
        self._changed: dict[MemoryId, int] = {}
        self._by_user: defaultdict[str, list[tuple[int, MemoryId]]] = defaultdict(list)

    def live(self, now: datetime) -> dict[MemoryId, MemoryEntry]:
        """Return the entries that have not expired, as the file is now."""
        with self._lock:
            self._read()
            return {id: entry for id, entry in self.entries.items() if not entry.expired(now)}

    def get(self, id: MemoryId) -> MemoryEntry | None:
        """Return one live entry."""
        with self._lock:
            self._read()
            entry = self.entries.get(id)
            return None if entry is None or entry.expired(self._clock.now()) else entry

    def append(self, entries: Sequence[MemoryEntry], removals: Sequence[MemoryId] = ()) -> None:
        """Write changes to the end of the file; durable on return."""
        puts, removed = [{"put": to_fields(entry)} for entry in entries], [_removal(id) for id in removals]
        self._append(lambda: [*puts, *removed])

    def purge(self, now: datetime) -> int:
        """Append a removal for each expired entry; return how many."""
        if len(self.live(now)) == len(self.entries):
            return 0
        return self._append(lambda: [_removal(id) for id, entry in self.entries.items() if entry.expired(now)])

    def _append(self, decide: Callable[[], list[dict[str, Any]]]) -> int:
        """Write what `decide` returns once nobody else writes and all that others have written is known."""
        with self._lock:
            try:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                with FileLock(f"{self._path}.lock"):
                    self._read()
                    records = decide()
                    self._write(records)
                    self._read()
                return len(records)
            except OSError as error:
                raise StorageUnavailableError(f"Nothing could be written to {self._path}: {error.strerror}.") from error

    def _write(self, records: list[dict[str, Any]]) -> None:
        new = self._offset == 0
        lines = [{"epoch": uuid4().hex}, *records] if new else records
        data = b"".join(json.dumps(line, ensure_ascii=False).encode() + b"\n" for line in lines)
        with open(self._path, "ab") as file:
            try:
                file.truncate(self._offset)  # half a line of a writer that crashed
                file.write(data)
                file.flush()
                if self._fsync:
                    os.fsync(file.fileno())
            except OSError:
                os.truncate(self._path, self._offset)
                raise
        if new and self._fsync:
            folder = os.open(self._path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    def _read(self) -> None:
        """Take over the whole lines that were appended since the last time."""
        try:
            with open(self._path, "rb") as file:
                epoch = file.readline()
                if self._offset and (epoch != self._epoch_line or os.fstat(file.fileno()).st_size < self._offset):
                    self._forget()  # another file stands in its place
                file.seek(self._offset)
                for line in file:
                    if not line.endswith(b"\n"):
                        break
                    self._take(line)
                    self._offset += len(line)
        except FileNotFoundError:
            self._forget()
        except OSError as error:
            raise StorageUnavailableError(f"{self._path} cannot be read: {error.strerror}.") from error

    def _take(self, line: bytes) -> None:
        if self._offset == 0:
            self._epoch_line = line
            self._epoch = line.decode(errors="replace").strip()
            return
        self._head += 1
        try:
            record: dict[str, Any] = json.loads(line)
            if "put" in record:
                entry = from_fields(record["put"])
                self.entries[entry.id] = entry
                self._number(entry.id)
            else:
                user, key = record["remove"]
                id = MemoryId(self._scope, user, key)
                self.entries.pop(id, None)
                self._number(id)
        except (ValueError, TypeError, KeyError, CorruptEntryError):
            self.broken.append(self._head + 1)

    def _number(self, id: MemoryId) -> None:
        self._changed[id] = self._head
        self._by_user[id.user_id].append((self._head, id))

    def state(self, user_id: str) -> LogState:
        """Return where the log stands for that user; nothing is ever dropped from it, so its floor is 0."""
        with self._lock:
            self._read()
            numbered = self._by_user.get(user_id)
            return LogState(self._epoch, 0, numbered[-1][0] if numbered else 0)

    def page(self, user_id: str, after: int, limit: int) -> Sequence[Change]:
        """Return that user's changes after a number, each key once, with its last state."""
        now = self._clock.now()
        with self._lock:
            numbered = self._by_user.get(user_id, [])
            start = bisect_right(numbered, after, key=lambda change: change[0])
            page: list[Change] = []
            for number, id in numbered[start:]:
                if self._changed[id] == number:
                    entry = self.entries.get(id)
                    page.append(Change(number, id, None if entry is None or entry.expired(now) else entry))
                    if len(page) == limit:
                        break
            return page

    def problems(self) -> list[Problem]:
        """Name the lines that cannot be read."""
        with self._lock:
            self._read()
            return [
                Problem("warning", "broken-line", "This line is not a change.", f"{self._path}:{line}", "Remove it.")
                for line in self.broken
            ]
