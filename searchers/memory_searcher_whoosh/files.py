"""One index directory on disk: opening it at its newest state, committing to it, noticing that it is damaged.

Whoosh writes a table of contents (`_MAIN_<generation>.toc`) at each commit and renames it into place, so a killed
writer leaves the state before. It does not fsync; after a power cut the index may be damaged, which opening or reading
it shows, and it is then built anew from the store.
"""

import logging
import os
import re
import shutil
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from memory_core.errors import IndexUnavailableError
from memory_searcher_whoosh import driver

log = logging.getLogger(__name__)

STATE_ID = "state"
"""The id of the one document that holds the cursor; entries have hashes for ids."""

_POLL_S = 0.005
_RETRIES = 20
_LOOKS = 6
_LOOK_AGAIN_S = 0.002
_TOC = re.compile(r"_MAIN_(\d+)\.toc")
_LEFTOVER = re.compile(r"_MAIN_\d+\.toc\.[\d.e+-]+")
Document = Mapping[str, Any]
Stamp = tuple[int, int, int]


def document_id(scope: str, key: str) -> str:
    """Return the indexed id of an entry of one user: a hash, short, and never confused with the id of the state."""
    return blake2b(f"{len(scope)}\0{scope}\0{key}".encode(), digest_size=16).hexdigest()


class OvertakenError(Exception):
    """Another process committed while this one was reading; never leaves this room."""


@dataclass(slots=True)
class Opened:
    """A reader of one generation. `state` is what the last commit stored beside the entries."""

    searcher: driver.Searcher
    stamp: Stamp
    state: str


def _merge(writer: driver.Writer, segments: list[driver.Segment]) -> list[driver.Segment]:
    """Merge what is small, as Whoosh does, and what is mostly deleted, which it would keep for ever."""
    kept: list[driver.Segment] = []
    for segment in segments:
        if segment.deleted_count() * 2 > segment.doc_count_all():
            reader = driver.open_segment(writer.storage, writer.schema, segment)
            writer.add_reader(reader)
            reader.close()
        else:
            kept.append(segment)
    return list(driver.merge_small(writer, kept))


