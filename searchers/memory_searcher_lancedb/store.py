"""The table on disk or object storage: every call of LanceDB is here, and its errors end here.

Reads see other processes' commits (`read_consistency_interval` 0) and never write. Writers of one machine take turns
by a file lock, because LanceDB's own upsert gives two rows when two handles insert one key at once.
"""

import logging
import os
import shutil
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from threading import RLock
from time import monotonic, time
from typing import Any, TypeVar

from filelock import FileLock, Timeout

from memory_core.errors import EmbeddingMismatchError, IndexUnavailableError, MemoryCoreError
from memory_searcher_lancedb import rows as layout
from memory_searcher_lancedb.intact import first_damage
from memory_searcher_lancedb.rows import ArrowSchema, ArrowTable

log = logging.getLogger(__name__)

TABLE = "entries"
MAX_FRAGMENTS = 12
MAX_VERSIONS = 24
SAFE_AGE_S = 60
"""Files of versions younger than this stay, because another process may be reading them."""
_REMOTE_CHECK_S = 2.0
T = TypeVar("T")


class LanceTable:
    """One table of entries and cursors; opened at its first use, created by the first commit."""

    def __init__(
        self,
        uri: str,
        lock_path: Path,
        *,
        storage_options: dict[str, str] | None = None,
        index_rows: int = 50_000,
        refine: int = 5,
        lock_timeout_s: float = 10.0,
    ) -> None:
        local = None if "://" in uri else Path(uri).expanduser()
        self._uri = uri if local is None else str(local)
        self._folder = None if local is None else local / f"{TABLE}.lance"
        self._lock_path = lock_path
        self._lock_timeout_s = lock_timeout_s
        self._storage_options = storage_options or {}
        self._index_rows = index_rows
        self._refine = refine
        self._guard = RLock()
        self._pid: int | None = None
        self._db: Any = None
        self._table: Any = None
        self._indexed = False
        self._checked_at = 0.0
        self._remote_version: object = None
        self.broken: str | None = None

    # --- state -----------------------------------------------------------------------------------------------------

    @property
    def local(self) -> bool:
        """Whether every commit is seen at once by `token`: a directory, not object storage."""
        return self._folder is not None

    def token(self) -> object:
        """Return what changes with every commit of any process; None when there is no table."""
        if self._folder is not None:
            try:
                names = [name for name in os.listdir(self._folder / "_versions") if name.endswith(".manifest")]
                return (os.stat(self._folder).st_ino, min(names), len(names)) if names else None
            except OSError:
                return None
        if monotonic() - self._checked_at > _REMOTE_CHECK_S:
            self._remote_version = self.read(lambda table: table.version)
            self._checked_at = monotonic()
        return self._remote_version

    def _looked_at(self, table: Any) -> dict[str, Any]:
        """Return format, model and dimension; notice an index that another process has built."""
        self._indexed = any("vector" in index.columns for index in table.list_indices())
        return layout.about(table.schema)

    def check(self, model_id: str) -> None:
        """Refuse a table of another model.

        Raises:
            EmbeddingMismatchError: Its vectors come from another model than `model_id`.
        """
        known = self.read(self._looked_at) or {}
        if known and known.get("model") != model_id:
            raise EmbeddingMismatchError(
                f"The vector index was built with the embedding model {known.get('model')!r}, the configured one is "
                f"{model_id!r}. Vectors of two models cannot be compared: run `memory-core reindex`, or configure "
                "the former model again."
            )

    # --- reading ---------------------------------------------------------------------------------------------------

    def read(self, run: Callable[[Any], T]) -> T | None:
        """Run with the open table; None when there is none. A failure is tried once more with a fresh handle.

        Raises:
            IndexUnavailableError: It failed twice; a damaged table is marked, and rebuilt by the next commit.
        """
        for attempt in (1, 2):
            try:
                table = self._opened()
                return None if table is None else run(table)
            except BaseException as error:
                if not _of_the_driver(error):
                    raise
                self._forget_handle()
                if attempt == 2:
                    raise self._translated(error, "read") from error
        return None

    def nearest(self, vector: Any, condition: Any, limit: int, *, exact: bool) -> ArrowTable:
        """Return the `limit` nearest rows (`uid`, `entry`, `_distance`: 1 − cosine), nearest first."""

        def run(table: Any) -> ArrowTable:
            query = table.search(vector, vector_column_name="vector", query_type="vector").distance_type("cosine")
            query = query.where(condition, prefilter=True).limit(limit).select(["uid", "entry", "_distance"])
            if self._indexed:
                if exact:
                    query = query.bypass_vector_index()
                else:
                    query = query.refine_factor(self._refine).ef(max(100, 2 * limit * self._refine))
            found: ArrowTable = query.to_arrow()
            return found

        return self.read(run)

    def rows(self, condition: Any, columns: Sequence[str]) -> ArrowTable:
        """Return the given columns of all rows that fit."""
        return self.read(lambda table: table.search().where(condition).select(list(columns)).to_arrow())

    def count(self, condition: Any) -> int:
        """Return how many rows fit."""
        found = self.rows(condition, ["uid"])
        return 0 if found is None else len(found)

    @property
    def indexed(self) -> bool:
        """Whether an approximate index exists."""
        return self._indexed

    # --- writing ---------------------------------------------------------------------------------------------------

    @contextmanager
    def locked(self, timeout_s: float | None = None) -> Generator[bool, None, None]:
        """Hold the lock of all writers on this machine; gives False when another one kept it too long.

        It is the operating system's lock: a process that dies lets go of it.
        """
        try:
            self._lock_path.parent.mkdir(parents=True, exist_ok=True)
            lock = FileLock(self._lock_path, timeout=self._lock_timeout_s if timeout_s is None else timeout_s)
            lock.acquire()
            self._checked_at = 0.0
        except Timeout:
            yield False
            return
        except OSError as error:
            raise self._translated(error, "written") from error
        try:
            yield True
        finally:
            lock.release()

    def commit(self, doomed: Sequence[Any], rows: ArrowTable, schema: ArrowSchema) -> None:
        """Delete what fits one of `doomed`, then upsert `rows` by `uid`; the caller holds the lock.

        Raises:
            IndexUnavailableError: It could not be written. Deletions may have been; the cursor rows come last.
        """
        try:
            if self.broken is not None:
                self._wipe()
            table = self._opened()
            if table is None and schema is not None:
                table = self._connection().create_table(TABLE, schema=schema)
                self._table = table
            if table is None:
                return
            for condition in doomed:
                table.delete(condition)
            if rows is not None and len(rows):
                merge = table.merge_insert("uid").when_matched_update_all().when_not_matched_insert_all()
                merge.execute(rows, on_bad_vectors="null")
        except BaseException as error:
            if not _of_the_driver(error):
                raise
            self._forget_handle()
            raise self._translated(error, "written") from error
        self._checked_at = 0.0

    def maintain(self) -> bool:
        """Compact small files and drop old versions; the caller holds the lock. Return whether an index is due."""
        try:
            table = self._opened()
            if table is None:
                return False
            if table.stats()["fragment_stats"]["num_fragments"] > MAX_FRAGMENTS or self._many_versions():
                table.optimize(cleanup_older_than=timedelta(seconds=SAFE_AGE_S))
            return not self._indexed and table.count_rows() >= self._index_rows
        except BaseException as error:
            if not _of_the_driver(error):
                raise
            self._not_now(error, "compacted")
            return False

    def build_index(self) -> None:
        """Build the approximate index, which takes long for many rows; searches go on, writers wait."""
        from lancedb.index import HnswSq

        try:
            table = self._opened()
            if table is None or self._indexed:
                return
            log.info("Building the vector index")
            table.create_index("vector", config=HnswSq(distance_type="cosine", num_partitions=1))
            self._indexed = True
        except BaseException as error:
            if not _of_the_driver(error):
                raise
            self._not_now(error, "indexed")

    def _not_now(self, error: BaseException, what: str) -> None:
        """Log why housekeeping failed, which harms no search."""
        self._forget_handle()
        log.warning("The vector table could not be %s, it stays as it is: %s", what, error)

    def compact(self) -> None:
        """Compact everything and drop every old version now: for tests, benchmarks, and maintenance without readers."""
        with self.locked():
            table = self._opened()
            if table is not None:
                table.optimize(cleanup_older_than=timedelta(milliseconds=1))

    def drop(self) -> None:
        """Delete the table, whatever state it is in; the caller holds the lock."""
        if self._folder is not None:
            self._wipe()
            return
        try:
            if self._opened() is not None:
                self._connection().drop_table(TABLE)
        except BaseException as error:
            if not _of_the_driver(error):
                raise
            raise self._translated(error, "deleted") from error
        finally:
            self._forget_handle()

    def close(self) -> None:
        """Let go of the handles."""
        self._forget_handle()

    # --- inside ----------------------------------------------------------------------------------------------------

    def _connection(self) -> Any:
        with self._guard:
            if self._pid not in (None, os.getpid()):
                raise IndexUnavailableError(
                    "This process was forked after the vector index was opened, and LanceDB does not survive a fork: "
                    "open the memory in each process by itself, or start processes with the method 'spawn'."
                )
            if self._db is None:
                # Without this LanceDB writes a warning to stderr for figures that nobody here asks for.
                os.environ.setdefault("LANCE_INCLUDE_VECTOR_CENTROIDS", "false")
                import lancedb

                self._pid = os.getpid()
                self._db = lancedb.connect(
                    self._uri,
                    read_consistency_interval=timedelta(0),
                    storage_options=self._storage_options or None,
                )
            return self._db

    def _opened(self) -> Any:
        with self._guard:
            if self._folder is not None and not self._folder.exists():
                self._table, self._indexed, self.broken = None, False, None
                self._pid_check()
                return None
            if self.broken is not None:
                raise IndexUnavailableError(self.broken)
            if self._table is not None:
                self._pid_check()
                return self._table
            damage = first_damage(self._folder) if self._folder is not None else None
            if damage is not None:
                raise OSError(f"{damage} is damaged")
            try:
                table = self._connection().open_table(TABLE)
            except ValueError as error:
                if self._folder is None and "not found" in str(error):
                    return None
                raise
            if layout.about(table.schema).get("format") != layout.FORMAT:
                raise OSError("the table has another format")
            table.search().select(["uid"]).to_arrow()  # a file that is gone shows itself here, not in a search
            self._looked_at(table)
            self._table = table
            return table

    def _pid_check(self) -> None:
        if self._pid not in (None, os.getpid()):
            self._connection()

    def _forget_handle(self) -> None:
        with self._guard:
            self._table = None
            if self._pid == os.getpid():
                self._db = None

    def _wipe(self) -> None:
        with self._guard:
            self._forget_handle()
            if self._folder is not None:
                shutil.rmtree(self._folder, ignore_errors=True)
            self.broken = None
            self._indexed = False

    def _many_versions(self) -> bool:
        """Whether enough versions lie there, old enough to be removed, that a compaction is worth its time."""
        if self._folder is None:
            return False
        with os.scandir(self._folder / "_versions") as found:
            times = sorted(item.stat().st_mtime for item in found if item.name.endswith(".manifest"))
        return len(times) > MAX_VERSIONS and times[len(times) // 2] < time() - SAFE_AGE_S

    def _translated(self, error: BaseException, what: str) -> IndexUnavailableError:
        """Return our error; a table that cannot be read although nothing outside is wrong is marked as broken."""
        if isinstance(error, IndexUnavailableError):
            return error
        reason = " ".join(str(error).split())[:300]
        message = f"The vector index at {self._uri} could not be {what}: {reason}."
        outside = ("ermission denied", "No space", "Too many open files", "Read-only", "timed out")
        if self._folder is not None and what == "read" and not any(sign in reason for sign in outside):
            message += " It is rebuilt from the store by the next search; `memory-core reindex` does it now."
            self.broken = message
        else:
            message += " Check the disk, its permissions and the `uri`; the memories themselves are not affected."
        return IndexUnavailableError(message)


def _of_the_driver(error: BaseException) -> bool:
    """Whether an exception comes from LanceDB, Arrow or the file system, not from this library.

    A panic in LanceDB's Rust code arrives as a class outside `Exception` that has no public name.
    """
    if isinstance(error, MemoryCoreError):
        return False
    driver = (RuntimeError, ValueError, OSError, KeyError, layout.pa.ArrowException)
    return isinstance(error, driver) or type(error).__name__ == "PanicException"
