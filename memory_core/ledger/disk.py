"""Where the ledger's files are, and the few ways in which they are read and written.

Every path is checked before it is used: a link that leads out of the workspace is refused, because a workspace may be
somebody else's repository. Appending is one write to the end of the file, synced; replacing is a synced temporary
file and a rename. People and editors take no locks, so both look again at the file after they wrote.
"""

import contextlib
import os
import stat
import tempfile
from collections.abc import Generator
from dataclasses import dataclass
from datetime import date
from hashlib import blake2b
from pathlib import Path

from filelock import FileLock, Timeout

from memory_core.errors import CorruptEntryError, StorageUnavailableError
from memory_core.ledger.blocks import ledger_date

MAX_FILE_BYTES = 16 << 20
LOCK_TIMEOUT_S = 20.0
_APPEND_TRIES = 5


@dataclass(frozen=True, slots=True)
class Places:
    """The paths of one ledger."""

    workspace: Path

    @property
    def memory_md(self) -> Path:
        """The curated memory."""
        return self.workspace / "MEMORY.md"

    @property
    def folder(self) -> Path:
        """The folder of the daily files."""
        return self.workspace / "memory"

    @property
    def archive(self) -> Path:
        """The folder of daily files beyond their retention."""
        return self.folder / "archive"

    @property
    def backups(self) -> Path:
        """The folder of former versions of `MEMORY.md`."""
        return self.folder / ".backups"

    def daily(self, day: date) -> Path:
        """Return the daily file of a day."""
        return self.folder / f"{day.isoformat()}.md"

    def relative(self, path: Path) -> str:
        """Return `path` as it is shown: relative to the workspace, with slashes."""
        return path.relative_to(self.workspace).as_posix()

    def checked(self, path: Path) -> Path:
        """Return `path` when it lies, links followed, inside the workspace.

        Raises:
            StorageUnavailableError: It leads out of it.
        """
        try:
            inside = path.resolve().is_relative_to(self.workspace.resolve())
        except (OSError, RuntimeError) as error:  # RuntimeError: a loop of links, before Python 3.13
            raise unavailable("followed", path, error) from error
        if not inside:
            raise StorageUnavailableError(
                f"{path} is a link that leads out of the workspace {self.workspace}; it is left alone. "
                "Replace it with a real file, or use the folder that it leads to as the workspace."
            )
        return path

    def ledgers(self, *, archived: bool = False) -> list[Path]:
        """Return the daily files, oldest first; with `archived` those of the archive too."""
        folders = (self.archive, self.folder) if archived else (self.folder,)
        found = [path for folder in folders for path in self._files(folder) if ledger_date(path.name) is not None]
        return sorted(found, key=lambda path: (path.name, path.parent != self.archive))

    def _files(self, folder: Path) -> list[Path]:
        if not folder.exists():
            return []
        try:
            self.checked(folder)
            with os.scandir(folder) as listing:
                return [Path(entry.path) for entry in listing if entry.is_file()]
        except OSError as error:
            if isinstance(error, StorageUnavailableError):
                raise
            raise unavailable("listed", folder, error) from error


def unavailable(what: str, path: Path, error: BaseException) -> StorageUnavailableError:
    """Return the error that says that `path` could not be `what` (read, written, …) and why."""
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return StorageUnavailableError(
        f"{path} could not be {what}: {reason}. Nothing of it was changed; check the permissions and the free space."
    )


def content_hash(data: bytes | None) -> str | None:
    """Return the hash that stands for a file's content; None for a file that is not there."""
    return None if data is None else blake2b(data, digest_size=16).hexdigest()


