"""The search over `MEMORY.md` and `memory/*.md`: an index that follows the files before every search.

Each bullet or line is an entry. Its key stands for path and line but shows neither, because searchers index the words
of a key, and a query for `2499` must not find line 2499. Files are compared by their stat; one that was written within
the last two seconds is read again, because a clock tick can hide an edit. New, renamed and deleted files, and edits of
`MEMORY.md`, of the last two daily files and of what changed lately, are seen by the next search; an edit in place of an
older file at the latest one second later. What changed goes to the searcher as a step of a change feed; the cursor is a
hash over all entries, so that a persistent index that is up to date is not built anew.
"""

import logging
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta, tzinfo
from hashlib import blake2b
from pathlib import Path
from threading import RLock
from time import monotonic
from typing import TypeAlias

from memory_core.contracts import FEED_PAGE, Clock, MemorySearcher, Problem
from memory_core.errors import MemoryCoreError, StorerError
from memory_core.ledger.blocks import clean_text, ledger_date, normalised, units
from memory_core.ledger.disk import Places, decode, read_bytes, unavailable
from memory_core.model import ChangeBatch, MemoryEntry, MemoryId, SearchQuery
from memory_core.naming import short_hash

log = logging.getLogger(__name__)

SCOPE = "ledger"
USER_ID = "ledger"
MAX_HITS = 30
MEMORY_IMPORTANCE, LEDGER_IMPORTANCE = 6, 5
"""Decide between lines of one score: curated memory before raw ledger."""
MEMORY_MD = "MEMORY.md"
RACY_S = 2.0
SCAN_GAP_S = 1.0
"""An old file that is edited in place, without a new name in the folder, is noticed at the latest after this time."""
RECENT_S = 600.0
"""What was written within this time is looked at by every search."""
_SPARE = 3

Stamp: TypeAlias = tuple[int, int, int]
"""A file's time of change in nanoseconds, its size and its inode."""


@dataclass(frozen=True, slots=True)
class LedgerHit:
    """One found line. `path` is relative to the workspace, `line` 1-based, `score` 0..1."""

    path: str
    line: int
    text: str
    score: float
    updated_at: datetime

    def __str__(self) -> str:
        return f"{self.path}#{self.line}: {self.text}"


@dataclass(slots=True)
class _File:
    """What is known of one file: its stat, when it was read, and its entries."""

    stamp: Stamp
    read_at: float
    digest: bytes
    entries: dict[MemoryId, MemoryEntry]


