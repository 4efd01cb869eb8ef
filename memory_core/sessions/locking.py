"""A lock between processes that costs little: one lock file, held while it is open.

`flock` is released by the system when its holder dies, so that nobody ever waits on a dead lock. A process that is
forked meanwhile inherits the open file, and with it the lock: it closes its copy at once. Where there is no
`flock` (Windows), the package filelock does the same more slowly.
"""

import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment] # the name says whether there is one

_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.0005, 0.02


@contextmanager
def process_lock(path: Path, timeout_s: float) -> Generator[None]:
    """Hold the lock file `path` against every other holder, in this process too; its folder is made when needed.

    Raises:
        TimeoutError: Another one holds it for longer than `timeout_s`.
        OSError: The file or its folder cannot be made.
    """
    if fcntl is None:
        with _by_filelock(path, timeout_s):
            yield
        return
    descriptor = _opened(path)
    _open_here.add(descriptor)
    try:
        _wait(descriptor, timeout_s)
        yield
    finally:
        if descriptor in _open_here:
            _open_here.discard(descriptor)
            os.close(descriptor)


def _after_fork() -> None:
    while _open_here:
        os.close(_open_here.pop())


_open_here: set[int] = set()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _opened(path: Path) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
    try:
        return os.open(path, flags, 0o600)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, flags, 0o600)


def _wait(descriptor: int, timeout_s: float) -> None:
    end, wait_s = time.monotonic() + timeout_s, _FIRST_WAIT_S
    while not _taken(descriptor):
        if time.monotonic() >= end:
            raise TimeoutError(f"the lock was not free for {timeout_s:.0f} s")
        time.sleep(wait_s)
        wait_s = min(wait_s * 2, _LONGEST_WAIT_S)


def _taken(descriptor: int) -> bool:
    assert fcntl is not None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def _by_filelock(path: Path, timeout_s: float) -> Generator[None]:
    from filelock import FileLock, Timeout

    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        lock = FileLock(path, timeout=timeout_s, thread_local=False)
        lock.acquire()
    except Timeout as error:
        raise TimeoutError(f"the lock was not free for {timeout_s:.0f} s") from error
    try:
        yield
    finally:
        lock.release()
