"""What a server offers for reading beside its tools: memories and ledger files, each under a URI of its own."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import quote, unquote

from memory_core.contracts import MemorySolution
from memory_core.errors import InvalidKeyError
from memory_core.ledger.disk import read_text
from memory_core.ledger.ledger import Ledger
from memory_core.ledger.reading import memory_path
from memory_core.model import MemoryEntry

MEMORY_URI = "memory://"
LEDGER_URI = "ledger:///"
MAX_RESOURCES = 100


@dataclass(frozen=True, slots=True)
class Resource:
    """One thing to read: its URI, a name and one line about it. All of them are Markdown."""

    uri: str
    name: str
    description: str


class ResourceSource(Protocol):
    """Resources of one kind."""

    def list(self) -> Sequence[Resource]:
        """Return at most `MAX_RESOURCES` of them, the most important first."""
        ...

    def read(self, uri: str) -> str | None:
        """Return the text of one, listed or not, or None when the URI names nothing of this kind."""
        ...


class MemoryResources:
    """One user's memories: `memory://scope/key`, the key percent-encoded."""

    def __init__(self, solution: MemorySolution, user_id: str) -> None:
        self._solution = solution
        self._user_id = user_id

    def list(self) -> Sequence[Resource]:
        """Return the memories by importance, then newest."""
        found = self._solution.list_all(user_id=self._user_id, limit=MAX_RESOURCES)
        return [Resource(memory_uri(entry), entry.id.key, entry.id.scope) for entry in found]

    def read(self, uri: str) -> str | None:
        """Return a memory's content.

        Raises:
            StorageUnavailableError: It could not be read.
        """
        scope, _, key = uri.removeprefix(MEMORY_URI).partition("/")
        if not uri.startswith(MEMORY_URI) or scope not in self._solution.scopes:
            return None
        try:
            entry = self._solution.recall(unquote(key), user_id=self._user_id, scope=scope)
        except InvalidKeyError:
            return None
        return None if entry is None else entry.content


class LedgerResources:
    """The ledger's files: `ledger:///MEMORY.md`, `ledger:///memory/2026-06-02.md`."""

    def __init__(self, ledger: Ledger) -> None:
        self._places = ledger.places

    def list(self) -> Sequence[Resource]:
        """Return `MEMORY.md`, then the daily files, the latest first."""
        places = self._places
        paths = [path for path in (places.memory_md, *reversed(places.ledgers())) if path.exists()]
        names = [places.relative(path) for path in paths[:MAX_RESOURCES]]
        return [Resource(LEDGER_URI + quote(name), name, "ledger") for name in names]

    def read(self, uri: str) -> str | None:
        """Return a file's text; nothing outside `MEMORY.md` and `memory/` is opened.

        Raises:
            StorageUnavailableError, CorruptEntryError: It could not be read.
        """
        if not uri.startswith(LEDGER_URI):
            return None
        try:
            return read_text(self._places, memory_path(self._places, unquote(uri.removeprefix(LEDGER_URI))))
        except InvalidKeyError:
            return None


def memory_uri(entry: MemoryEntry) -> str:
    """Return the URI of a memory's resource."""
    return f"{MEMORY_URI}{quote(entry.id.scope, safe='')}/{quote(entry.id.key, safe='')}"