class LedgerIndex:
    """Finds lines of the ledger's files; safe for several threads. Nothing is read before the first search.

    Args:
        places: The ledger's paths.
        build: Makes the searcher, at the first search.
        clock: Where the time comes from.
        zone: Decides which moment the day of a daily file is; None is the system's zone.
    """

    def __init__(self, places: Places, build: Callable[[], MemorySearcher], clock: Clock, zone: tzinfo | None) -> None:
        self._places = places
        self._build = build
        self._clock = clock
        self._zone = zone
        self._files: dict[str, _File] = {}
        self._names: dict[str, str] = {}  # the short hash in a key → the file's name
        self._unreadable: dict[str, tuple[Stamp, str]] = {}
        self._searcher: MemorySearcher | None = None
        self._lock = RLock()
        self._watched: list[str] = []
        self._folder_stamp: Stamp | None = None
        self._scanned_at = 0.0

    def search(self, text: str, limit: int = MAX_HITS) -> list[LedgerHit]:
        """Return the best lines for `text`, best first, at most 30; a line that stands in several places once.

        Raises:
            StorageUnavailableError: The folder cannot be listed.
            SearcherError: The index failed.
        """
        limit = min(limit, MAX_HITS)
        if limit < 1 or not text.strip():
            return []
        searcher, names = self.sync(), self._names
        now = self._clock.now()
        hits: dict[str, LedgerHit] = {}
        fetched = limit + _SPARE
        while True:
            found = searcher.search(SearchQuery(USER_ID, text, fetched, now))
            for hit in found:
                same = normalised(hit.entry.content)
                if same not in hits:
                    file, _, line = hit.entry.id.key[1:].partition("n")
                    path = names[file]
                    hits[same] = LedgerHit(path, int(line), hit.entry.content, hit.score, hit.entry.updated_at)
            if len(hits) >= limit or len(found) < fetched:
                return list(hits.values())[:limit]
            fetched *= 4  # many lines say the same

    def sync(self) -> MemorySearcher:
        """Bring the index up to the files and return the searcher.

        Raises:
            StorageUnavailableError: The folder cannot be listed.
            SearcherError: The index failed; the next call builds it anew.
        """
        with self._lock:
            first = self._searcher is None
            searcher = self._build() if self._searcher is None else self._searcher
            upserts, removals = self._follow()
            try:
                if first:
                    self._start(searcher)
                elif upserts or removals:
                    searcher.apply(ChangeBatch(upserts, removals, self._cursor()), USER_ID)
            except BaseException:
                self._searcher = searcher
                self.close()  # what was read is not in the index: forget both
                raise
            self._searcher = searcher
            return searcher

    def problems(self) -> list[Problem]:
        """Say which files cannot be read, and what the searcher reports. Starts no index that is not there yet."""
        with self._lock:
            try:
                if self._searcher is not None:
                    self.sync()
                else:
                    self._follow()
                    self._forget()
            except MemoryCoreError as error:
                return [Problem("error", "ledger-index", str(error), "memory")]
            found = [Problem("error", "ledger-file", reason, name) for name, (_, reason) in self._unreadable.items()]
            return found + (self._searcher.problems() if self._searcher is not None else [])

    def close(self) -> None:
        """Close the searcher. Closing twice is harmless; a later search starts anew."""
        with self._lock:
            if self._searcher is not None:
                self._searcher.close()
            self._searcher = None
            self._forget()

    def _forget(self) -> None:
        """Forget what was read, so that the next search reads all files."""
        self._files.clear()
        self._folder_stamp = None

    def _start(self, searcher: MemorySearcher) -> None:
        cursor = self._cursor()
        if searcher.cursor(USER_ID) == cursor:
            return
        everything = [entry for file in self._files.values() for entry in file.entries.values()]
        pages = [everything[start : start + FEED_PAGE] for start in range(0, len(everything), FEED_PAGE)] or [[]]
        for number, page in enumerate(pages, 1):
            last = number == len(pages)
            at = cursor if last else f"unfinished-{number}"
            searcher.apply(ChangeBatch(page, [], at, complete=number == 1, more=not last), USER_ID)

    def _cursor(self) -> str:
        digest = blake2b(digest_size=16)
        for name in sorted(self._files):
            digest.update(name.encode(errors="surrogateescape") + b"\0" + self._files[name].digest)
        return digest.hexdigest()

    def _follow(self) -> tuple[list[MemoryEntry], list[MemoryId]]:
        """Read what has changed; return the changed entries and those that are gone."""
        upserts: list[MemoryEntry] = []
        removals: list[MemoryId] = []
        now = self._clock.now().timestamp()
        for name, stamp in self._looked_at():
            known = self._files.get(name)
            if stamp is None:
                self._unreadable.pop(name, None)
                if known is not None:
                    removals.extend(self._files.pop(name).entries)
                continue
            if known is not None and known.stamp == stamp and known.read_at - stamp[0] / 1e9 > RACY_S:
                continue
            if known is None and self._unreadable.get(name, (None, ""))[0] == stamp:
                continue
            try:
                path = self._places.workspace / name
                data = read_bytes(self._places, path)
                if data is None:
                    continue
                digest = blake2b(data, digest_size=16).digest()
                if known is not None and known.digest == digest:
                    known.stamp, known.read_at = stamp, now
                    continue
                text = decode(data, path)
            except StorerError as error:
                log.warning("The ledger's search leaves a file out: %s", error)
                self._unreadable[name] = (stamp, str(error))
                if known is not None:
                    removals.extend(self._files.pop(name).entries)
                continue
            self._unreadable.pop(name, None)
            entries = self._entries(name, text, stamp[0], known.entries if known is not None else {})
            if known is not None:
                removals.extend(key for key in known.entries if key not in entries)
            upserts.extend(
                entry for key, entry in entries.items() if known is None or known.entries.get(key) is not entry
            )
            self._files[name] = _File(stamp, now, digest, entries)
        return upserts, removals

    def _entries(
        self, name: str, text: str, mtime_ns: int, known: Mapping[MemoryId, MemoryEntry]
    ) -> dict[MemoryId, MemoryEntry]:
        """Return the entries of a file; a line that is as it was keeps its entry, and so its time."""
        day = ledger_date(name.rpartition("/")[2])
        curated = "/" not in name
        at = datetime.fromtimestamp(mtime_ns // 1_000_000_000, UTC)
        if day is not None:
            with suppress(ValueError, OverflowError):  # a day at the edge of the calendar
                at = datetime.combine(day, time(12), self._zone).astimezone(UTC)
        importance = MEMORY_IMPORTANCE if curated else LEDGER_IMPORTANCE
        found: dict[MemoryId, MemoryEntry] = {}
        file = short_hash(name)
        self._names[file] = name
        for unit in units(clean_text(text)):
            key = MemoryId(SCOPE, USER_ID, f"l{file}n{unit.line}")
            before = known.get(key)
            if before is not None and before.content == unit.text:
                found[key] = before
            else:
                # Not validated: the text comes from decoded UTF-8 and is not blank, and a year has 7,000 lines.
                found[key] = MemoryEntry.model_construct(
                    id=key,
                    content=unit.text,
                    importance=importance,
                    created_at=at,
                    updated_at=at,
                    expires_at=None,
                    source="ledger",
                    metadata={},
                )
        return found

    def _looked_at(self) -> list[tuple[str, Stamp | None]]:
        """Return the files that may have changed, by their shown name, with their stat; None for one that is gone.

        All of them after a second, or when the folder has changed; else those that change from minute to minute.
        """
        places = self._places
        folder = _stamp(places.folder)
        found: list[tuple[str, Stamp | None]]
        if folder != self._folder_stamp or monotonic() - self._scanned_at > SCAN_GAP_S:
            listing = _scan(places)
            now = self._clock.now()
            recent = (now.timestamp() - RECENT_S) * 1e9
            today = now.astimezone(self._zone).date()
            daily = {f"memory/{today - timedelta(days=back)}.md" for back in (0, 1)}
            self._watched = [name for name, stamp in listing.items() if stamp[0] > recent or name in daily]
            self._scanned_at, self._folder_stamp = monotonic(), folder
            found = [(name, None) for name in (*self._files, *self._unreadable) if name not in listing]
            found.extend(listing.items())
        else:
            found = [(name, _stamp(places.workspace / name)) for name in self._watched]
        return [*(pair for pair in found if pair[0] != MEMORY_MD), (MEMORY_MD, _stamp(places.memory_md))]


def _stamp(path: Path) -> Stamp | None:
    try:
        state = path.stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise unavailable("read", path, error) from error
    return (state.st_mtime_ns, state.st_size, state.st_ino)


def _scan(places: Places) -> dict[str, Stamp]:
    """List `memory/*.md`; the folder itself may not lead out of the workspace, single files are checked when read."""
    try:
        places.checked(places.folder)
        with os.scandir(places.folder) as listing:
            found: dict[str, Stamp] = {}
            for entry in listing:
                if entry.name.endswith(".md") and not entry.name.startswith(".") and _storable(entry.name):
                    try:
                        state = entry.stat()
                    except OSError:  # a link to nothing, or deleted since
                        continue
                    found[f"memory/{entry.name}"] = (state.st_mtime_ns, state.st_size, state.st_ino)
            return found
    except FileNotFoundError:
        return {}
    except OSError as error:
        if isinstance(error, StorerError):
            raise
        raise unavailable("listed", places.folder, error) from error


def _storable(name: str) -> bool:
    """Whether a file's name can be part of a key."""
    return name.isprintable() and len(name) < 400