def read_bytes(places: Places, path: Path) -> bytes | None:
    """Return the file's bytes, or None when it is not there.

    Raises:
        StorageUnavailableError: It cannot be read, is no regular file, or lies outside the workspace.
        CorruptEntryError: It is larger than 16 MB.
    """
    try:
        # Not blocking: a named pipe in the place of a file must not stop us before it is seen to be one.
        handle = os.open(places.checked(path), os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        with os.fdopen(handle, "rb") as file:
            state = os.fstat(file.fileno())
            if not stat.S_ISREG(state.st_mode):
                raise StorageUnavailableError(f"{path} is no regular file.")
            if state.st_size > MAX_FILE_BYTES:
                raise CorruptEntryError(
                    f"{path} has {state.st_size >> 20} MB; at most {MAX_FILE_BYTES >> 20} are read."
                )
            return file.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        if isinstance(error, StorageUnavailableError):
            raise
        raise unavailable("read", path, error) from error


def decode(data: bytes, path: Path) -> str:
    """Return the text of a file, without a byte order mark.

    Raises:
        CorruptEntryError: It is not UTF-8; the message says where.
    """
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise CorruptEntryError(
            f"{path}, line {line}: this is not UTF-8. The file is left alone; save it as UTF-8 in your editor."
        ) from error


def read_text(places: Places, path: Path) -> str | None:
    """Return the file's text, or None when it is not there.

    Raises:
        StorageUnavailableError, CorruptEntryError: As `read_bytes` and `decode`.
    """
    data = read_bytes(places, path)
    return None if data is None else decode(data, path)


def make_folder(places: Places, folder: Path) -> None:
    """Create `folder` and what is above it.

    Raises:
        StorageUnavailableError: It cannot be created.
    """
    try:
        places.checked(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        if isinstance(error, StorageUnavailableError):
            raise
        raise unavailable("created", folder, error) from error


@contextlib.contextmanager
def locked(places: Places, name: str = ".lock", timeout_s: float | None = None) -> Generator[None, None, None]:
    """Hold a lock between processes and threads; the system frees it when its holder dies.

    Raises:
        StorageUnavailableError: It was held for longer than `timeout_s` (by default 20 s), or cannot be created.
    """
    make_folder(places, places.folder)
    path = places.checked(places.folder / name)
    timeout_s = LOCK_TIMEOUT_S if timeout_s is None else timeout_s
    lock = FileLock(path, timeout=timeout_s, thread_local=False)
    try:
        lock.acquire()
    except Timeout as error:
        raise BusyError(
            f"{path} is held by another process for longer than {timeout_s:g} s; try again later."
        ) from error
    except OSError as error:
        raise unavailable("locked", path, error) from error
    try:
        yield
    finally:
        lock.release()


class BusyError(StorageUnavailableError):
    """Another process holds the lock."""


def append(places: Places, path: Path, text: str, *, first_line: str = "", tight: bool = False) -> None:
    """Append `text` durably, after a blank line (`tight`: on the next line); a new file begins with `first_line`.

    Call it under the lock.

    A write that fails in the middle is taken back. When an editor replaced the file meanwhile, it is appended again
    to the file that is there now.

    Raises:
        StorageUnavailableError: It could not be written; nothing of it is there.
    """
    make_folder(places, path.parent)
    for _ in range(_APPEND_TRIES):
        try:
            if _append_once(places.checked(path), text, first_line, tight=tight):
                return
        except OSError as error:
            if isinstance(error, StorageUnavailableError):
                raise
            raise unavailable("written", path, error) from error
    raise StorageUnavailableError(f"{path} is being replaced again and again by another program; nothing was written.")


def _append_once(path: Path, text: str, first_line: str, *, tight: bool) -> bool:
    with path.open("ab+", buffering=0) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 4))
        tail = file.read()
        newline = "\r\n" if tail.endswith(b"\r\n") else "\n"
        blank = tail.replace(b"\r", b"")
        lead = f"{first_line}\n\n" if not size and first_line else ""
        if size:
            missing = (1 if tight else 2) - (len(blank) - len(blank.rstrip(b"\n")))
            lead = "\n" * max(0, missing)
        data = (lead + text).replace("\n", newline).encode()
        file.seek(0, os.SEEK_END)
        try:
            written = 0
            while written < len(data):
                written += file.write(data[written:]) or 0
            os.fsync(file.fileno())
        except OSError:
            file.truncate(size)
            raise
        mine = os.fstat(file.fileno())
    if not size:
        sync_folder(path.parent)
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    return (there.st_ino, there.st_dev) == (mine.st_ino, mine.st_dev)


def replace(places: Places, path: Path, data: bytes) -> None:
    """Write `data` to `path` atomically and durably, through a link inside the workspace; the file's mode is kept.

    Raises:
        StorageUnavailableError: It could not be written; the file is as it was.
    """
    make_folder(places, path.parent)
    temporary = None
    try:
        target = places.checked(path).resolve()
        handle, temporary = tempfile.mkstemp(prefix=".", suffix=".tmp", dir=target.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileNotFoundError):
            Path(temporary).chmod(stat.S_IMODE(target.stat().st_mode))
        os.replace(temporary, target)
        temporary = None
        sync_folder(target.parent)
    except OSError as error:
        if isinstance(error, StorageUnavailableError):
            raise
        raise unavailable("written", path, error) from error
    finally:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Make a new or renamed name in `folder` durable, where the system can."""
    with contextlib.suppress(OSError):  # Windows opens no folders, some network drives sync none
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
