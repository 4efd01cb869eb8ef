"""One scope: its directory, its manifest, and the writes that keep both in step."""

import logging
import os
import sqlite3
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from memory_core.contracts import Problem
from memory_core.errors import InvalidEntryError, StorageUnavailableError
from memory_core.feed import Change, LogState
from memory_core.forking import INNER, ForkLock
from memory_core.model import MemoryEntry, MemoryId
from memory_core.naming import slug
from memory_storer_markdown.disk import ScopeDisk, Temporary
from memory_storer_markdown.frontmatter import render
from memory_storer_markdown.manifest import STATE_DIR, Manifest
from memory_storer_markdown.sweep import Sweeper, read_entry, settled, signature, store_row

log = logging.getLogger(__name__)

_PAGE = 64
"""How many files wait for the disk together; other writers wait for them."""


@dataclass(frozen=True, slots=True)
class _Staged:
    """One entry on its way: its temporary file, where that goes, and what was `found` there before."""

    entry: MemoryEntry
    path: str
    name: str
    extra: str
    found: str | None
    file: Temporary


@dataclass(frozen=True, slots=True)
class _Doomed:
    """A file to delete, as the manifest knows it; `counts` says whether it is an entry that others see."""

    path: str
    name: str
    signature: str
    user: str
    key: str
    counts: int


