"""Sessions in files: `<id>.messages.ndjson` and `<id>.snapshot.json`, shared by processes, restored when reopened."""

import logging
import os
from collections import OrderedDict
from collections.abc import Callable, Iterable
from pathlib import Path
from threading import RLock

from memory_core.contracts import Problem
from memory_core.errors import CorruptEntryError, StorageUnavailableError
from memory_core.naming import short_hash, slug
from memory_core.sessions.lines import LineFile, sync_folder, write_atomically
from memory_core.sessions.messages import Message, message_from_json
from memory_core.sessions.session import (
    AgentSession,
    Change,
    SessionState,
    state_from_json,
    state_to_json,
    storable,
    stored_form,
    unseen,
)

log = logging.getLogger(__name__)

MESSAGES, SNAPSHOT, UNREAD = ".messages.ndjson", ".snapshot.json", ".unread-"


class FileAgentSession(AgentSession):
    """A session in `directory`, with a cache in memory; nothing is written before the first message.

    The file names are `memory_core.naming.slug(session_id)` and an ending, so that any id is safe. A corrupt line is
    reported and skipped; it stays in its place until a rewrite, which moves it to `….damaged`. A snapshot of another
    version counts as none; the next `update_snapshot` moves it aside instead of overwriting it.

    Args:
        session_id: Any storable name.
        directory: Where the files lie; made when needed.
        fsync: False gives up durability against power loss for speed.

    Raises:
        InvalidKeyError: The session id cannot be used.

    """

    def __init__(self, session_id: str, directory: Path | str, *, fsync: bool = True) -> None:
        super().__init__(session_id)
        name = slug(self.session_id)
        self._file = LineFile(Path(directory) / (name + MESSAGES), fsync=fsync)
        self._snapshot = Path(directory) / (name + SNAPSHOT)
        self._fsync = fsync
        self._messages: dict[str, Message] = {}
        self._damaged: list[bytes] = []
        self._problems: list[Problem] = []

    def messages(self) -> list[Message]:  # noqa: D102 - the contract says it
        with self._file.reading():
            self._refresh()
            return list(self._messages.values())

    def append(self, messages: Iterable[Message]) -> int:  # noqa: D102 - the contract says it
        given = {copy.id: (line, copy) for line, copy in map(stored_form, unseen(storable(messages), ()))}
        if not given:
            return 0
        with self._file.locked():
            self._refresh()
            fresh = {id: stored for id, stored in given.items() if id not in self._messages}
            self._file.append([line for line, _ in fresh.values()])
            self._messages.update((id, copy) for id, (_, copy) in fresh.items())
            return len(fresh)

    def rewrite(self, change: Change) -> list[Message]:  # noqa: D102 - the contract says it
        with self._file.locked():
            self._refresh()
            before = list(self._messages.values())
            changed = unseen(storable(change(list(before))), ())
            if changed == before:
                return before
            stored = [stored_form(message) for message in changed]
            if self._damaged:
                log.warning("%d unreadable lines of %s moved aside", len(self._damaged), self._file.path)
            self._file.replace([line for line, _ in stored], self._damaged)
            self._messages = {copy.id: copy for _, copy in stored}
            self._damaged, self._problems = [], []
            return list(self._messages.values())

    def state(self) -> SessionState:  # noqa: D102 - the contract says it
        try:
            return self._stored_state() or SessionState()
        except CorruptEntryError as error:
            log.warning("%s: %s", self._snapshot, error)
            return SessionState()

    def change_state(self, change: Callable[[SessionState], SessionState]) -> SessionState:  # noqa: D102 - the contract says it
        with self._file.locked():
            try:
                state = self._stored_state() or SessionState()
                unreadable = False
            except CorruptEntryError:
                state, unreadable = SessionState(), True
            changed = state_to_json(change(state)).encode()
            try:
                if unreadable:
                    self._set_snapshot_aside()
                write_atomically(self._snapshot, changed, fsync=self._fsync)
            except OSError as error:
                raise StorageUnavailableError(
                    f"The snapshot {self._snapshot} cannot be written: {error.strerror or error}."
                ) from error
            return state_from_json(changed)

    def clear(self) -> None:  # noqa: D102 - the contract says it
        with self._file.locked():
            self._file.delete()
            try:
                for path in (self._snapshot, *self._unread()):
                    path.unlink(missing_ok=True)
            except OSError as error:
                raise StorageUnavailableError(
                    f"The snapshot {self._snapshot} cannot be deleted: {error.strerror or error}."
                ) from error
            if self._fsync:
                sync_folder(self._snapshot.parent)
            self._refresh()

    def problems(self) -> list[Problem]:  # noqa: D102 - the contract says it
        with self._file.reading():
            self._refresh()
            found = list(self._problems)
            if self._file.torn:
                found.append(
                    Problem(
                        "warning",
                        "session-torn-line",
                        f"The last line is incomplete ({len(self._file.torn)} bytes): a write was interrupted.",
                        str(self._file.path),
                        "Nothing to do: the next message moves it to a file beside this one.",
                    )
                )
        try:
            self._stored_state()
        except CorruptEntryError as error:
            advice = "It counts as absent and is moved aside, not overwritten, by the next snapshot."
            found.append(Problem("warning", "session-snapshot", str(error), str(self._snapshot), advice))
        return found

    def _refresh(self) -> None:
        over, lines = self._file.read_new()
        if over:
            self._messages, self._damaged, self._problems = {}, [], []
        for line in lines:
            try:
                message = message_from_json(line)
            except CorruptEntryError as error:
                number = len(self._messages) + len(self._damaged) + 1
                self._damaged.append(line)
                where = f"{self._file.path}#{number}"
                log.warning("%s: %s The line is skipped.", where, error)
                advice = "Correct or delete the line; the other messages are in use."
                self._problems.append(Problem("warning", "session-corrupt-line", str(error), where, advice))
            else:
                self._messages[message.id] = message

    def _stored_state(self) -> SessionState | None:
        try:
            return state_from_json(self._snapshot.read_bytes())
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StorageUnavailableError(
                f"The snapshot {self._snapshot} cannot be read: {error.strerror or error}."
            ) from error

    def _unread(self) -> list[Path]:
        start = self._snapshot.name + UNREAD
        return [path for path in self._snapshot.parent.iterdir() if path.name.startswith(start)]

    def _set_snapshot_aside(self) -> None:
        aside = self._snapshot.with_name(self._snapshot.name + UNREAD + short_hash(self._snapshot.read_bytes()))
        os.replace(self._snapshot, aside)
        log.warning("The snapshot %s could not be read: moved to %s", self._snapshot, aside.name)


class FileSessions:
    """Gives one `FileAgentSession` per id; keeps the `max_open` last used ones in memory.

    A session that was dropped from memory is read again from its file; two objects of one session agree.
    """

    def __init__(self, directory: Path | str, *, fsync: bool = True, max_open: int = 64) -> None:
        self.directory = Path(directory)
        self._fsync = fsync
        self._max_open = max_open
        self._sessions: OrderedDict[str, FileAgentSession] = OrderedDict()
        self._lock = RLock()

    def __call__(self, session_id: str, /) -> FileAgentSession:
        """Return the session with that id, new or restored."""
        new = FileAgentSession(session_id, self.directory, fsync=self._fsync)
        with self._lock:
            session = self._sessions.setdefault(new.session_id, new)
            self._sessions.move_to_end(new.session_id)
            if len(self._sessions) > self._max_open:
                self._sessions.popitem(last=False)
            return session
