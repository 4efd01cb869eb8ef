"""The connections to one memory file: made when needed, lent to one thread at a time, never taken through a fork.

SQLite keeps its file locks per process, in tables that a fork copies although the locks themselves stay with the
parent. A child that went on from there would write into a log that the parent deletes when it closes. Therefore
everything is closed just before a fork, and both sides open anew.
"""

import os
import sqlite3
import time
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Literal
from weakref import WeakSet

from memory_core.errors import StorageUnavailableError
from memory_core.forking import around_fork
from memory_storer_kv.failures import translated
from memory_storer_kv.schema import prepare, version

Durability = Literal["full", "normal"]
Inode = tuple[int, int]
_READ_ONLY: Inode = (0, 0)
"""Stands for the file in handles that live for one call."""

_abandoned: list[object] = []
"""Connections that must never be closed: to close one that a parent process opened, or whose file was replaced, makes
SQLite delete a write-ahead log that belongs to somebody else."""


_FORK_WAIT_S = 5.0


@dataclass(slots=True, eq=False)
class _Handle:
    db: sqlite3.Connection
    inode: Inode
    writable: bool


@dataclass(slots=True)
class _Pool:
    """What belongs to one process."""

    pid: int
    idle: deque[_Handle] = field(default_factory=deque[_Handle])
    lent: set[_Handle] = field(default_factory=set[_Handle])
    gate: Lock = field(default_factory=Lock)
    write_lock: Lock = field(default_factory=Lock)


