"""Former versions of `MEMORY.md`, a bounded number, each with the watermark that held when it was replaced."""

import contextlib
import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from memory_core.errors import StorerError
from memory_core.ledger.disk import Places, content_hash, read_bytes, replace, unavailable
from memory_core.ledger.state import Watermark

KEEP = 20
_TIME = "%Y%m%dT%H%M%S%fZ"
_NAME = re.compile(r"MEMORY-(\d{8}T\d{12}Z)-([0-9a-f]{8}|absent)\.json")


@dataclass(frozen=True, slots=True)
class Backup:
    """One former version. `data` is None when there was no `MEMORY.md`; `mark` is the watermark of that time.

    `undone` marks what an undo replaced: it can be brought back, but is not what the next undo returns to.
    """

    path: Path
    data: bytes | None
    mark: Watermark | None
    undone: bool = False


def save_backup(
    places: Places, data: bytes | None, mark: Watermark | None, now: datetime, *, undone: bool = False
) -> Path:
    """Write a backup durably, drop the oldest beyond the limit, and return the path of the copy, or of its note.

    Raises:
        StorageUnavailableError: It could not be written.
    """
    digest = (content_hash(data) or "absent")[:8]  # "absent" has six letters and stays whole
    latest = next((match[1] for path in _notes(places) if (match := _NAME.fullmatch(path.name))), None)
    if latest is not None:  # names give the order, also after the clock was set back
        now = max(now, datetime.strptime(latest, _TIME).replace(tzinfo=UTC) + timedelta(microseconds=1))
    stem = f"MEMORY-{now.astimezone(UTC):{_TIME}}-{digest}"
    note = {"mark": mark.fields() if mark is not None else None, "undone": undone}
    copy = places.backups / f"{stem}.md"
    if data is not None:
        replace(places, copy, data)
    replace(places, places.backups / f"{stem}.json", json.dumps(note).encode())
    _drop_oldest(places)
    return copy if data is not None else places.backups / f"{stem}.json"


def backups(places: Places) -> list[Backup]:
    """Return all readable backups, newest first."""
    found: list[Backup] = []
    for note in _notes(places):
        try:
            value = json.loads(read_bytes(places, note) or b"null")
            data = None if note.stem.endswith("-absent") else read_bytes(places, note.with_suffix(".md"))
        except (StorerError, ValueError):
            continue
        if isinstance(value, dict) and (data is not None or note.stem.endswith("-absent")):
            path = note if data is None else note.with_suffix(".md")
            found.append(Backup(path, data, Watermark.from_fields(value.get("mark")), value.get("undone") is True))  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType] - JSON
    return found


def forget_backup(backup: Backup) -> None:
    """Remove a backup that has been restored.

    Raises:
        StorageUnavailableError: It could not be removed.
    """
    try:
        backup.path.with_suffix(".json").unlink(missing_ok=True)
        backup.path.with_suffix(".md").unlink(missing_ok=True)
    except OSError as error:
        raise unavailable("removed", backup.path, error) from error


def _notes(places: Places) -> list[Path]:
    try:
        names = [path for path in places.checked(places.backups).iterdir() if _NAME.fullmatch(path.name)]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise unavailable("listed", places.backups, error) from error
    return sorted(names, reverse=True)


def _drop_oldest(places: Places) -> None:
    for note in _notes(places)[KEEP:]:
        with contextlib.suppress(OSError):  # one too many is no loss
            note.with_suffix(".md").unlink(missing_ok=True)
            note.unlink(missing_ok=True)
