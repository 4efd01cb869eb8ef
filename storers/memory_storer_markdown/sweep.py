"""Finding what people and other programs did to the files of one scope directory, by stat alone.

Two looks, no watcher thread. A changed directory (a file added, renamed or deleted, also by rename-over saves) is
seen at once, because its modification time differs from the one in the manifest. An edit in place is seen by a sweep
over all files, at the latest one second after it (or ten times as long as a sweep takes, where that is more).
"""

import errno
import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from stat import S_ISDIR

from memory_core.errors import CorruptEntryError, MemoryCoreError
from memory_core.model import HOT_IMPORTANCE, SHARED_USER_ID, MemoryEntry, MemoryId
from memory_core.naming import slug
from memory_core.serial import from_fields, to_json
from memory_storer_markdown.frontmatter import Parsed, parse
from memory_storer_markdown.manifest import Manifest

SWEEP_INTERVAL_S = 1.0
SWEEP_SHARE = 10
"""A sweep may take at most about one tenth of the time."""

_SETTLED_NS = 1_000_000_000
_UNSETTLED = "unsettled "
SUFFIX = ".md"


@dataclass(frozen=True, slots=True)
class Stat:
    """The state of a file by which a change is noticed."""

    signature: str
    mtime_ns: int


_ABSENT = (FileNotFoundError, NotADirectoryError)
_OUT_OF_FILES = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


def _bounded(time_ns: int) -> int:
    """Return a file's time as SQLite can hold it; file systems know years that nothing else does."""
    return max(-(1 << 63), min(time_ns, (1 << 63) - 1))


def signature(stat: os.stat_result) -> str:
    """Return what tells one state of a file from another."""
    return f"{stat.st_mtime_ns}:{stat.st_ctime_ns}:{stat.st_size}:{stat.st_ino}"


def settled(mark: str) -> str:
    """Return the signature in a manifest's mark, also in that of a file that is to be read once more."""
    return mark.removeprefix(_UNSETTLED)


