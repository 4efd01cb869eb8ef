"""From one store to another: everything, verified, and again from where it stopped."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from hashlib import blake2b
from itertools import islice
from typing import Any, cast

from memory_core.clock import SystemClock
from memory_core.contracts import Clock, MemoryStorer, Progress
from memory_core.model import MemoryEntry, MemoryId
from memory_core.serial import to_json
from memory_core.transfer.report import MigrationReport, no_progress

BATCH = 500


def migrate(
    source: MemoryStorer,
    target: MemoryStorer,
    *,
    replace_newer: bool = False,
    dry_run: bool = False,
    clock: Clock | None = None,
    progress: Progress = no_progress,
) -> MigrationReport:
    """Copy every live entry with its times, expiry, metadata, source, scope and user; the source stays as it is.

    Entries that are equal in the target already are not written again, so an interrupted migration is resumed by
    running it once more. An entry that is newer in the target stays, unless `replace_newer`. Afterwards the source is
    read a second time, and each of its entries is compared with the target's by content hash. Hooks and filters do
    not run: what was stored once is moved as it is.

    Args:
        source: Where the entries are.
        target: Where they go; both must have the same scopes.
        replace_newer: Overwrite entries that are newer in the target.
        dry_run: Only count; nothing is written and nothing verified.
        clock: Decides what expires on the way.
        progress: Told how many entries were copied, then how many were verified.

    Raises:
        UnknownScopeError: The target lacks a scope of the source.
        StorageUnavailableError: One of the stores failed; what was copied stays, and the call can be repeated.

    """
    clock = clock or SystemClock()
    copied, unchanged, kept, total = _copy(
        source, target, replace_newer=replace_newer, dry_run=dry_run, progress=progress
    )
    if dry_run:
        return MigrationReport(True, total, sum(1 for _ in target.scan()), copied, unchanged, kept, 0)
    verified = kept = count = 0
    mismatched: list[MemoryId] = []
    for batch in _batches(source.scan()):
        present = target.get_many([entry.id for entry in batch])
        for entry in batch:
            there = present.get(entry.id)
            if there is not None and content_hash(there) == content_hash(entry):
                verified += 1
            elif there is not None and _newer(there, entry) and not replace_newer:
                kept += 1
            elif _gone(source, entry, clock.now()):
                continue
            else:
                mismatched.append(entry.id)
            count += 1
        progress(count, total)
    in_target = sum(1 for _ in target.scan())
    return MigrationReport(False, count, in_target, copied, unchanged, kept, verified, tuple(mismatched))


def _copy(
    source: MemoryStorer, target: MemoryStorer, *, replace_newer: bool, dry_run: bool, progress: Progress
) -> tuple[int, int, int, int]:
    """Return how many were copied, were equal, were kept, and were read."""
    copied = unchanged = kept = done = 0
    for batch in _batches(source.scan()):
        present = target.get_many([entry.id for entry in batch])
        writing: list[MemoryEntry] = []
        for entry in batch:
            there = present.get(entry.id)
            if there == entry:
                unchanged += 1
            elif there is not None and _newer(there, entry) and not replace_newer:
                kept += 1
            else:
                writing.append(entry)
        if writing and not dry_run:
            target.put_many(writing)
        copied += len(writing)
        done += len(batch)
        progress(done, None)
    return copied, unchanged, kept, done


def content_hash(entry: MemoryEntry) -> str:
    """Return a hash of everything that an entry says; equal entries have equal hashes in every store."""
    return blake2b(
        to_json(entry.model_copy(update={"metadata": _sorted(entry.metadata)})).encode(), digest_size=16
    ).hexdigest()


def _sorted(value: object) -> Any:
    """Return JSON data with its names in order: stores may keep them in another."""
    if isinstance(value, dict):
        return {name: _sorted(item) for name, item in sorted(cast("dict[str, object]", value).items())}
    return [_sorted(item) for item in cast("list[object]", value)] if isinstance(value, list) else value


def _newer(one: MemoryEntry, other: MemoryEntry) -> bool:
    return one.updated_at > other.updated_at


def _gone(source: MemoryStorer, entry: MemoryEntry, now: datetime) -> bool:
    """Whether the entry expired or was removed from the source while it was being compared."""
    return entry.expired(now) or source.get(entry.id) is None


def _batches(entries: Iterable[MemoryEntry]) -> Iterator[list[MemoryEntry]]:
    iterator = iter(entries)
    while batch := list(islice(iterator, BATCH)):
        yield batch
