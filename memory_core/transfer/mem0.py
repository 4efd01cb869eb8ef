"""Memories from mem0: what its `get_all` returns, saved as JSON.

The file holds `{"results": [record, …]}` or the list alone. A record is `{"id", "memory", "hash", "metadata",
"created_at", "updated_at", "user_id" …}`; only `memory` must be there.
"""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from memory_core.clock import SystemClock
from memory_core.contracts import Clock, MemorySolution, Progress
from memory_core.errors import CorruptEntryError, InvalidEntryError, InvalidKeyError
from memory_core.model import HOT_IMPORTANCE, SHARED_USER_ID, MemoryEntry, MemoryId
from memory_core.naming import short_hash
from memory_core.policy import expiry
from memory_core.transfer.intake import Intake
from memory_core.transfer.report import ConflictRule, ImportReport, no_progress

SOURCE = "import:mem0"
_OWN_FIELDS = frozenset(("memory", "metadata", "created_at", "updated_at", "expiration_date", "user_id"))


def import_mem0(
    solution: MemorySolution,
    path: Path | str,
    *,
    conflict: ConflictRule = "newer",
    dry_run: bool = False,
    scope: str | None = None,
    user_id: str | None = None,
    clock: Clock | None = None,
    progress: Progress = no_progress,
) -> ImportReport:
    """Store every record of a mem0 export.

    mem0 has neither keys nor importance: the key is `mem0-` and the record's id, the importance is 5 (or
    `metadata.importance` where that is a number from 1 to 10). `expiration_date` is kept; where there is none, the
    lifetime follows from the importance, counted from now.
    The owner is `user_id` when given, else the record's, else `"shared"`. `metadata` and all other fields of the
    record are kept in the entry's metadata.

    Raises:
        CorruptEntryError: The file is not JSON, or holds no list of memories.
        OSError: It cannot be read.
        StorageUnavailableError: The store failed.

    """
    clock = clock or SystemClock()
    records = _records(Path(path))
    intake = Intake(solution, clock, conflict, dry_run, None, None, progress, len(records))
    target = scope or solution.default_scope
    for where, record in _named(records):
        try:
            entry = _entry(record, target, user_id, solution, clock.now())
        except (InvalidEntryError, InvalidKeyError) as error:
            intake.skip(where, str(error))
            continue
        intake.take(entry, where)
    return intake.finish()


def _records(path: Path) -> list[object]:
    try:
        data: Any = json.loads(path.read_bytes().decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise CorruptEntryError(
            f"The file {path} is not UTF-8 text: save mem0's get_all() result as UTF-8 JSON."
        ) from error
    except (ValueError, RecursionError) as error:
        raise CorruptEntryError(f"The file {path} is not JSON: {error}.") from error
    if isinstance(data, dict):
        data = cast("dict[str, Any]", data).get("results")
    if not isinstance(data, list):
        raise CorruptEntryError(
            f'The file {path} holds no mem0 memories: a list, or an object with a list "results", is expected.'
        )
    return cast("list[object]", data)


def _named(records: list[object]) -> Iterator[tuple[str, object]]:
    for number, record in enumerate(records, start=1):
        yield f"record {number}", record


def _entry(record: object, scope: str, user_id: str | None, solution: MemorySolution, now: datetime) -> MemoryEntry:
    if not isinstance(record, dict):
        raise InvalidEntryError(f"It is a {type(record).__name__}, not a memory.")
    fields = cast("dict[str, Any]", record)
    content = fields.get("memory")
    if not isinstance(content, str):
        raise InvalidEntryError('It has no text "memory".')
    metadata: dict[str, Any] = {
        f"mem0_{name}": value for name, value in fields.items() if name not in _OWN_FIELDS and value is not None
    }
    own = fields.get("metadata")
    if isinstance(own, dict):
        metadata.update(cast("dict[str, Any]", own))
    elif own is not None:
        metadata["mem0_metadata"] = own
    importance = _importance(metadata.get("importance"))
    ends = _time(fields.get("expiration_date"), "expiration_date")
    created = _time(fields.get("created_at"), "created_at") or now
    return MemoryEntry.checked(
        id=MemoryId(scope, user_id or fields.get("user_id") or SHARED_USER_ID, _key(fields.get("id"), content)),
        content=content,
        importance=importance,
        created_at=created,
        updated_at=_time(fields.get("updated_at"), "updated_at") or created,
        expires_at=ends or expiry(now, solution.compute_ttl(importance)),
        source=SOURCE,
        metadata=metadata,
    )


def _key(id: Any, content: str) -> str:
    plain = str(id).strip() if isinstance(id, str | int) else ""
    return f"mem0-{plain or short_hash(content.encode(errors='replace'), 8)}"


def _importance(value: Any) -> int:
    known = isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 10
    return value if known else HOT_IMPORTANCE


def _time(value: Any, name: str) -> datetime | None:
    if value is None or value == "":
        return None
    try:
        moment = datetime.fromisoformat(value)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidEntryError(
            f"`{name}` is {value!r}, which is not a time such as 2026-01-31T09:00:00+00:00."
        ) from error