class Connections:
    """Lends connections to `path`. Reading creates nothing; writing creates the folder, the file and its tables."""

    def __init__(self, path: Path, durability: Durability, busy_timeout_s: float) -> None:
        self.path = path
        self._durability = durability
        self._busy_timeout_s = busy_timeout_s
        self._pool = _Pool(os.getpid())
        _everywhere.add(self)

    @contextmanager
    def reading(self) -> Generator[sqlite3.Connection | None, None, None]:
        """Lend a connection inside a read transaction, so that all it reads is of one moment; None without a file.

        Raises:
            StorageUnavailableError: The file is there and cannot be read.
        """
        with translated(self.path, "read"):
            handle = self._borrow(writable=False)
            if handle is None:
                yield None
                return
            try:
                handle.db.execute("BEGIN")
                yield handle.db
            finally:
                self._finish(handle)

    @contextmanager
    def writing(self, *, create: bool = True) -> Generator[sqlite3.Connection | None, None, None]:
        """Lend a connection inside a write transaction, committed at the end and rolled back on an error.

        None when there is no file and `create` is False. Writers of one process wait in line instead of polling.

        Raises:
            StorageUnavailableError: It could not be written; nothing has changed.
        """
        with translated(self.path, "written"), self._own_pool().write_lock:
            handle = self._borrow(writable=True, create=create)
            if handle is None:
                yield None
                return
            try:
                handle.db.execute("BEGIN IMMEDIATE")
                yield handle.db
                handle.db.execute("COMMIT")
            finally:
                self._finish(handle)

    def close(self) -> None:
        """Close the connections that nobody uses at the moment; later calls open new ones."""
        pool = self._own_pool()
        with suppress(IndexError):
            while True:
                self._dispose(pool.idle.pop())

    def before_fork(self) -> None:
        """Let nobody borrow, wait for what is lent, and close the rest."""
        pool = self._own_pool()
        pool.gate.acquire()
        give_up = time.monotonic() + _FORK_WAIT_S
        while pool.lent and time.monotonic() < give_up:
            time.sleep(0.001)
        self.close()

    def after_fork_in_parent(self) -> None:
        """Let them borrow again. The child's side makes a pool of its own."""
        self._pool.gate.release()

    def _own_pool(self) -> _Pool:
        pool = self._pool
        if pool.pid != os.getpid():
            _abandoned.append(pool)
            pool = self._pool = _Pool(os.getpid())
        return pool

    def _inode(self) -> Inode | None:
        try:
            status = os.stat(self.path)
        except FileNotFoundError:
            return None
        return status.st_dev, status.st_ino

    def _borrow(self, *, writable: bool, create: bool = False) -> _Handle | None:
        pool = self._own_pool()
        with pool.gate:
            handle = self._available(pool, writable=writable, create=create)
            if handle is not None:
                pool.lent.add(handle)
            return handle

    def _available(self, pool: _Pool, *, writable: bool, create: bool) -> _Handle | None:
        inode = self._inode()
        with suppress(IndexError):
            while True:
                handle = pool.idle.pop()
                if handle.inode != inode:
                    _abandoned.append(handle)  # the file was deleted or replaced: what is written there is lost
                elif writable and not handle.writable:
                    self._dispose(handle)
                else:
                    return handle
        if inode is None and not create:
            return None
        self._refuse_links()
        return self._open_to_write(fresh=inode is None) if writable else self._open_to_read(inode)

    def _refuse_links(self) -> None:
        """Follow no link: a cloned repository may have brought it, and another program's database at its other end."""
        for ending in ("", "-wal", "-shm", "-journal"):
            path = self.path.with_name(self.path.name + ending)
            if path.is_symlink():
                raise StorageUnavailableError(
                    f"The memory file {path} is a link, which is not followed: put the file itself in its place, or "
                    "name its folder in `directories` of [storers.kv] in your own configuration file."
                )

    def _finish(self, handle: _Handle) -> None:
        pool = self._own_pool()
        try:
            if handle.db.in_transaction:
                handle.db.execute("ROLLBACK")
        except sqlite3.Error:
            self._dispose(handle)
        else:
            if handle.inode == _READ_ONLY:
                handle.db.close()
            else:
                pool.idle.append(handle)
        finally:
            pool.lent.discard(handle)

    def _dispose(self, handle: _Handle) -> None:
        if handle.inode == self._inode():
            handle.db.close()
        else:
            _abandoned.append(handle)

    def _connect(self, query: str) -> sqlite3.Connection:
        return sqlite3.connect(
            f"{self.path.absolute().as_uri()}?{query}",
            uri=True,
            timeout=self._busy_timeout_s,
            isolation_level=None,
            check_same_thread=False,  # a handle is lent to one thread at a time
        )

    def _open_to_write(self, *, fresh: bool) -> _Handle:
        if fresh:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        db = self._connect("mode=rwc")
        try:
            self._use_wal(db)
            db.execute(f"PRAGMA synchronous = {'FULL' if self._durability == 'full' else 'NORMAL'}")
            prepare(db, self.path, durable=self._durability == "full")
            if fresh:
                _sync_folders(self.path.parent)
            inode = self._inode()
            if inode is None:
                raise StorageUnavailableError(
                    f"The memory file {self.path} was deleted while it was opened; try again."
                )
        except BaseException:
            db.close()
            raise
        return _Handle(db, inode, writable=True)

    def _use_wal(self, db: sqlite3.Connection) -> None:
        """Switch to write-ahead logging; SQLite does not wait by itself when several processes do so at once."""
        give_up = time.monotonic() + self._busy_timeout_s
        while True:
            try:
                db.execute("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > give_up:
                    raise
                time.sleep(0.01)
            else:
                return

    def _open_to_read(self, inode: Inode | None) -> _Handle | None:
        """Open what is there, also on a read-only disk; None for a file without tables."""
        if inode is None:
            return None
        try:
            handle = _Handle(self._connect("mode=rw"), inode, writable=False)
            ready = self._has_tables(handle)
        except sqlite3.OperationalError:
            handle = self._open_read_only()
            ready = self._has_tables(handle)
        if ready:
            return handle
        handle.db.close()
        return None

    def _open_read_only(self) -> _Handle:
        """Open a file in a folder that this process may not write to.

        Without its write-ahead log the file is taken as it is, for one call: nobody tells such a reader of changes.
        """
        log = self.path.with_name(self.path.name + "-wal")
        whole = not log.exists() or log.stat().st_size == 0
        return _Handle(self._connect("mode=ro&immutable=1" if whole else "mode=ro"), _READ_ONLY, writable=False)

    def _has_tables(self, handle: _Handle) -> bool:
        try:
            return version(handle.db, self.path) > 0
        except BaseException:
            handle.db.close()
            raise


def _sync_folders(folder: Path) -> None:
    """Make new folder entries durable, up to the root of what may have been created."""
    if os.name == "nt":  # pragma: no cover - Windows cannot open folders
        return
    for place in (folder, folder.parent, folder.parent.parent):
        with suppress(OSError):
            descriptor = os.open(place, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


_everywhere: WeakSet[Connections] = WeakSet()


def _before_fork() -> None:
    for connections in list(_everywhere):
        connections.before_fork()


def _after_fork_in_parent() -> None:
    for connections in list(_everywhere):
        connections.after_fork_in_parent()


around_fork(_before_fork, _after_fork_in_parent)
