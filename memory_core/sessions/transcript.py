"""The transcript: `<id>.log.jsonl`, everything that was said, never compacted, for audit and for search.

One line a message: its JSON form (see `memory_core.sessions.messages`) and whose it is:
`{"session": …, "user": …, "agent": …, "id": …, "time": …, …}`.
"""

import logging
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import RLock

from memory_core.contracts import Problem
from memory_core.errors import CorruptEntryError, StorageUnavailableError
from memory_core.model import SHARED_USER_ID, clean_name
from memory_core.naming import slug
from memory_core.policy import check_count
from memory_core.sessions.lines import LineFile
from memory_core.sessions.messages import (
    Message,
    fields_from_json,
    json_line,
    message_fields,
    message_from_fields,
    text_of,
)
from memory_core.sessions.pairs import safe_boundary
from memory_core.sessions.session import storable, stored_form, unseen

log = logging.getLogger(__name__)

ENDING = ".log.jsonl"
DEFAULT_AGENT = "main"
TITLE_CHARS = 80
MAX_OPEN = 256
"""How many transcripts' ids are kept in memory for writing."""


@dataclass(frozen=True, slots=True)
class Logged:
    """A message as the transcript has it: with its session, owner and agent."""

    session_id: str
    user_id: str
    agent_id: str
    message: Message


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """What a list of sessions shows. `title` is the beginning of the first thing that the user said."""

    session_id: str
    agent_ids: tuple[str, ...]
    messages: int
    first: datetime
    last: datetime
    title: str


@dataclass(slots=True)
class _Writer:
    """A transcript that is being written, and the ids of the messages that it has, by user."""

    file: LineFile
    ids: dict[str, set[str]] = field(default_factory=dict[str, set[str]])

    def refresh(self) -> None:
        over, lines = self.file.read_new()
        if over:
            self.ids = {}
        for line in lines:
            with suppress(CorruptEntryError):  # `problems` reports it
                logged = logged_from_line(line)
                self.of(logged.user_id).add(logged.message.id)

    def of(self, user_id: str) -> set[str]:
        """Return the ids of that user's messages, to be added to."""
        return self.ids.setdefault(user_id, set())


@dataclass(frozen=True, slots=True)
class _Summary:
    """What a list needs of a transcript: its state when it was read, and one row per user, session and agent."""

    size: int
    changed_ns: int
    rows: tuple[tuple[str, SessionInfo], ...]


class TranscriptLog:
    """All transcripts of one directory. Safe for threads and processes; nothing is made before the first line.

    A user sees only lines of their own, also in a session that several share by its id.

    Args:
        directory: Where the `*.log.jsonl` lie.
        fsync: False gives up durability against power loss for speed.

    """

    def __init__(self, directory: Path | str, *, fsync: bool = True) -> None:
        self.directory = Path(directory)
        self._fsync = fsync
        self._writers: OrderedDict[Path, _Writer] = OrderedDict()
        self._summaries: dict[Path, _Summary] = {}
        self._lock = RLock()

    def write(
        self,
        session_id: str,
        messages: Iterable[Message],
        *,
        user_id: str = SHARED_USER_ID,
        agent_id: str = DEFAULT_AGENT,
    ) -> int:
        """Add the messages that the session's transcript does not have yet, by id; return how many.

        Durable on return. System messages, and what we injected ourselves, are no part of a conversation and left out.

        Raises:
            InvalidKeyError: One of the three names cannot be stored.
            InvalidEntryError: A message is not JSON; nothing was written.
            StorageUnavailableError: They could not be written; nothing was.

        """
        owner = {
            "session": clean_name(session_id, "session id"),
            "user": clean_name(user_id, "user id"),
            "agent": clean_name(agent_id, "agent id"),
        }
        said = [message for message in storable(messages) if message.kind == "normal"]
        if not said:
            return 0
        with self._lock:
            writer = self._writer(self.path(owner["session"]))
            with writer.file.locked():
                writer.refresh()
                known = writer.of(owner["user"])
                fresh = unseen(said, known)
                writer.file.append([_to_line(owner, message) for message in fresh])
                known.update(message.id for message in fresh)
            return len(fresh)

    def path(self, session_id: str) -> Path:
        """Return where the transcript of a session lies."""
        return self.directory / (slug(session_id) + ENDING)

    def paths(self) -> list[Path]:
        """Return the files of all transcripts, by name.

        Raises:
            StorageUnavailableError: The directory could not be read.

        """
        try:
            return sorted(path for path in self.directory.iterdir() if path.name.endswith(ENDING))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise StorageUnavailableError(f"{self.directory} cannot be read: {error.strerror or error}.") from error

    def history(self, session_id: str, last_n: int = 20, *, user_id: str = SHARED_USER_ID) -> list[Message]:
        """Return that user's last `last_n` messages of a session, oldest first; empty when there are none.

        A tool pair at the border is kept whole.

        Raises:
            BudgetError: `last_n` is not a whole number of at least 0.
            StorageUnavailableError: The transcript could not be read.

        """
        check_count(last_n, "last_n")
        name = clean_name(session_id, "session id")
        lines = (logged for logged in read_transcript(self.path(name)) if isinstance(logged, Logged))
        messages = [line.message for line in lines if line.user_id == user_id and line.session_id == name]
        return messages[safe_boundary(messages, len(messages) - last_n) :] if last_n else []

    def sessions(self, *, user_id: str = SHARED_USER_ID, agent_id: str | None = None) -> list[SessionInfo]:
        """Return the sessions in which that user has messages (of that agent), the latest first."""
        by_session: dict[str, list[SessionInfo]] = {}
        for path in self.paths():
            for user, row in self._summary(path).rows:
                if user == user_id and agent_id in (None, *row.agent_ids):
                    by_session.setdefault(row.session_id, []).append(row)
        found = [_merged(rows) for rows in by_session.values()]
        return sorted(found, key=lambda info: (-info.last.timestamp(), info.session_id))

    def prune(self, older_than_days: int, *, now: datetime | None = None) -> list[str]:
        """Delete transcripts whose newest line is older than that; return their sessions' ids.

        A transcript without any readable line is judged by the time of its file.

        Raises:
            BudgetError: `older_than_days` is below 1.
            StorageUnavailableError: One could not be read or deleted.

        """
        check_count(older_than_days, "older_than_days", at_least=1)
        limit = (now or datetime.now(UTC)) - timedelta(days=older_than_days)
        pruned: set[str] = set()
        for path in self.paths():
            with self._lock, self._writer(path).file.locked():
                summary = self._summary(path)
                newest = max((row.last for _, row in summary.rows), default=_moment(summary.changed_ns))
                if newest >= limit:
                    continue
                self._writer(path).file.delete()
                self._writer(path).refresh()
                self._summaries.pop(path, None)
                pruned |= {row.session_id for _, row in summary.rows} or {path.name.removesuffix(ENDING)}
        log.info("%d transcripts pruned", len(pruned))
        return sorted(pruned)

    def problems(self) -> list[Problem]:
        """Say which lines of which transcripts cannot be read."""
        advice = "Correct or delete the line; the others are in use."
        return [
            Problem("warning", "transcript-corrupt-line", str(line), f"{path}#{number}", advice)
            for path in self.paths()
            for number, line in enumerate(read_transcript(path), start=1)
            if isinstance(line, CorruptEntryError)
        ]

    def _writer(self, path: Path) -> _Writer:
        writer = self._writers.get(path)
        if writer is None:
            writer = self._writers[path] = _Writer(LineFile(path, fsync=self._fsync))
        self._writers.move_to_end(path)
        if len(self._writers) > MAX_OPEN:
            self._writers.popitem(last=False)
        return writer

    def _summary(self, path: Path) -> _Summary:
        try:
            status = path.stat()
        except OSError:  # deleted since it was listed
            return _Summary(0, 0, ())
        known = self._summaries.get(path)
        if known is not None and (known.size, known.changed_ns) == (status.st_size, status.st_mtime_ns):
            return known
        groups: dict[tuple[str, str, str], list[Message]] = {}
        for line in read_transcript(path):
            if isinstance(line, Logged):
                groups.setdefault((line.user_id, line.session_id, line.agent_id), []).append(line.message)
        rows = tuple((user, _info(session, agent, said)) for (user, session, agent), said in groups.items())
        summary = self._summaries[path] = _Summary(status.st_size, status.st_mtime_ns, rows)
        return summary


