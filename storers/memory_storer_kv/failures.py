"""SQLite's errors in sentences: what happened, what is there, what to do next."""

import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from memory_core.errors import StorageUnavailableError

_ADVICE = {
    "BUSY": "another process has been writing to it for too long; try again, or raise `busy_timeout_s`",
    "LOCKED": "another process has been writing to it for too long; try again, or raise `busy_timeout_s`",
    "READONLY": "the file or its folder is read-only; make both writable",
    "PERM": "this user may not use the file; check its owner and mode",
    "CANTOPEN": "the file or its folder cannot be opened; check that the folder exists and who may use it",
    "FULL": "the disk is full; free some space",
    "IOERR": "the disk reports an error; check its free space and health",
    "CORRUPT": "the file is damaged; move it away and restore a backup, or import an export",
    "NOTADB": "the file is not a memory file; move it away",
    "TOOBIG": "the memory is larger than the file can hold; split it",
}


def unavailable(path: Path, error: Exception, doing: str) -> StorageUnavailableError:
    """Return the error to raise for what SQLite or the file system reported while `doing` something with `path`."""
    name: str = getattr(error, "sqlite_errorname", "") or ""
    kind = name.removeprefix("SQLITE_").split("_")[0]
    if isinstance(error, OSError):
        reason = f"{error.strerror or error}; check the folder and who may use it"
    else:
        reason = _ADVICE.get(kind, f"{error}")
    return StorageUnavailableError(f"The memory file {path} cannot be {doing}: {reason}.")


@contextmanager
def translated(path: Path, doing: str) -> Generator[None, None, None]:
    """Turn what SQLite and the file system raise inside into `StorageUnavailableError`."""
    try:
        yield
    except StorageUnavailableError:
        raise  # it is an OSError too, and says already what it has to
    except (sqlite3.Error, OSError) as error:
        raise unavailable(path, error, doing) from error
