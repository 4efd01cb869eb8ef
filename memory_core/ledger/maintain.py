"""The upkeep in the background: archive old ledgers, consolidate, prune old transcripts. One failure stops nothing."""

import asyncio
import logging
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from memory_core.errors import MemoryCoreError, StorerError
from memory_core.ledger.blocks import ledger_date
from memory_core.ledger.consolidate import consolidate
from memory_core.ledger.disk import append, decode, locked, make_folder, read_bytes, sync_folder, unavailable
from memory_core.ledger.job import Job
from memory_core.ledger.results import MaintenanceReport
from memory_core.sessions.transcript import ENDING, TranscriptLog

log = logging.getLogger(__name__)


async def maintain(job: Job, *, force: bool = False) -> MaintenanceReport:
    """Run the three steps when the last round is long enough ago; see `Ledger.maintain`."""
    now = job.clock.now()
    gap = timedelta(0) if force else job.config.consolidation_min_gap
    try:
        claim = await asyncio.to_thread(job.state.claim, "maintenance", now, gap)
    except StorerError as error:
        log.warning("Maintenance failed: %s", error)
        return MaintenanceReport(ran=False, errors=(str(error),))
    if claim is None:
        return MaintenanceReport(ran=False)
    errors: list[str] = []
    archived = await _step("archiving", errors, lambda: archive(job, errors))
    consolidation = None
    try:
        consolidation = await consolidate(job)
        if consolidation.status == "failed":
            errors.append(f"consolidation: {consolidation.error}")
    except Exception as error:
        errors.append(f"consolidation: {type(error).__name__}: {error}")
        log.exception("Maintenance: the consolidation failed")
    pruned = await _step("pruning", errors, lambda: prune_logs(job))
    report = MaintenanceReport(
        ran=True, archived=archived, consolidation=consolidation, pruned=pruned, errors=tuple(errors)
    )
    await asyncio.to_thread(job.state.record, "maintenance", now, "failed" if errors else "done", "; ".join(errors))
    return report


async def _step(name: str, errors: list[str], work: Callable[[], tuple[str, ...]]) -> tuple[str, ...]:
    try:
        return await asyncio.to_thread(work)
    except Exception as error:  # noqa: BLE001 - every step must have its turn, whatever the others do
        errors.append(f"{name}: {error}" if isinstance(error, MemoryCoreError) else f"{name}: {error!r}")
        log.warning("Maintenance, %s", errors[-1])
        return ()


def archive(job: Job, errors: list[str]) -> tuple[str, ...]:
    """Move the daily files beyond their retention to the archive; return their names.

    Where the archive has that day already, the file's text is appended to it. What cannot be moved stays, with a
    sentence in `errors`.
    """
    first_kept = job.local_now().date() - timedelta(days=job.config.daily_file_retention_days)
    moved: list[str] = []
    with locked(job.places):
        for path in job.places.ledgers():
            day = ledger_date(path.name)
            if day is None or day >= first_kept:
                continue
            try:
                _move(job, path)
                moved.append(path.name)
            except (OSError, StorerError) as error:
                errors.append(f"archiving {path.name}: {error}")
    return tuple(moved)


def _move(job: Job, path: Path) -> None:
    make_folder(job.places, job.places.archive)
    target = job.places.archive / path.name
    there, data = read_bytes(job.places, target), read_bytes(job.places, path)
    if data is None:
        return
    if there is None:
        job.places.checked(path).rename(target)
        sync_folder(target.parent)
        return
    if data not in there:  # else a former round was stopped between the two steps
        append(job.places, target, decode(data, path))
    path.unlink()


def prune_logs(job: Job) -> tuple[str, ...]:
    """Delete the transcripts whose newest line is older than their retention; return their sessions' ids.

    Files that were written since are not even opened: a round of maintenance costs nothing where nothing is old.

    Raises:
        StorageUnavailableError: The folder cannot be listed, or a transcript not be deleted.
    """
    now, days = job.clock.now(), job.config.session_retention_days
    oldest_kept = (now - timedelta(days=days)).timestamp()
    if job.sessions.is_relative_to(job.places.workspace):
        job.places.checked(job.sessions)  # a link in somebody else's workspace must not lead our deleting elsewhere
    try:
        found = [path for path in job.sessions.iterdir() if path.name.endswith(ENDING)]
        if all(path.lstat().st_mtime >= oldest_kept for path in found):
            return ()
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise unavailable("listed", job.sessions, error) from error
    return tuple(TranscriptLog(job.sessions).prune(days, now=now))