def read_transcript(path: Path) -> Iterator[Logged | CorruptEntryError]:
    """Yield the lines of a transcript, or what is wrong with them; none for a missing file.

    Raises:
        StorageUnavailableError: It could not be read.

    """
    for line, _ in read_transcript_places(path):
        yield line


def read_transcript_places(path: Path, start: int = 0) -> Iterator[tuple[Logged | CorruptEntryError, int]]:
    """Yield (line or what is wrong with it, byte at which the next begins) from the byte `start` on.

    What stands behind the last newline is left out: somebody is writing it, or a crash tore it.

    Raises:
        StorageUnavailableError: It could not be read.

    """
    try:
        with path.open("rb") as file:
            file.seek(start)
            for line in file:
                start += len(line)
                if not line.endswith(b"\n"):
                    return
                if not line.strip():
                    continue
                try:
                    yield logged_from_line(line), start
                except CorruptEntryError as error:
                    yield error, start
    except FileNotFoundError:
        return
    except OSError as error:
        raise StorageUnavailableError(f"{path} cannot be read: {error.strerror or error}.") from error


def _to_line(owner: dict[str, str], message: Message) -> bytes:
    return json_line({**owner, **message_fields(stored_form(message)[1])}).encode()


def logged_from_line(line: bytes) -> Logged:
    """Build a line of the transcript.

    Raises:
        CorruptEntryError: It is not one.

    """
    fields = fields_from_json(line)
    message = message_from_fields(fields)
    names = [fields.get(name) for name in ("session", "user", "agent")]
    if not all(isinstance(name, str) and name for name in names):
        raise CorruptEntryError("A line of the transcript lacks its session, user or agent.")
    return Logged(names[0], names[1], names[2], message)


def _info(session_id: str, agent_id: str, messages: list[Message]) -> SessionInfo:
    times = [message.time for message in messages]
    asked = (text_of(message) for message in messages if message.role == "user")
    title = " ".join(next((text for text in asked if text.strip()), "").split())
    title = title if len(title) <= TITLE_CHARS else title[: TITLE_CHARS - 1].rstrip() + "…"
    return SessionInfo(session_id, (agent_id,), len(messages), min(times), max(times), title)


def _merged(rows: list[SessionInfo]) -> SessionInfo:
    rows = sorted(rows, key=lambda row: row.first)
    return SessionInfo(
        rows[0].session_id,
        tuple(agent for row in rows for agent in row.agent_ids),
        sum(row.messages for row in rows),
        rows[0].first,
        max(row.last for row in rows),
        next((row.title for row in rows if row.title), ""),
    )


def _moment(time_ns: int) -> datetime:
    return datetime.fromtimestamp(time_ns / 1e9, UTC)
