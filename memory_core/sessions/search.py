"""Search over transcripts, with any searcher: the index follows the log files as it follows a store.

A message is one entry: scope = the agent, owner = the user, key = a hash of session and message id. The cursor says how
far each file was read, and begins with a hash of its first line, so that a file of the same name that is another one is
noticed; after a transcript was pruned the index of that user is built anew.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from datetime import datetime
from pathlib import Path
from threading import RLock
from typing import Any, cast

from memory_core.clock import SystemClock
from memory_core.contracts import FEED_PAGE, Clock, MemorySearcher, Problem
from memory_core.errors import StorageUnavailableError
from memory_core.model import SHARED_USER_ID, ChangeBatch, MemoryEntry, MemoryId, SearchQuery
from memory_core.naming import short_hash
from memory_core.policy import MAX_TOP_K, check_count
from memory_core.sessions.messages import Message, TextPart, ToolCallPart, ToolResultPart
from memory_core.sessions.transcript import Logged, TranscriptLog, read_transcript_places

INDEXED_RESULT_CHARS = 2_000
INDEXED_MESSAGE_CHARS = 20_000
DEFAULT_MAX_RESULTS = 10
_BEGIN_BYTES = 4_096
_TAIL_BYTES = 512


@dataclass(frozen=True, slots=True)
class TranscriptHit:
    """A found message: whose session, who said it and when, its text as indexed, and how well it fits (0..1)."""

    session_id: str
    agent_id: str
    message_id: str
    role: str
    time: datetime
    text: str
    score: float


class TranscriptSearch:
    """Finds what was said in earlier sessions. Safe for several threads.

    Args:
        transcripts: The log files.
        searcher: Any searcher, for this alone: it must not hold memories as well.
        clock: Where the time comes from.

    """

    def __init__(self, transcripts: TranscriptLog, searcher: MemorySearcher, clock: Clock | None = None) -> None:
        self.transcripts = transcripts
        self.searcher = searcher
        self._clock = clock or SystemClock()
        self._lock = RLock()

    def search(
        self,
        text: str,
        *,
        user_id: str = SHARED_USER_ID,
        agent_id: str | None = None,
        top_k: int = DEFAULT_MAX_RESULTS,
    ) -> list[TranscriptHit]:
        """Return that user's messages (of that agent) that fit `text`, best first; what was just written included.

        Raises:
            BudgetError: `top_k` is no whole number, below 0.
            StorageUnavailableError: A transcript could not be read.
            IndexUnavailableError: The index could not be read or written.

        """
        check_count(top_k, "top_k")
        self.sync(user_id)
        scopes = None if agent_id is None else (agent_id,)
        query = SearchQuery(user_id, text, min(top_k, MAX_TOP_K), self._clock.now(), scopes)
        return [_hit(found.entry, found.score) for found in self.searcher.search(query) if query.admits(found.entry)]

    def sync(self, user_id: str = SHARED_USER_ID) -> int:
        """Bring the index up to the log files for that user; return how many messages were taken over.

        Raises:
            StorageUnavailableError, IndexUnavailableError: As `search`.

        """
        total = 0
        with self._lock:
            while True:
                since = self.searcher.cursor(user_id)
                batch = transcript_changes(self.transcripts, since, user_id)
                if batch or batch.cursor != since:
                    self.searcher.apply(batch, user_id)
                    total += len(batch.upserts)
                if not batch.more:
                    return total

    def problems(self) -> list[Problem]:
        """Say what is wrong with log files and index."""
        return [*self.transcripts.problems(), *self.searcher.problems()]

    def close(self) -> None:
        """Close the index. Closing twice is harmless."""
        self.searcher.close()


def transcript_changes(
    transcripts: TranscriptLog, since: str | None, user_id: str, limit: int = FEED_PAGE
) -> ChangeBatch:
    """Return the messages of one user that were logged after the cursor `since`, at most about `limit`.

    `complete=True` when there is no usable cursor, or when a file that it names is gone, another one, or was edited.

    Raises:
        StorageUnavailableError: A transcript could not be read.

    """
    places = _parse(since)
    paths = {path.name: path for path in transcripts.paths()}
    usable = since is not None and all(name in paths and _same(paths[name], place) for name, place in places.items())
    if not usable:
        places = {}
    upserts: list[MemoryEntry] = []
    more = False
    for name, path in paths.items():
        offset = places.get(name, _NOWHERE).offset
        if _state(path)[0] <= offset:
            continue
        for line, end in read_transcript_places(path, offset):
            if len(upserts) >= limit:
                more = True
                break
            offset = end
            if isinstance(line, Logged) and line.user_id == user_id:
                upserts += _entries(line)
        if offset:
            places[name] = _Place(_mark(path, offset), offset, _state(path)[1])
        if more:
            break
    cursor = json.dumps({name: astuple(places[name]) for name in sorted(places)}, separators=(",", ":"))
    return ChangeBatch(upserts, (), cursor, complete=not usable, more=more)


def indexed_text(message: Message) -> str:
    """Return what of a message can be found: its text, tool calls, and the beginnings of tool results."""
    pieces: list[str] = []
    for part in message.parts:
        match part:
            case TextPart():
                pieces.append(part.text)
            case ToolCallPart():
                pieces.append(f"{part.name} {part.arguments}"[:INDEXED_RESULT_CHARS])
            case ToolResultPart():
                pieces.append(part.content[:INDEXED_RESULT_CHARS])
            case _:
                continue
    text = "\n".join(piece for piece in pieces if piece.strip())[:INDEXED_MESSAGE_CHARS]
    return text.encode(errors="replace").decode()  # a lone surrogate cannot be indexed


def _entries(line: Logged) -> Iterable[MemoryEntry]:
    message, text = line.message, indexed_text(line.message)
    if not text.strip():
        return
    key = short_hash(json.dumps([line.session_id, message.id]), 16)
    yield MemoryEntry(
        id=MemoryId(line.agent_id, line.user_id, key),
        content=text,
        created_at=message.time,
        updated_at=message.time,
        source="transcript",
        metadata={"session": line.session_id, "message": message.id, "role": message.role},
    )


def _hit(entry: MemoryEntry, score: float) -> TranscriptHit:
    said = {name: str(value) for name, value in entry.metadata.items()}
    return TranscriptHit(
        said["session"], entry.id.scope, said["message"], said["role"], entry.created_at, entry.content, score
    )


@dataclass(frozen=True, slots=True)
class _Place:
    """How far a file was read, and by what it is known again: a hash of where it begins and of what was read last.

    `changed` is when it was last changed: a file that has not grown since must not have been changed either.
    """

    mark: str
    offset: int
    changed: int


_NOWHERE = _Place("", 0, 0)


def _parse(cursor: str | None) -> dict[str, _Place]:
    if cursor is None:
        return {}
    try:
        found = cast("dict[str, Sequence[Any]]", json.loads(cursor))
        return {name: _Place(str(mark), int(offset), int(changed)) for name, (mark, offset, changed) in found.items()}
    except (ValueError, TypeError, AttributeError):
        return {"": _NOWHERE}  # names no file: not usable


def _same(path: Path, place: _Place) -> bool:
    size, changed = _state(path)
    if size < place.offset or (size == place.offset and changed != place.changed):
        return False
    return _mark(path, place.offset) == place.mark


def _state(path: Path) -> tuple[int, int]:
    """Return the size of a file and when it was changed; zeros when there is none."""
    try:
        found = path.stat()
    except OSError:
        return 0, 0
    return found.st_size, found.st_mtime_ns


def _mark(path: Path, offset: int) -> str:
    try:
        with path.open("rb") as file:
            begin = file.readline(_BEGIN_BYTES)
            file.seek(max(0, offset - _TAIL_BYTES))
            return short_hash(begin + file.read(min(offset, _TAIL_BYTES)))
    except OSError as error:
        raise StorageUnavailableError(f"{path} cannot be read: {error.strerror or error}.") from error