class Sweeper:
    """Keeps a manifest in step with the files of one scope directory."""

    def __init__(self, root: Path, scope: str, max_file_bytes: int) -> None:
        self._root = root
        self._scope = scope
        self._max_file_bytes = max_file_bytes
        self._swept_at: float | None = None
        self._interval_s = SWEEP_INTERVAL_S

    def refresh(self, manifest: Manifest, user_id: str | None) -> None:
        """Notice what changed; all of it when a sweep is due or `user_id` is None, else in that user's directory."""
        start = time.monotonic()
        if self._swept_at is None or user_id is None or start - self._swept_at >= self._interval_s:
            self.sweep(manifest)
            self._swept_at = time.monotonic()
            self._interval_s = max(SWEEP_INTERVAL_S, SWEEP_SHARE * (self._swept_at - start))
            return
        known = manifest.db.execute(
            "SELECT dir, mtime_ns FROM dirs WHERE dir = '' OR dir = ?", (slug(user_id),)
        ).fetchall()
        if all(name != slug(user_id) for name, _ in known):
            self.look(manifest, slug(user_id))
        for name, mtime_ns in known:
            if self._mtime(name) != mtime_ns:
                self.look(manifest, name)

    def sweep(self, manifest: Manifest) -> None:
        """Compare every file with the manifest."""
        names = {"", *self._subdirectories()}
        names.update(
            name for (name,) in manifest.db.execute("SELECT dir FROM dirs UNION SELECT DISTINCT dir FROM files")
        )
        for name in names:
            self.look(manifest, name)

    def look(self, manifest: Manifest, name: str) -> None:
        """Compare the files of one directory with the manifest, and take over what changed under its write lock."""
        if self._differs(manifest, name):
            with manifest.writing():
                self.take_over(manifest, name)

    def _differs(self, manifest: Manifest, name: str) -> bool:
        row = manifest.db.execute("SELECT mtime_ns FROM dirs WHERE dir = ?", (name,)).fetchone()
        if (row[0] if row else None) != self._mtime(name):
            return True
        known = dict(manifest.db.execute("SELECT path, signature FROM files WHERE dir = ?", (name,)))
        found = {path: stat.signature for path, stat in self._files(name)}
        return known != found

    def take_over(self, manifest: Manifest, name: str) -> None:
        """Bring the manifest in step with one directory; only inside `writing`."""
        db = manifest.db
        mtime_ns = self._mtime(name)
        known = dict(db.execute("SELECT path, signature FROM files WHERE dir = ?", (name,)))
        found = dict(self._files(name))
        touched: set[tuple[str, str]] = set()
        before: dict[str, tuple[str, str, str]] = {}
        for path, mark in known.items():
            if path not in found or mark != found[path].signature:
                row = db.execute(
                    "SELECT user, key, entry FROM files WHERE path = ? AND error IS NULL", (path,)
                ).fetchone()
                if row is not None:
                    before[path] = row
                    touched.add((row[0], row[1]))
            if path not in found:
                db.execute("DELETE FROM files WHERE path = ?", (path,))
        for path, stat in found.items():
            if known.get(path) != stat.signature:
                id = self._read(manifest, name, path, stat)
                if id is not None:
                    touched.add(id)
                    if self._only_touched(manifest, path, before.get(path)):
                        touched.discard(id)
        for user, key in touched:
            manifest.elect(user, key)
        if mtime_ns is None:
            db.execute("DELETE FROM dirs WHERE dir = ?", (name,))
        else:
            db.execute(
                "INSERT INTO dirs VALUES (?, ?) ON CONFLICT DO UPDATE SET mtime_ns = excluded.mtime_ns",
                (name, mtime_ns),
            )

    @staticmethod
    def _only_touched(manifest: Manifest, path: str, before: tuple[str, str, str] | None) -> bool:
        """Whether a file says what it said before, and no other file has its key."""
        row = manifest.db.execute("SELECT user, key, entry FROM files WHERE path = ?", (path,)).fetchone()
        if before is None or tuple(row) != before:
            return False
        same_key = manifest.db.execute("SELECT count(*) FROM files WHERE user = ? AND key = ?", row[:2]).fetchone()
        return bool(same_key[0] == 1)

    def _read(self, manifest: Manifest, name: str, path: str, stat: Stat) -> tuple[str, str] | None:
        """Read one file into the manifest; return its (user, key), or None when it cannot be read."""
        # A file written this very second may change again without looking different: it is read once more.
        old = abs(time.time_ns() - stat.mtime_ns) > _SETTLED_NS
        mark = stat.signature if old else _UNSETTLED + stat.signature
        try:
            parsed = parse(self._text(path))
            entry = self._as_entry(manifest, name, path, stat, parsed)
        except MemoryCoreError as error:
            manifest.db.execute(
                "INSERT OR REPLACE INTO files VALUES (?, ?, ?, NULL, NULL, NULL, ?, NULL, NULL, NULL, ?)",
                (path, name, mark, stat.mtime_ns, str(error)),
            )
            return None
        store_row(manifest, name, path, mark, stat.mtime_ns, entry, parsed.extra)
        return entry.id.user_id, entry.id.key

    def _text(self, path: str) -> str:
        full = self._root / path
        try:
            if full.stat().st_size > self._max_file_bytes:
                raise CorruptEntryError(
                    f"the file is larger than {self._max_file_bytes >> 20} MiB (option max_file_mb)"
                )
            data = full.read_bytes()
        except OSError as error:
            if error.errno in _OUT_OF_FILES:
                raise  # says nothing about this file
            raise CorruptEntryError(f"the file cannot be read: {error.strerror or error}") from error
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise CorruptEntryError(
                f"line {line}: the file is not UTF-8 (byte 0x{data[error.start]:02x}); save it as UTF-8"
            ) from error

    def _as_entry(self, manifest: Manifest, name: str, path: str, stat: Stat, parsed: Parsed) -> MemoryEntry:
        changed = datetime.fromtimestamp(stat.mtime_ns / 1e9, UTC)  # `_bounded`: never beyond what a datetime holds
        created = parsed.created or parsed.updated or changed
        return MemoryEntry.checked(
            id=MemoryId(self._scope, parsed.user or self._owner(manifest, name), parsed.key or Path(path).stem),
            content=parsed.content,
            importance=parsed.importance or HOT_IMPORTANCE,
            created_at=created,
            updated_at=parsed.updated or max(created, changed),
            expires_at=parsed.expires,
            source="file" if parsed.source is None else parsed.source,
            metadata=parsed.metadata or {},
        )

    @staticmethod
    def _owner(manifest: Manifest, name: str) -> str:
        """Return whose directory `name` is; files right in the scope directory belong to everyone."""
        if not name:
            return SHARED_USER_ID
        if "~" in name:
            row = manifest.db.execute(
                "SELECT user FROM files WHERE dir = ? AND error IS NULL LIMIT 1", (name,)
            ).fetchone()
            return str(row[0]) if row else name
        return name

    def _mtime(self, name: str) -> int | None:
        """Return when a directory changed last; None when it is not there, or is a link, which is never followed."""
        try:
            state = os.lstat(self._root / name) if name else os.stat(self._root)
        except _ABSENT:
            return None
        return _bounded(state.st_mtime_ns) if S_ISDIR(state.st_mode) else None

    def _subdirectories(self) -> list[str]:
        try:
            with os.scandir(self._root) as entries:
                return [e.name for e in entries if not e.name.startswith(".") and e.is_dir(follow_symlinks=False)]
        except _ABSENT:
            return []

    def _files(self, name: str) -> Iterator[tuple[str, Stat]]:
        """Yield the Markdown files of one directory; links are not followed, hidden files are not ours.

        Raises:
            OSError: The directory is there and cannot be read, which must not look as if it were empty.
        """
        prefix = f"{name}/" if name else ""
        if self._mtime(name) is None:
            return
        try:
            with os.scandir(self._root / name) as entries:
                for item in entries:
                    if item.name.endswith(SUFFIX) and not item.name.startswith("."):
                        try:
                            if item.is_file(follow_symlinks=False):
                                stat = item.stat(follow_symlinks=False)
                                yield prefix + item.name, Stat(signature(stat), _bounded(stat.st_mtime_ns))
                        except FileNotFoundError:
                            continue  # gone between listing and stat
        except _ABSENT:
            return


def store_row(  # noqa: PLR0917 - the columns of one row, in their order
    manifest: Manifest, name: str, path: str, mark: str, mtime_ns: int, entry: MemoryEntry, extra: str
) -> None:
    """Write what one file says; only inside `writing`."""
    manifest.db.execute(
        "INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, NULL)",
        (
            path,
            name,
            mark,
            entry.id.user_id,
            entry.id.key,
            entry.updated_at.timestamp(),
            mtime_ns,
            entry.expires_at.timestamp() if entry.expires_at else None,
            to_json(entry),
            extra,
        ),
    )


def read_entry(text: str, scope: str) -> MemoryEntry:
    """Build the entry that a manifest row holds, under the scope that its directory has now."""
    return from_fields({**json.loads(text), "scope": scope})
