"""What a scope directory does to the disk: temporary files, renames, deletions, and waiting until they are durable."""

import os
import stat
import time
from collections.abc import Iterable
from contextlib import suppress
from itertools import count
from pathlib import Path

from memory_core.errors import StorageUnavailableError
from memory_core.model import MemoryId
from memory_core.naming import short_hash, slug
from memory_storer_markdown.manifest import STATE_DIR
from memory_storer_markdown.sweep import SUFFIX, signature

_STRAY_AFTER_S = 3600
_temporary = count()


class Temporary:
    """A written file without a name among the entries yet, to be made durable and renamed, or given up."""

    __slots__ = ("_handle", "_path")

    def __init__(self, folder: str, text: str) -> None:
        self._path = f"{folder}/{os.getpid()}-{time.time_ns()}-{next(_temporary)}.tmp"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        try:
            self._handle = os.open(self._path, flags, 0o644)
        except FileNotFoundError:
            os.makedirs(folder, exist_ok=True)
            self._handle = os.open(self._path, flags, 0o644)
        try:
            data = memoryview(text.encode())
            while data:
                data = data[os.write(self._handle, data) :]
        except BaseException:
            self.discard()
            raise

    def finish(self, *, fsync: bool) -> None:
        """Close the file, after waiting for the disk if `fsync`."""
        handle, self._handle = self._handle, -1
        try:
            if fsync:
                os.fsync(handle)
        finally:
            os.close(handle)

    def rename(self, path: str) -> None:
        """Give the file its name, in place of what has it."""
        os.replace(self._path, path)
        self._path = ""

    def discard(self) -> None:
        """Close and delete the file, unless it was renamed."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1
        if self._path:
            with suppress(OSError):
                os.unlink(self._path)


class ScopeDisk:
    """The directory of one scope on the disk."""

    def __init__(self, root: Path, *, fsync: bool) -> None:
        self.root = str(root)
        self.fsync = fsync
        self._cleaned = False

    def temporary(self, text: str) -> Temporary:
        """Write a temporary file; not durable before its `finish`."""
        return Temporary(f"{self.root}/{STATE_DIR}/tmp", text)  # noqa: S108 - ours, on the disk that the rename stays on

    def signature(self, path: str) -> str | None:
        """Return what a file looks like now; None when it is not there."""
        try:
            return signature(os.lstat(f"{self.root}/{path}"))
        except OSError:
            return None

    def mtime_ns(self, name: str) -> int:
        """Return when the directory of that name changed last."""
        return os.stat(f"{self.root}/{name}").st_mtime_ns

    def user_directory(self, user: str) -> None:
        """Make the directory of a user's files if need be.

        Raises:
            StorageUnavailableError: There is a link or a file in its place.
        """
        directory = f"{self.root}/{slug(user)}"
        try:
            mode = os.lstat(directory).st_mode
        except FileNotFoundError:
            os.mkdir(directory)
            self.sync("")
            return
        if not stat.S_ISDIR(mode):
            raise StorageUnavailableError(
                f"{directory} is a link or a file; memories are written only into real directories. "
                "Put one in its place."
            )

    def free_path(self, id: MemoryId, taken: Iterable[str] = ()) -> str:
        """Return where a new key goes: its slug, or the next name where somebody's file is in the way, or in `taken`.

        Raises:
            StorageUnavailableError: A hundred names are in use.
        """
        folder, stem = slug(id.user_id), slug(id.key)
        for attempt in range(100):
            name = stem if attempt == 0 else f"{stem}~{short_hash(f'{id.key}/{attempt}')}"
            path = f"{folder}/{name}{SUFFIX}"
            if path not in taken and not os.path.lexists(f"{self.root}/{path}"):
                return path
        raise StorageUnavailableError(f"No free file name for the key {id.key!r} in {self.root}/{folder}.")

    def sync(self, *names: str) -> None:
        """Make renames and deletions in those directories durable; where directories cannot be opened, they are."""
        if not self.fsync or os.name == "nt":
            return
        for name in names:
            handle = os.open(f"{self.root}/{name}", os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)

    def clean(self) -> None:
        """Delete temporary files that a killed process left behind; once."""
        if self._cleaned:
            return
        self._cleaned = True
        with suppress(OSError):
            for path in (Path(self.root) / STATE_DIR / "tmp").iterdir():
                with suppress(OSError):
                    if time.time() - path.stat().st_mtime > _STRAY_AFTER_S:
                        path.unlink()
