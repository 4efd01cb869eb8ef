"""One JSON form of an entry for every store, index and export file.

`{"scope": …, "user": …, "key": …, "content": …, "importance": …, "created": …, "updated": …, "expires": …,
"source": …, "metadata": …}`; times in ISO 8601, UTC, with microseconds. Stable: files written by one version are
read by the next.
"""

import json
import logging
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, cast

from pydantic import ValidationError
from pydantic_core import from_json as from_json_text

from memory_core.errors import CorruptEntryError, MemoryCoreError
from memory_core.model import MemoryEntry, MemoryId, first_reason

log = logging.getLogger(__name__)

_FIELDS = frozenset(
    ("scope", "user", "key", "content", "importance", "created", "updated", "expires", "source", "metadata")
)
_REQUIRED = ("scope", "user", "key", "content", "importance", "created", "updated")


def to_fields(entry: MemoryEntry) -> dict[str, Any]:
    """Return the JSON form of `entry` as a dictionary."""
    return {
        "scope": entry.id.scope,
        "user": entry.id.user_id,
        "key": entry.id.key,
        "content": entry.content,
        "importance": entry.importance,
        "created": entry.created_at.isoformat(),
        "updated": entry.updated_at.isoformat(),
        "expires": entry.expires_at.isoformat() if entry.expires_at else None,
        "source": entry.source,
        "metadata": entry.metadata,
    }


def to_json(entry: MemoryEntry) -> str:
    """Return the JSON form of `entry` as one line."""
    return json.dumps(to_fields(entry), ensure_ascii=False, separators=(",", ":"))


def from_fields(fields: dict[str, Any]) -> MemoryEntry:
    """Build an entry from its JSON form, checking everything.

    Raises:
        CorruptEntryError: A field is missing, unknown or wrong.
    """
    missing = [name for name in _REQUIRED if name not in fields]
    unknown = [name for name in fields if name not in _FIELDS]
    if missing or unknown:
        what = f"lacks {', '.join(map(repr, missing))}" if missing else f"has the unknown field {unknown[0]!r}"
        raise CorruptEntryError(f"A stored memory {what}.")
    expires = fields.get("expires")
    try:
        return MemoryEntry(
            id=MemoryId(fields["scope"], fields["user"], fields["key"]),
            content=fields["content"],
            importance=fields["importance"],
            created_at=datetime.fromisoformat(fields["created"]),
            updated_at=datetime.fromisoformat(fields["updated"]),
            expires_at=datetime.fromisoformat(expires) if expires else None,
            source=fields.get("source", "tool"),
            metadata=fields.get("metadata") or {},
        )
    except ValidationError as error:
        raise CorruptEntryError(f"A stored memory cannot be read: {first_reason(error)}.") from error
    except (MemoryCoreError, ValueError, TypeError) as error:
        raise CorruptEntryError(f"A stored memory cannot be read: {error}") from error


def from_json(line: str | bytes) -> MemoryEntry:
    """Build an entry from one line of JSON, checking everything.

    Raises:
        CorruptEntryError: The line is not JSON, or not an entry.
    """
    try:
        fields = from_json_text(line)
    except ValueError as error:
        raise CorruptEntryError(f"This line is not JSON: {error}.") from error
    if not isinstance(fields, dict):
        raise CorruptEntryError(f"This line is a JSON {type(fields).__name__}, not a memory.")
    return from_fields(cast("dict[str, Any]", fields))


def stored_entry(id: MemoryId, line: str | bytes) -> MemoryEntry:
    """Build the entry that a store holds under `id`; whose memory it is, the store's keys say, never the text in it.

    Raises:
        CorruptEntryError: The text is not an entry; the message names the memory.
    """
    try:
        fields = json.loads(line)
        if not isinstance(fields, dict):
            raise CorruptEntryError("it is not a JSON object.")
        known = cast("dict[str, Any]", fields)
        return from_fields({**known, "scope": id.scope, "user": id.user_id, "key": id.key})
    except (ValueError, RecursionError, CorruptEntryError) as error:
        name = f"{id.key!r} of {id.user_id!r} in {id.scope!r}"
        raise CorruptEntryError(f"The memory {name} cannot be read: {error}") from error


def readable_entries(stored: Iterable[tuple[MemoryId, str | bytes]]) -> Iterator[MemoryEntry]:
    """Yield the entries that a store holds under these ids; what cannot be read is logged and left out."""
    for id, line in stored:
        try:
            yield stored_entry(id, line)
        except CorruptEntryError as error:
            log.warning("%s", error)