class IndexFiles:
    """The directory of one user's index. Not safe for several threads; its owner holds a lock."""

    def __init__(self, directory: Path, lock_timeout_s: float) -> None:
        self.directory = directory
        self._timeout_s = lock_timeout_s
        self._schema = driver.schema()
        self._opened: Opened | None = None
        self._storage = driver.Storage(directory)  # of the reader

    # --- reading ---------------------------------------------------------------------------------------------------

    def open(self) -> Opened | None:
        """Return a reader of the newest commit, or None when there is no index yet. Nothing is written.

        A damaged index is removed, and then there is none.

        Raises:
            IndexUnavailableError: The files are there but cannot be read now (permissions, too many open files).

        """
        for _ in range(_RETRIES):
            try:
                with self.guarded():
                    return self._read()
                return None
            except OvertakenError:
                continue
        raise self._unavailable("cannot be read", OSError("other processes write it without a pause"))

    def _read(self) -> Opened | None:
        for _ in range(10):
            stamp = self._newest()
            if stamp is None:
                break
            if self._opened is not None and self._opened.stamp == stamp:
                return self._opened
            self._forget_reader()
            try:
                # A fresh searcher each time: Searcher.refresh() brings deleted documents back.
                searcher = self._index().searcher()
            except (FileNotFoundError, driver.EmptyIndexError):
                if self._newest() == stamp:
                    raise  # not a commit that overtook us: a file is missing
                continue
            self._opened = Opened(searcher, stamp, self._stored_state(searcher))
            return self._opened
        self._forget_reader()
        return None

    @staticmethod
    def _stored_state(searcher: driver.Searcher) -> str:
        """Return what the last commit stored beside the entries; nothing for an index that was only just made."""
        try:
            stored = searcher.document(id=STATE_ID)
            if stored is None and searcher.doc_count_all():
                raise driver.IndexError("the index holds no cursor")
        except BaseException:
            searcher.close()
            raise
        return str(stored["state"]) if stored is not None else ""

    @contextmanager
    def guarded(self, stamp: Stamp | None = None) -> Generator[None, None, None]:
        """Remove the index when what happens inside shows that it is damaged.

        Whoosh has no checksums: damage shows as any exception at all. Failures of the system are not damage; neither is
        a file that the next commit of another process has replaced. `stamp` is the state that is read.

        Raises:
            IndexUnavailableError: The system refused; or the index was damaged while it was searched.
            OvertakenError: Another process has committed meanwhile: read again.

        """
        before = stamp if stamp is not None else self._newest()
        try:
            yield
        except IndexUnavailableError:
            raise
        except (PermissionError, MemoryError, InterruptedError) as error:
            raise self._unavailable("cannot be read", error) from error
        except Exception as error:
            if isinstance(error, OSError) and not isinstance(error, FileNotFoundError):
                raise self._unavailable("cannot be read", error) from error
            if self._newest() != before:
                self._forget_reader()
                raise OvertakenError from error
            log.warning("The index in %s is damaged (%s) and is built anew", self.directory, type(error).__name__)
            self.remove()

    def _unavailable(self, what: str, error: Exception) -> IndexUnavailableError:
        return IndexUnavailableError(
            f"The Whoosh index in {self.directory} {what}: {error}. Check the directory's rights and free space, or "
            "delete it: it is built anew from the store."
        )

    def _newest(self) -> Stamp | None:
        """Return what tells the newest commit from every other: its number, and its file (a new index counts anew).

        A commit of another process puts a new file in the place of the old one, and a listing made meanwhile may show
        neither: where there are other files, none is believed only after a few looks.
        """
        for _ in range(_LOOKS):
            try:
                names = os.listdir(self.directory)
                newest = max((int(match.group(1)) for name in names if (match := _TOC.fullmatch(name))), default=None)
                if newest is not None:
                    status = os.stat(self.directory / f"_MAIN_{newest}.toc")
                    return newest, status.st_ino, status.st_mtime_ns
            except NotADirectoryError:
                return None
            except FileNotFoundError:
                if not self.directory.exists():
                    return None
            else:
                if not any(name.startswith("MAIN_") for name in names):
                    return None
            time.sleep(_LOOK_AGAIN_S)
        return None

    def _index(self) -> Any:
        # With our own schema the pickled one in the files is skipped.
        self._storage.release()
        self._storage = driver.Storage(self.directory)
        return driver.Index(self._storage, schema=self._schema)

    # --- writing ---------------------------------------------------------------------------------------------------

    def commit(self, decide: "Callable[[Opened | None], Change | None]") -> None:
        """Change the index in one step, under the lock that all processes share.

        `decide` is told the newest state, which nobody else can change meanwhile, and returns what to write.

        Raises:
            IndexUnavailableError: Another process holds the lock for too long, or it cannot be written.

        """
        try:
            if not self._commit(decide) and not self._commit(decide):
                raise IndexUnavailableError(f"The Whoosh index in {self.directory} is damaged again and again.")
        except driver.LockError as error:
            raise IndexUnavailableError(
                f"Another process has been writing the Whoosh index in {self.directory} for {self._timeout_s:g} "
                "seconds. Try again, or raise lock_timeout_s of [searchers.whoosh]."
            ) from error
        except OSError as error:
            raise self._unavailable("cannot be written", error) from error

    def _commit(self, decide: "Callable[[Opened | None], Change | None]") -> bool:
        """Try once; return False when the index turned out to be damaged and was removed."""
        writer = self._writer()
        try:
            done = False
            with self.guarded():
                opened = self._read()
                done = True
            change = decide(opened) if done else None
            if change is None:
                return done
            if not change.replace and opened is not None:
                for id in (*change.removed, *(document["id"] for document in change.documents)):
                    number = opened.searcher.document_number(id=id)
                    if number is not None:
                        writer.delete_document(number)
            for document in change.documents:
                writer.add_document(**document)
            writer.commit(mergetype=driver.forget_all if change.replace else _merge)
            return True
        finally:
            if not writer.is_closed:
                with suppress(Exception):
                    writer.cancel()
            writer.storage.release()

    def _writer(self) -> driver.Writer:
        """Return a writer that holds the lock; the directory and an empty index are made when they are missing."""
        for attempt in range(1, _RETRIES + 1):
            self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            storage: Any = driver.Storage(self.directory)
            lock = storage.lock("MAIN_CREATE")
            lock.acquire(blocking=True)
            try:
                if self._newest() is None:
                    driver.Index.create(storage, self._schema)
                before = self._newest()
            finally:
                lock.release()
            try:
                writer = driver.open_writer(
                    driver.Index(storage, schema=self._schema),
                    timeout=self._timeout_s,
                    delay=_POLL_S,
                    codec=driver.new_codec(),
                    compound=False,
                )
            except (driver.LockError, PermissionError):
                raise
            except Exception as error:
                storage.release()
                if attempt == _RETRIES:
                    raise self._unavailable("cannot be opened", error) from error
                if self._newest() == before:
                    self.remove()  # damaged; otherwise another process' commit was faster
                continue
            self._sweep()
            return writer
        raise AssertionError("unreachable")

    def _sweep(self) -> None:
        """Delete what a killed writer left; we hold the lock, so nobody is writing."""
        for name in os.listdir(self.directory):
            if _LEFTOVER.fullmatch(name):
                (self.directory / name).unlink(missing_ok=True)

    # --- removing --------------------------------------------------------------------------------------------------

    def remove(self) -> None:
        """Delete the directory: out of the way in one step, then file by file."""
        self._forget_reader()
        trash = self.directory.with_name(f"{self.directory.name}.{os.getpid()}.{os.urandom(4).hex()}.old")
        try:
            self.directory.rename(trash)
        except FileNotFoundError:
            return
        except OSError as error:
            raise self._unavailable("is damaged and cannot be removed", error) from error
        shutil.rmtree(trash, ignore_errors=True)

    def _forget_reader(self) -> None:
        if self._opened is not None:
            with suppress(Exception):
                self._opened.searcher.close()
            self._opened = None
        self._storage.release()

    def close(self) -> None:
        """Close the files."""
        self._forget_reader()


@dataclass(frozen=True, slots=True)
class Change:
    """What one commit does: `replace` forgets everything before. `documents` include the one with the state."""

    documents: Sequence[Document]
    removed: Sequence[str] = ()
    replace: bool = False
