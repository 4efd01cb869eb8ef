"""What the last consolidation changed, and taking it back."""

import difflib
from pathlib import Path

from memory_core.contracts import Clock
from memory_core.errors import CorruptEntryError, StorageUnavailableError, StorerError
from memory_core.ledger.backups import Backup, backups, forget_backup, save_backup
from memory_core.ledger.blocks import lines_of
from memory_core.ledger.disk import BusyError, Places, content_hash, decode, locked, read_bytes, replace, unavailable
from memory_core.ledger.state import load_watermark, save_watermark


class NothingToUndoError(StorerError):
    """There is no consolidation to show or to take back, or `MEMORY.md` was edited after it."""


def last_backup(places: Places) -> Backup:
    """Return the version that the last consolidation replaced.

    Raises:
        NothingToUndoError: There is none.
    """
    found = next((backup for backup in backups(places) if not backup.undone), None)
    if found is None:
        raise NothingToUndoError(f"There is no backup in {places.backups}: nothing has been consolidated yet.")
    return found


def diff(places: Places) -> str:
    """Return the unified diff from the version before the last consolidation to the present `MEMORY.md`.

    Raises:
        NothingToUndoError: There is no backup.
    """
    backup = last_backup(places)
    before = _lines(backup.data, backup.path)
    after = _lines(read_bytes(places, places.memory_md), places.memory_md)
    name = places.relative(backup.path)
    return "\n".join(difflib.unified_diff(before, after, f"before ({name})", "MEMORY.md", lineterm=""))


def _lines(data: bytes | None, path: Path) -> list[str]:
    if data is None:
        return []
    try:
        text = decode(data, path)
    except CorruptEntryError:
        text = data.decode("utf-8", errors="replace")
    return lines_of(text.removesuffix("\n"))


def undo(places: Places, clock: Clock, *, force: bool = False) -> Backup:
    """Bring back `MEMORY.md` and the watermark as they were before the last consolidation; return what was restored.

    What stands in `MEMORY.md` now is backed up first. The ledgers that were merged count as new again, so that the next
    consolidation merges them: no fact is lost by an undo.

    Raises:
        NothingToUndoError: There is no backup, or `MEMORY.md` was edited after the consolidation and `force` is False.
        StorageUnavailableError: A file could not be written, or a consolidation is running.
    """
    try:
        with locked(places, ".consolidation.lock", timeout_s=0), locked(places):
            backup, mark = last_backup(places), load_watermark(places)
            present = read_bytes(places, places.memory_md)
            if not force and mark is not None and content_hash(present) != mark.memory:
                raise NothingToUndoError(
                    "MEMORY.md was edited after the last consolidation; an undo would drop that edit. "
                    "Look at the difference first, then undo with force: the edited file is kept as a backup."
                )
            save_backup(places, present, mark, clock.now(), undone=True)
            if backup.data is not None:
                replace(places, places.memory_md, backup.data)
            else:
                _remove(places.checked(places.memory_md))
            save_watermark(places, backup.mark)
            forget_backup(backup)
    except BusyError as error:
        raise StorageUnavailableError("A consolidation is running; undo when it has ended.") from error
    return backup


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise unavailable("removed", path, error) from error
