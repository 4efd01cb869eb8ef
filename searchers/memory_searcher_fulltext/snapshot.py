"""A copy of a larger index on disk, so that the next start need not build it: derived, deletable, checked when read."""

import json
import logging
import os
import sqlite3
import zlib
from contextlib import suppress
from pathlib import Path

from memory_core.naming import slug
from memory_core.text import TOKENIZER_VERSION

log = logging.getLogger(__name__)

FORMAT = 3
MIN_ENTRIES = 500
"""Smaller indexes are built faster than they are worth keeping."""


class Snapshots:
    """The snapshots of one searcher, one file per user."""

    def __init__(self, directory: Path, stemmer: str | None) -> None:
        self._directory = directory
        self._forgotten: set[Path] = set()  # could not be deleted, and must not come back
        self._kind = {
            "format": FORMAT,
            "tokenizer": TOKENIZER_VERSION,
            "stemmer": stemmer,
            "sqlite": sqlite3.sqlite_version,
        }

    def path(self, user_id: str) -> Path:
        """Return where a user's snapshot lies."""
        return self._directory / f"{slug(user_id)}.snapshot"

    def load(self, user_id: str) -> bytes | None:
        """Return the serialized index, or None when there is none, it is damaged, or another version wrote it."""
        if self.path(user_id) in self._forgotten:
            return None
        try:
            with self.path(user_id).open("rb") as file:
                head = json.loads(file.readline(10_000))
                blob = file.read()
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError) as error:
            log.info("The snapshot %s cannot be read (%s); the index is built anew", self.path(user_id), error)
            return None
        if head == {**self._kind, "user": user_id, "crc": zlib.crc32(blob)}:
            return blob
        log.info("The snapshot %s is damaged or of another version; the index is built anew", self.path(user_id))
        return None

    def save(self, user_id: str, blob: bytes) -> bool:
        """Replace a user's snapshot; return whether that was possible. A failure only costs time at the next start."""
        path = self.path(user_id)
        temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
        head = {**self._kind, "user": user_id, "crc": zlib.crc32(blob)}
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            self._directory.chmod(0o700)
            temporary.write_bytes(json.dumps(head).encode() + b"\n" + blob)
            temporary.replace(path)
        except OSError as error:
            log.info("The snapshot %s could not be written: %s", path, error)
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            return False
        self._forgotten.discard(path)
        return True

    def forget(self, user_id: str | None) -> None:
        """Delete one user's snapshot, or all."""
        paths = [self.path(user_id)] if user_id is not None else list(self._directory.glob("*.snapshot"))
        for path in paths:
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                log.info("The snapshot %s could not be deleted: %s", path, error)
                self._forgotten.add(path)