class ScopeDirectory:
    """The entries of one scope as `<root>/<user>/<key>.md`; safe for several threads and processes.

    `now` is asked for each read, so that what has expired is not there.
    """

    def __init__(self, name: str, root: Path, *, fsync: bool, max_file_bytes: int) -> None:
        self.name = name
        self.root = root
        self._disk = ScopeDisk(root, fsync=fsync)
        self._max_file_bytes = max_file_bytes
        self._lock = ForkLock(INNER)
        self._manifest: Manifest | None = None
        self._sweeper = Sweeper(root, name, max_file_bytes)

    @contextmanager
    def _reading(self, user_id: str | None, *, sweep: bool = True) -> Generator[Manifest | None]:
        """Give the manifest in step with the files, or None where there is no directory yet.

        `sweep=False` takes it as it is: for the later pages of one reading.
        """
        with self._lock, self._driver_errors():
            try:
                manifest = self._open()
                if manifest is not None and sweep:
                    self._sweeper.refresh(manifest, user_id)
            except StorageUnavailableError:
                raise
            except OSError as error:
                raise StorageUnavailableError(
                    f"The memories in {self.root} cannot be read: {error.strerror or error} ({error.filename})."
                ) from error
            yield manifest

    def _open(self) -> Manifest | None:
        """Return the open manifest; None where the scope has no directory yet."""
        if self._manifest is not None and self._manifest.stale():
            self.close()
        if self._manifest is None:
            if not self.root.is_dir():
                return None
            self._manifest = Manifest(self.root)
            self._sweeper = Sweeper(self.root, self.name, self._max_file_bytes)
        return self._manifest

    @contextmanager
    def _driver_errors(self) -> Generator[None]:
        try:
            yield
        except sqlite3.Error as error:
            self.close()
            raise StorageUnavailableError(
                f"The memories in {self.root} cannot be used: {error}. If this stays, delete {self.root / STATE_DIR}: "
                "it is rebuilt from the files."
            ) from error

    # --- reading ---------------------------------------------------------------------------------------------------

    def get(self, user_id: str, keys: Sequence[str], now: float) -> list[MemoryEntry]:
        """Return the live entries among `keys`."""
        found: list[MemoryEntry] = []
        with self._reading(user_id) as manifest:
            if manifest is not None:
                for key in keys:
                    row = manifest.db.execute(
                        "SELECT f.entry FROM latest l JOIN files f ON f.path = l.path "
                        "WHERE l.user = ? AND l.key = ? AND (f.expires IS NULL OR f.expires > ?)",
                        (user_id, key, now),
                    ).fetchone()
                    if row is not None:
                        found.append(read_entry(row[0], self.name))
        return found

    def scan(self, user_id: str | None, now: float, page: int = 500) -> Iterator[MemoryEntry]:
        """Yield the live entries, page by page, without holding a lock in between."""
        after = ("", "")
        while True:
            with self._reading(user_id, sweep=not after[0]) as manifest:
                if manifest is None:
                    return
                rows = manifest.db.execute(
                    "SELECT l.user, l.key, f.entry FROM latest l JOIN files f ON f.path = l.path "
                    "WHERE (l.user, l.key) > (?, ?) AND (? IS NULL OR l.user = ?) "
                    "AND (f.expires IS NULL OR f.expires > ?) ORDER BY l.user, l.key LIMIT ?",
                    (*after, user_id, user_id, now, page),
                ).fetchall()
            for _, _, text in rows:
                yield read_entry(text, self.name)
            if len(rows) < page:
                return
            after = rows[-1][:2]

    def users(self, now: float) -> set[str]:
        """Return who has live entries here."""
        with self._reading(None) as manifest:
            if manifest is None:
                return set()
            rows = manifest.db.execute(
                "SELECT DISTINCT l.user FROM latest l JOIN files f ON f.path = l.path "
                "WHERE f.expires IS NULL OR f.expires > ?",
                (now,),
            )
            return {str(user) for (user,) in rows}

    def state(self, user_id: str) -> LogState:
        """Return where this scope's log stands for one user; also what brings it in step with the files."""
        with self._reading(user_id) as manifest:
            if manifest is None:
                return LogState("none", 0, 0)
            floor, head = manifest.db.execute(
                "SELECT (SELECT floor FROM floors WHERE user = ?1), (SELECT max(number) FROM latest WHERE user = ?1)",
                (user_id,),
            ).fetchone()
            return LogState(manifest.epoch, floor or 0, max(head or 0, floor or 0))

    def page(self, user_id: str, after: int, limit: int, now: float) -> list[Change]:
        """Return one user's changes with numbers above `after`; what has expired counts as gone."""
        with self._lock, self._driver_errors():
            manifest = self._open()
            if manifest is None:
                return []
            rows = manifest.db.execute(
                "SELECT l.number, l.key, f.entry, f.expires FROM latest l LEFT JOIN files f ON f.path = l.path "
                "WHERE l.user = ? AND l.number > ? ORDER BY l.number LIMIT ?",
                (user_id, after, limit),
            ).fetchall()
        return [
            Change(
                number,
                MemoryId(self.name, user_id, key),
                read_entry(text, self.name) if text is not None and (expires is None or expires > now) else None,
            )
            for number, key, text, expires in rows
        ]

    # --- writing ---------------------------------------------------------------------------------------------------

    def put(self, entries: Sequence[MemoryEntry]) -> None:
        """Write entries, some at a time: their files, one wait for the disk, one transaction of the manifest.

        Each is written atomically, all are durable on return. Of several with one key the last counts.

        Raises:
            InvalidEntryError: One is too large for a file.
            StorageUnavailableError: One could not be written. In both cases each of the others is there, or not.
        """
        with self._lock, self._driver_errors(), self._file_errors("written"):
            manifest = self._open()
            if manifest is None:
                self.root.mkdir(parents=True, exist_ok=True)
                manifest = self._open()
                assert manifest is not None
            self._disk.clean()
            for start in range(0, len(entries), _PAGE):
                page: dict[MemoryId, MemoryEntry] = {}
                for entry in entries[start : start + _PAGE]:
                    page.pop(entry.id, None)  # what comes again takes its last place
                    page[entry.id] = entry
                self._put(manifest, page.values())

    def _put(self, manifest: Manifest, entries: Collection[MemoryEntry]) -> None:
        staged: list[_Staged] = []
        with manifest.writing():
            try:
                for user in {entry.id.user_id for entry in entries}:
                    self._disk.user_directory(user)
                for entry in entries:
                    staged.append(self._stage(manifest, entry, staged))
                for item in staged:
                    item.file.finish(fsync=self._disk.fsync)
                for place, item in enumerate(staged):
                    if self._disk.signature(item.path) != item.found:
                        # Somebody wrote this very file while the others were on their way to the disk.
                        item.file.discard()
                        staged[place] = self._stage(manifest, item.entry, staged)
                        staged[place].file.finish(fsync=self._disk.fsync)
                    self._settle(manifest, staged[place])
            except BaseException:
                for item in staged:
                    item.file.discard()
                raise
        self._disk.sync(*{item.name for item in staged})

    def _stage(self, manifest: Manifest, entry: MemoryEntry, others: Iterable["_Staged"]) -> "_Staged":
        """Write an entry's temporary file and find out where it goes; only inside `writing`."""
        user, key = entry.id.user_id, entry.id.key
        row = self._place(manifest, user, key)
        if row and row[3] != self._disk.signature(row[0]):
            # Somebody edited this file since it was read: keep what it says beside the entry, and leave it alone
            # when it can no longer be read.
            self._sweeper.take_over(manifest, row[2])
            row = self._place(manifest, user, key)
        if row:
            path, extra, name, _ = row
            found = self._disk.signature(path)
        else:
            path, extra, name, found = (
                self._disk.free_path(entry.id, {item.path for item in others}),
                "",
                slug(user),
                None,
            )
        text = render(entry, extra)
        if len(text) > self._max_file_bytes // 4 and len(text.encode()) > self._max_file_bytes:
            raise InvalidEntryError(
                f"The memory {key!r} is larger than {self._max_file_bytes >> 20} MiB, the limit of one file "
                "(option max_file_mb of [storers.markdown])."
            )
        return _Staged(entry, path, name, extra, found, self._disk.temporary(text))

    def _settle(self, manifest: Manifest, item: "_Staged") -> None:
        """Rename a staged file to its place and write down what it says; only inside `writing`."""
        full = f"{self._disk.root}/{item.path}"
        with self._in_step(manifest, item.name):
            item.file.rename(full)
        state = os.stat(full)
        store_row(manifest, item.name, item.path, signature(state), state.st_mtime_ns, item.entry, item.extra)
        manifest.record(item.entry.id.user_id, item.entry.id.key, item.path)

    @contextmanager
    def _in_step(self, manifest: Manifest, name: str) -> Generator[None]:
        """Keep a directory's recorded time in step over a change of ours; only inside `writing`.

        Without it each change of our own would look like somebody else's, and the next read would go over all files.
        """
        known = manifest.db.execute("SELECT mtime_ns FROM dirs WHERE dir = ?", (name,)).fetchone()
        in_step = known is not None and self._disk.mtime_ns(name) == known[0]
        yield
        if in_step:
            manifest.db.execute("UPDATE dirs SET mtime_ns = ? WHERE dir = ?", (self._disk.mtime_ns(name), name))

    @staticmethod
    def _place(manifest: Manifest, user: str, key: str) -> tuple[str, str, str, str] | None:
        """Return path, unknown lines, directory and signature of the file that speaks for a key."""
        row: tuple[str, str, str, str] | None = manifest.db.execute(
            "SELECT f.path, f.extra, f.dir, f.signature FROM latest l JOIN files f ON f.path = l.path "
            "WHERE l.user = ? AND l.key = ?",
            (user, key),
        ).fetchone()
        return row

    def remove(self, user_id: str, key: str, now: float) -> bool:
        """Delete every file of a key, durably; return whether a live entry was there."""
        with self._reading(user_id) as manifest:
            if manifest is None:
                return False
            with self._file_errors("removed"), manifest.writing():
                found = self._unchanged(
                    manifest,
                    "SELECT f.path, f.dir, f.signature, f.user, f.key, l.path IS NOT NULL "
                    "AND (f.expires IS NULL OR f.expires > ?) FROM files f "
                    "LEFT JOIN latest l ON l.user = f.user AND l.key = f.key AND l.path = f.path "
                    "WHERE f.user = ? AND f.key = ? AND f.error IS NULL",
                    (now, user_id, key),
                )
                self._delete(manifest, found)
            self._disk.sync(*{file.name for file in found})
            return any(file.counts for file in found)

    def purge(self, now: float) -> int:
        """Delete the files of what has expired; return how many entries that were.

        With the file that speaks for a key go the older copies of it that nobody has touched since: else the text that
        it replaced would be back.
        """
        with self._reading(None) as manifest:
            if manifest is None:
                return 0
            if not manifest.db.execute("SELECT 1 FROM files WHERE expires <= ? LIMIT 1", (now,)).fetchone():
                return 0
            with self._file_errors("removed"), manifest.writing():
                # Selected in here: what another process has stored since the look above has not expired.
                found = self._unchanged(
                    manifest,
                    "SELECT f.path, f.dir, f.signature, f.user, f.key, l.path IS NOT NULL FROM files f "
                    "LEFT JOIN latest l ON l.user = f.user AND l.key = f.key AND l.path = f.path WHERE f.expires <= ?1 "
                    "UNION SELECT o.path, o.dir, o.signature, o.user, o.key, 0 FROM files f "
                    "JOIN latest l ON l.user = f.user AND l.key = f.key AND l.path = f.path "
                    "JOIN files o ON o.user = f.user AND o.key = f.key AND o.path != f.path "
                    "WHERE f.expires <= ?1 AND o.mtime_ns <= f.mtime_ns AND o.error IS NULL "
                    "AND (o.expires IS NULL OR o.expires > ?1)",
                    (now,),
                )
                self._delete(manifest, found)
            self._disk.sync(*{file.name for file in found})
            return sum(file.counts for file in found)

    def _unchanged(self, manifest: Manifest, select: str, values: Sequence[object]) -> list[_Doomed]:
        """Return the selected files, of which each is still what the manifest says; only inside `writing`.

        Somebody may have edited one since it was read: what it says now decides.
        """
        found = [_Doomed(*row) for row in manifest.db.execute(select, values)]
        changed = {file.name for file in found if file.signature != self._disk.signature(file.path)}
        if not changed:
            return found
        for name in changed:
            self._sweeper.take_over(manifest, name)
        found = [_Doomed(*row) for row in manifest.db.execute(select, values)]
        # What changes under our hands even now is left alone.
        return [file for file in found if settled(file.signature) == self._disk.signature(file.path)]

    def _delete(self, manifest: Manifest, files: Collection[_Doomed]) -> None:
        """Delete files and decide who speaks for their keys now; only inside `writing`."""
        for file in files:
            with self._in_step(manifest, file.name):
                (self.root / file.path).unlink(missing_ok=True)
            manifest.db.execute("DELETE FROM files WHERE path = ?", (file.path,))
        for user, key in {(file.user, file.key) for file in files}:
            manifest.elect(user, key)
        for user in {file.user for file in files}:
            manifest.trim(user)

    @contextmanager
    def _file_errors(self, done: str) -> Generator[None]:
        try:
            yield
        except StorageUnavailableError:
            raise
        except OSError as error:
            raise StorageUnavailableError(
                f"The memory was not {done}: {error.strerror or error} ({error.filename or self.root}). "
                "Check that the directory can be written and that the disk is not full."
            ) from error

    # --- upkeep ----------------------------------------------------------------------------------------------------

    def problems(self) -> list[Problem]:
        """Report files that cannot be read, keys with several files, and a directory without a manifest."""
        with self._reading(None) as manifest:
            if manifest is None:
                return []
            found = [
                Problem(
                    "error", "unreadable-file", error, str(self.root / path), "Mend or delete it; it is left alone."
                )
                for path, error in manifest.db.execute(
                    "SELECT path, error FROM files WHERE error IS NOT NULL ORDER BY path"
                )
            ]
            for path, key, winner in manifest.db.execute(
                "SELECT f.path, f.key, l.path FROM files f JOIN latest l ON l.user = f.user AND l.key = f.key "
                "WHERE f.error IS NULL AND l.path != f.path ORDER BY f.path"
            ):
                message = f"the key {key!r} is also in {winner}, which is newer and counts"
                advice = "Delete this file, or give it a `key:` of its own."
                found.append(Problem("warning", "duplicate-key", message, str(self.root / path), advice))
            if not manifest.on_disk:
                message = "the directory cannot be written: every start reads all files, and nothing can be stored"
                found.append(Problem("warning", "read-only", message, str(self.root), "Make it writable."))
            return found

    def close(self) -> None:
        """Close the manifest; the next call opens it again."""
        with self._lock:
            if self._manifest is not None:
                self._manifest.close()
                self._manifest = None
