"""Saving one fact at once, into today's ledger and into `MEMORY.md`."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from memory_core.errors import InvalidEntryError, StorageUnavailableError, StorerError
from memory_core.ledger.blocks import as_bullet, clean_text, entries, normalised
from memory_core.ledger.disk import Places, append, locked, read_text
from memory_core.ledger.fencing import strip_own_blocks
from memory_core.ledger.flush import append_block

MAX_SAVED_CHARS = 8_000


@dataclass(frozen=True, slots=True)
class Saved:
    """Where a fact stands. `path` is None when `MEMORY.md` had it already and nothing was written."""

    path: Path | None
    text: str


def save(places: Places, content: str, moment: datetime) -> Saved:
    """Append `content` as one bullet to the ledger of `moment`'s day and to `MEMORY.md`; durable on return.

    Line breaks stay inside the bullet, so that no line of it can pose as structure.

    Raises:
        InvalidEntryError: It is blank, too long, or nothing but our own injected memory.
        StorageUnavailableError, CorruptEntryError: One of the files could not be written; the message says which.
    """
    text = strip_own_blocks(clean_text(content)).strip()
    if not text:
        raise InvalidEntryError("There is nothing to save: the content is blank.")
    if len(text) > MAX_SAVED_CHARS:
        raise InvalidEntryError(
            f"The content has {len(text)} characters; at most {MAX_SAVED_CHARS} can be saved as one fact."
        )
    bullet = as_bullet(text)
    with locked(places):
        memory = read_text(places, places.memory_md) or ""  # before anything is written: it must be readable
        if normalised(bullet) in {normalised(entry.text) for entry in entries(memory)}:
            return Saved(None, text)
        path = append_block(places, [text], moment, "saved")
        try:
            append(places, places.memory_md, f"{bullet}\n", first_line="# Memory", tight=True)
        except StorerError as error:
            raise StorageUnavailableError(
                f"The fact stands in {places.relative(places.daily(moment.date()))}, but not in MEMORY.md: {error}"
            ) from error
    return Saved(path, text)
