"""An append-only file of lines that several processes share: sessions and transcripts are made of it.

A writer holds the lock, appends whole lines with `O_APPEND` and one write, and syncs before it reports success. A
reader needs no lock: it takes complete lines only. A line that a crash tore is moved to a file beside it by the next
writer, so that nothing is thrown away and nothing is glued to it.
"""

import json
import logging
import os
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import RLock
from typing import BinaryIO

from memory_core.errors import StorageUnavailableError
from memory_core.sessions.locking import process_lock

log = logging.getLogger(__name__)

LOCK_TIMEOUT_S = 30.0
_TAIL_BYTES = 512
_State = tuple[int, int, int]


class LineFile:
    """One such file. `read_new` gives what came since the last call; every writing method needs `locked()` around it.

    Not safe for several threads without `locked()`. `path` need not exist; its folder is made by the first write.
    """

    def __init__(self, path: Path, *, fsync: bool = True) -> None:
        self.path = path
        self.set_aside = path.with_name(path.name + ".damaged")
        self._fsync = fsync
        self._lock = path.with_name(path.name + ".lock")
        self._held = 0
        self._threads = RLock()
        self._inode: int = 0
        self._size: int = 0
        self._tail = b""
        self._seen: _State = (0, 0, 0)  # inode, size and time of change, as they were last
        self.torn = b""
        self._open_end = False  # the last line is whole, only its newline is missing: a person's editor took it

    @contextmanager
    def locked(self) -> Generator[None]:
        """Hold the file against other threads and processes; may be nested.

        Raises:
            StorageUnavailableError: The lock cannot be had: no such folder can be made, or another process hangs.

        """
        with self._threads, ExitStack() as held:
            if not self._held:
                try:
                    held.enter_context(process_lock(self._lock, LOCK_TIMEOUT_S))
                except TimeoutError as error:
                    raise StorageUnavailableError(
                        f"{self.path} is locked by another process for more than {LOCK_TIMEOUT_S:.0f} s; try again."
                    ) from error
                except OSError as error:
                    reason = _reason(error)
                    raise StorageUnavailableError(f"{self.path} cannot be locked for writing: {reason}.") from error
            self._held += 1
            try:
                yield
            finally:
                self._held -= 1

    @contextmanager
    def reading(self) -> Generator[None]:
        """Hold the file against other threads only."""
        with self._threads:
            yield

    def read_new(self) -> tuple[bool, list[bytes]]:
        """Return (started over, complete lines without their newline) since the last call.

        Started over means: forget what came before; the file was replaced, cut or deleted. Afterwards `torn` holds
        what stands behind the last newline.

        Raises:
            StorageUnavailableError: The file cannot be read.

        """
        try:
            if self._size and _state(self.path.stat()) == self._seen:
                return False, []
            with self.path.open("rb") as file:
                status = os.fstat(file.fileno())
                # Grown, and the end of what is known is where it was; what changed without growing was edited in place.
                same = status.st_ino == self._inode and status.st_size > self._size and self._ends_as_known(file)
                over = not same and self._size > 0
                start = self._size if same else 0
                file.seek(start)
                data = file.read()
        except FileNotFoundError:
            over = self._size > 0
            self._inode, self._size, self._tail, self.torn, self._open_end = 0, 0, b"", b"", False
            return over, []
        except OSError as error:
            raise StorageUnavailableError(f"{self.path} cannot be read: {_reason(error)}.") from error
        if data:
            self._open_end = not data.endswith(b"\n") and _whole(data[data.rfind(b"\n") + 1 :])
        whole, _, self.torn = (data, b"", b"") if self._open_end else data.rpartition(b"\n")
        complete = len(data) - len(self.torn)
        if complete or not same:
            self._tail = data[max(0, complete - _TAIL_BYTES) : complete]
        self._inode, self._size, self._seen = status.st_ino, start + complete, _state(status)
        return over, [line for line in whole.split(b"\n") if line]

    def append(self, lines: Sequence[bytes]) -> None:
        """Add lines durably, all or none of them; what `read_new` has seen must be up to date.

        The lines count as seen: the next `read_new` does not give them again.

        Raises:
            StorageUnavailableError: They could not be written; the file is as it was.

        """
        if self.torn:
            self._repair()
        if not lines:
            return
        data = (b"\n" if self._open_end else b"") + b"".join(line + b"\n" for line in lines)
        try:
            descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o600)
            try:
                self._write(descriptor, data)
                status = os.fstat(descriptor)
            finally:
                os.close(descriptor)
            if self._size == 0 and self._fsync:
                sync_folder(self.path.parent)
        except OSError as error:
            raise StorageUnavailableError(f"{self.path} cannot be written: {_reason(error)}.") from error
        self._inode, self._tail, self._open_end = status.st_ino, data[-_TAIL_BYTES:], False
        self._seen = _state(status)
        self._size += len(data)

    def replace(self, lines: Sequence[bytes], damaged: Sequence[bytes] = ()) -> None:
        """Replace the whole file in one step; `damaged` lines, and a torn one, go to the file beside it first.

        Raises:
            StorageUnavailableError: It could not be written; the file is as it was.

        """
        aside = [*damaged, *([self.torn] if self.torn else [])]
        data = b"".join(line + b"\n" for line in lines)
        try:
            if aside:
                self._put_aside(aside)
            status = write_atomically(self.path, data, fsync=self._fsync)
        except OSError as error:
            raise StorageUnavailableError(f"{self.path} cannot be written: {_reason(error)}.") from error
        self._inode, self._size, self._tail = status.st_ino, len(data), data[-_TAIL_BYTES:]
        self.torn, self._open_end = b"", False

    def delete(self) -> None:
        """Delete the file, and what was set aside of it, durably; a missing one is no error.

        Raises:
            StorageUnavailableError: It could not be deleted.

        """
        try:
            self.path.unlink(missing_ok=True)
            self.set_aside.unlink(missing_ok=True)
            if self._fsync:
                sync_folder(self.path.parent)
        except OSError as error:
            raise StorageUnavailableError(f"{self.path} cannot be deleted: {_reason(error)}.") from error

    def _ends_as_known(self, file: BinaryIO) -> bool:
        """Whether the part that was read is still what the file has there: an inode number can be given again."""
        file.seek(self._size - len(self._tail))
        return file.read(len(self._tail)) == self._tail

    def _write(self, descriptor: int, data: bytes) -> None:
        before = os.fstat(descriptor).st_size
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(descriptor, view) :]
            if self._fsync:
                os.fsync(descriptor)
        except OSError:
            with suppress(OSError):
                os.ftruncate(descriptor, before)
            raise

    def _repair(self) -> None:
        try:
            self._put_aside([self.torn])
            os.truncate(self.path, self._size)
        except OSError as error:
            raise StorageUnavailableError(f"{self.path} cannot be repaired: {_reason(error)}.") from error
        log.warning(
            "The last line of %s was torn by a crash: %d bytes moved to %s",
            self.path,
            len(self.torn),
            self.set_aside.name,
        )
        self.torn = b""

    def _put_aside(self, lines: Sequence[bytes]) -> None:
        with self.set_aside.open("ab") as file:
            file.writelines(line + b"\n" for line in lines)
            file.flush()
            if self._fsync:
                os.fsync(file.fileno())


def write_atomically(path: Path, data: bytes, *, fsync: bool = True) -> os.stat_result:
    """Write a file so that every reader sees the old or the new content, also after a crash; return its status.

    The caller holds a lock against other writers of that file.
    """
    temporary = path.with_name(f".{path.name}.tmp")  # one name: the next writer, who holds the lock, cleans it up
    try:
        with open(temporary, "wb", opener=_private) as file:
            file.write(data)
            file.flush()
            if fsync:
                os.fsync(file.fileno())
            status = os.fstat(file.fileno())
        temporary.replace(path)
    except OSError:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
    if fsync:
        sync_folder(path.parent)
    return status


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def sync_folder(folder: Path) -> None:
    """Make renames and new files in `folder` durable; a system that cannot sync folders does it by itself."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        with suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _state(status: os.stat_result) -> _State:
    return status.st_ino, status.st_size, status.st_mtime_ns


def _whole(line: bytes) -> bool:
    """Whether a line without its newline is complete: no proper beginning of a JSON object is JSON itself."""
    try:
        return line.endswith(b"}") and isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _reason(error: OSError) -> str:
    return error.strerror or str(error)
