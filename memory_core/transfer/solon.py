"""Memories written by the Java original: one Markdown file each, with `name: "shared__key"` in the front matter.

Fields: `name` (user and key, joined by `__`; the user id ends at the first `__`, because keys may hold one),
`time` (local time when it was said), `importance`, `ttl` (seconds; 0 and below mean for ever), `stored_at`
(milliseconds since 1970) and `scope`. Everything else goes to the metadata.
"""

import re
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Any, cast

from memory_core.clock import SystemClock
from memory_core.contracts import Clock, MemorySolution, Progress
from memory_core.errors import CorruptEntryError, InvalidEntryError, InvalidKeyError
from memory_core.model import HOT_IMPORTANCE, MAX_IMPORTANCE, MIN_IMPORTANCE, SHARED_USER_ID, MemoryEntry, MemoryId
from memory_core.policy import expiry
from memory_core.transfer.intake import Intake
from memory_core.transfer.report import ConflictRule, ImportReport, no_progress

SOURCE = "import:solon"
MAX_FILE_BYTES = 16 << 20
_SEPARATOR = "__"
_HEAD = re.compile(r"\A---[ \t]*\n(?P<head>.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_KNOWN = frozenset(("name", "time", "ttl", "stored_at", "scope", "importance"))
_LATEST_IN_SECONDS = 100_000_000_000
"""Larger numbers are milliseconds: as seconds they would lie beyond the year 5000."""


def import_solon(
    solution: MemorySolution,
    directory: Path | str,
    *,
    conflict: ConflictRule = "newer",
    dry_run: bool = False,
    scope: str | None = None,
    user_id: str | None = None,
    clock: Clock | None = None,
    timezone: tzinfo | None = None,
    progress: Progress = no_progress,
) -> ImportReport:
    """Store every `*.md` below `directory`; symbolic links are not followed and nothing is changed there.

    A file's own `scope` decides unless `scope` is given; a file without one goes to the default scope. `timezone`
    tells what `time` was written in; None is this machine's zone, as the original used. A file that cannot be read
    is reported by its path, and the others go on.

    Raises:
        CorruptEntryError: `directory` is not a directory.
        StorageUnavailableError: The store failed.

    """
    root = Path(directory)
    if not root.is_dir():
        raise CorruptEntryError(f"There is no directory {root}: name the one that holds the original's *.md files.")
    clock = clock or SystemClock()
    files = sorted(path for path in root.rglob("*.md") if path.is_file() and not path.is_symlink())
    intake = Intake(solution, clock, conflict, dry_run, None, None, progress, len(files))
    for path in files:
        where = path.relative_to(root).as_posix()
        try:
            fields, content = _parse(_text(path))
            user, key = _split(_scalar(fields, "name"))
            target = MemoryId(scope or _scalar(fields, "scope") or solution.default_scope, user_id or user, key)
            entry = _entry(fields, content, target, clock.now(), timezone)
        except (CorruptEntryError, InvalidEntryError, InvalidKeyError) as error:
            intake.skip(where, str(error))
            continue
        intake.take(entry, where)
    return intake.finish()


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise CorruptEntryError(f"It is larger than {MAX_FILE_BYTES >> 20} MB.")
        return path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
    except OSError as error:
        raise CorruptEntryError(f"It cannot be read: {error.strerror or error}.") from error
    except UnicodeDecodeError as error:
        raise CorruptEntryError(f"It is not UTF-8 text (byte {error.start}).") from error


def _parse(text: str) -> tuple[dict[str, Any], str]:
    import yaml

    match = _HEAD.match(text)
    if match is None:
        raise CorruptEntryError("It has no front matter between two lines `---`.")
    head = match["head"]
    try:
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(head, yaml.CBaseLoader)):
            raise CorruptEntryError("Its front matter uses YAML aliases (`*name`), which are not allowed.")
        # The base loader makes text of every scalar and knows no tags: nothing in the file can become an object.
        data: Any = yaml.load(head, yaml.CBaseLoader)  # noqa: S506 - CBaseLoader builds only text, lists and mappings
    except (yaml.YAMLError, RecursionError) as error:
        raise CorruptEntryError(f"Its front matter is not valid YAML: {' '.join(str(error).split())}.") from error
    if not isinstance(data, dict):
        raise CorruptEntryError("Its front matter is not a list of `name: value` lines.")
    fields = {str(name): value for name, value in cast("dict[object, Any]", data).items()}
    return fields, text[match.end() :].strip("\n")


def _entry(
    fields: dict[str, Any], content: str, target: MemoryId, now: datetime, timezone: tzinfo | None
) -> MemoryEntry:
    ttl_s = _number(fields, "ttl")
    said = _time(fields, "time", timezone)
    stored = _moment(fields, "stored_at", timezone) or said or now
    importance = _number(fields, "importance")
    return MemoryEntry.checked(
        id=target,
        content=content,
        importance=HOT_IMPORTANCE if importance is None else min(MAX_IMPORTANCE, max(MIN_IMPORTANCE, importance)),
        created_at=said or stored,
        updated_at=stored,
        expires_at=expiry(stored, ttl_s) if ttl_s is not None and ttl_s > 0 else None,
        source=SOURCE,
        metadata={name: value for name, value in fields.items() if name not in _KNOWN},
    )


def _split(name: str) -> tuple[str, str]:
    """Return (user id, key); a name without a user before its first `__` is a key of everybody."""
    user, separator, key = name.partition(_SEPARATOR)
    return (user, key) if separator and user.strip() and key.strip() else (SHARED_USER_ID, name)


def _scalar(fields: dict[str, Any], name: str) -> str:
    value = fields.get(name, "")
    if not isinstance(value, str):
        raise CorruptEntryError(f"`{name}` must be one text.")
    return "" if value in ("null", "~") else value


def _number(fields: dict[str, Any], name: str) -> int | None:
    text = _scalar(fields, name).strip()
    if not text:
        return None
    try:
        return int(float(text))
    except (ValueError, OverflowError) as error:
        raise CorruptEntryError(f"`{name}` is {text!r}, which is not a number.") from error


def _moment(fields: dict[str, Any], name: str, timezone: tzinfo | None) -> datetime | None:
    """Read seconds or milliseconds since 1970, or a written time."""
    text = _scalar(fields, name).strip()
    if not re.fullmatch(r"\d{1,18}", text):
        return _time(fields, name, timezone)
    number = int(text)
    try:
        return datetime.fromtimestamp(number / 1_000 if number > _LATEST_IN_SECONDS else number, UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise CorruptEntryError(f"`{name}` is {text}, which is no moment that a calendar knows.") from error


def _time(fields: dict[str, Any], name: str, timezone: tzinfo | None) -> datetime | None:
    text = _scalar(fields, name).strip()
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text.replace("/", "-"))
        if moment.tzinfo is None and timezone is not None:
            moment = moment.replace(tzinfo=timezone)
        return moment.astimezone(UTC)  # a naive time is this machine's
    except (ValueError, OverflowError) as error:
        raise CorruptEntryError(f"`{name}` is {text!r}, which is not a time such as 2026-01-31 09:00:00.") from error
