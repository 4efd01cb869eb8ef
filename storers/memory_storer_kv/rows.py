"""From a stored row to an entry. Whose memory it is, the row's columns say, never the text in it."""

import json

from memory_core.errors import CorruptEntryError
from memory_core.model import MemoryEntry, MemoryId
from memory_core.serial import from_fields


def decode(id: MemoryId, body: str) -> MemoryEntry:
    """Build the entry of a row.

    Raises:
        CorruptEntryError: The text is not an entry; the message names the memory.
    """
    try:
        fields = json.loads(body)
        if not isinstance(fields, dict):
            raise CorruptEntryError("A stored memory is not a JSON object.")
        return from_fields({**fields, "scope": id.scope, "user": id.user_id, "key": id.key})
    except (ValueError, TypeError, RecursionError, CorruptEntryError) as error:
        raise CorruptEntryError(f"The memory {id.key!r} of {id.user_id!r} in {id.scope!r} cannot be read: {error}") from error
