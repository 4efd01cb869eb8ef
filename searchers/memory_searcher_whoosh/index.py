"""One user's index: what is written at a change, and how it is searched."""

import json
import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from secrets import token_hex
from threading import RLock
from typing import Any, TypeVar

from memory_core.contracts import Candidates
from memory_core.errors import IndexUnavailableError
from memory_core.model import ChangeBatch, MemoryEntry, MemoryId, SearchHit, SearchQuery
from memory_core.serial import from_json, to_json
from memory_core.text import TOKENIZER_VERSION, tokens, unique_tokens
from memory_searcher_whoosh.files import STATE_ID, Change, Document, IndexFiles, Opened, OvertakenError, document_id
from memory_searcher_whoosh.ranking import NEVER, Row, SegmentFacts, View, micros, pack_facts

log = logging.getLogger(__name__)

FORMAT = 2
_PRE_CAP = 4_096
_RETRIES = 20
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class State:
    """What each commit keeps beside the entries. `epoch` is new whenever everything before was forgotten."""

    cursor: str | None
    epoch: str
    version: str


class UserIndex:
    """Everything that is known of one user; safe for several threads and processes."""

    def __init__(self, directory: Path, stemmer: str | None, max_terms: int, lock_timeout_s: float) -> None:
        self._files = IndexFiles(directory, lock_timeout_s)
        self._stemmer = stemmer
        self._max_terms = max_terms
        self._version = f"{FORMAT}/{TOKENIZER_VERSION}/{stemmer}"
        self._lock = RLock()
        self._followed: str | None = None  # the epoch of the cursor that was last handed out
        self._handed: tuple[str | None] | None = None  # that cursor itself, as the files had it
        self._ahead: tuple[State, str] | None = None
        self._shown: tuple[Opened, View] | None = None
        self._facts: dict[str, SegmentFacts] = {}

    # --- following -------------------------------------------------------------------------------------------------

    def _state(self, opened: Opened | None) -> State | None:
        """Return the state of an index that this version can read; None for none and for another version's."""
        if opened is None:
            return None
        try:
            state = State(**json.loads(opened.state))
        except (ValueError, TypeError):
            return None
        return state if state.version == self._version else None

    def cursor(self) -> str | None:
        """Return how far the files have followed the store."""
        with self._lock:
            state = self._state(self._files.open())
            self._followed = state.epoch if state is not None else None
            self._handed = (state.cursor if state is not None else None,)
            if state is not None and self._ahead is not None and self._ahead[0] == state:
                return self._ahead[1]
            return state.cursor if state is not None else None

    def apply(self, batch: ChangeBatch) -> bool:
        """Take a batch over in one commit; return whether it was.

        A step that starts from a cursor which another process has moved meanwhile is left out: it could bring back what
        that process has already removed. The next reading of the feed starts from the index's own cursor.
        """
        with self._lock:
            if not (batch.upserts or batch.removals or batch.complete):
                # Only the cursor moved (other users' writes): not worth a commit, and repeating it is harmless.
                state = self._state(self._files.open())
                if state is not None:
                    self._ahead = (state, batch.cursor)
                return True
            taken = False

            def decide(opened: Opened | None) -> Change | None:
                nonlocal taken
                state = self._state(opened)
                if self._handed is not None and (state.cursor if state is not None else None) != self._handed[0]:
                    log.debug("The index in %s was moved on meanwhile", self._files.directory)
                    return None
                if batch.complete or (state is None and self._followed is None):
                    epoch, replace = token_hex(8), True
                elif state is None or (self._followed is not None and state.epoch != self._followed):
                    log.info("The index in %s was built anew meanwhile", self._files.directory)
                    return None
                else:
                    epoch, replace = state.epoch, False
                taken = True
                return self._change(
                    State(batch.cursor, epoch, self._version), batch.upserts, batch.removals, replace=replace
                )

            self._files.commit(decide)
            if taken:
                self._handed, self._followed = None, None
            return taken

    def put(self, entries: Sequence[MemoryEntry], removed: Sequence[MemoryId] = ()) -> None:
        """Add, replace and remove entries; the cursor stays: they need not have come from the feed."""

        def decide(opened: Opened | None) -> Change | None:
            state = self._state(opened)
            kept = state or State(None, token_hex(8), self._version)
            return self._change(kept, entries, removed, replace=state is None)

        with self._lock:
            if entries or self._files.open() is not None:
                self._files.commit(decide)

    def clear(self) -> None:
        """Forget everything, the cursor included."""
        with self._lock:
            self._ahead = self._handed = None
            if self._files.open() is not None:
                state = State(None, token_hex(8), self._version)
                self._files.commit(lambda _: self._change(state, (), (), replace=True))

    def _change(
        self, state: State, upserts: Iterable[MemoryEntry], removals: Iterable[MemoryId], *, replace: bool
    ) -> Change:
        documents = {document_id(entry.id.scope, entry.id.key): self._document(entry) for entry in upserts}
        kept = {"cursor": state.cursor, "epoch": state.epoch, "version": state.version}
        documents[STATE_ID] = {
            "id": STATE_ID,
            "state": json.dumps(kept),
            "facts": pack_facts(0, 0, 0, 0),
        }
        removed = [document_id(id.scope, id.key) for id in removals]
        return Change(list(documents.values()), [id for id in removed if id not in documents], replace)

    def _document(self, entry: MemoryEntry) -> Document:
        words = [*tokens(entry.id.key, self._stemmer), *tokens(entry.content, self._stemmer)]
        return {
            "id": document_id(entry.id.scope, entry.id.key),
            "terms": " ".join(words),
            "facts": pack_facts(
                len(words),
                entry.importance,
                micros(entry.updated_at),
                micros(entry.expires_at) if entry.expires_at else NEVER,
                (entry.id.scope, entry.id.key),
            ),
            "entry": to_json(entry),
        }

    # --- reading ---------------------------------------------------------------------------------------------------

    def search(self, query: SearchQuery) -> list[SearchHit]:
        """Return the best entries by BM25, scores as the share of what a text could reach at most."""
        return self._again(lambda: self._search(query))

    def _search(self, query: SearchQuery) -> list[SearchHit]:
        with self._lock:
            opened = self._open()
            if opened is None:
                return []
            with self._reading(opened):
                ranked, best = self._ranked(opened, query)
                return [
                    SearchHit(self._entry(opened, row[5]), min(1.0, score / best), {"bm25": score})
                    for score, row in ranked
                ]
        return []

    def _ranked(self, opened: Opened, query: SearchQuery) -> tuple[list[tuple[float, Row]], float]:
        view = self._view(opened)
        found, best = view.ranked(self._asked(query.text), self._max_terms)
        return view.best(found, query), best

    def candidates(self, query: SearchQuery) -> Candidates:
        """Return what `search` would, without reading the entries."""
        ranked = self._again(lambda: self._candidates(query))
        return Candidates(ranked, lambda ids: self._again(lambda: self._read(ids)))

    def _candidates(self, query: SearchQuery) -> list[tuple[MemoryId, float]]:
        with self._lock:
            opened = self._open()
            if opened is None:
                return []
            with self._reading(opened):
                ranked, best = self._ranked(opened, query)
                return [(MemoryId(row[3], query.user_id, row[2]), min(1.0, score / best)) for score, row in ranked]
        return []

    def _read(self, ids: Sequence[MemoryId]) -> dict[MemoryId, MemoryEntry]:
        with self._lock:
            opened = self._open()
            if opened is None:
                return {}
            with self._reading(opened):
                view = self._view(opened)
                places = ((view.number_of(id.key, id.scope), id) for id in ids)
                return {id: self._entry(opened, number) for number, id in places if number is not None}
        return {}

    def scores(self, query: SearchQuery, ids: Sequence[MemoryId]) -> dict[MemoryId, float]:
        """Return the score of given entries; those that share no term with the query have 0."""
        return self._again(lambda: self._scores(query, ids))

    def _scores(self, query: SearchQuery, ids: Sequence[MemoryId]) -> dict[MemoryId, float]:
        with self._lock:
            opened = self._open()
            if opened is None:
                return {}
            with self._reading(opened):
                view = self._view(opened)
                found, best = view.ranked(self._asked(query.text), self._max_terms)
                places = ((view.number_of(id.key, id.scope), id) for id in ids)
                return {id: min(1.0, found.get(at, 0.0) / best) for at, id in places if at is not None}
        return {}

    def listed(self, limit: int, now: datetime | None, scopes: Sequence[str] | None) -> list[MemoryEntry]:
        """Return entries by importance, then newest, then key."""
        return self._again(lambda: self._listed(limit, now, scopes))

    def _listed(self, limit: int, now: datetime | None, scopes: Sequence[str] | None) -> list[MemoryEntry]:
        with self._lock:
            opened = self._open()
            if opened is None:
                return []
            with self._reading(opened):
                return [self._entry(opened, number) for number in self._view(opened).listed(limit, now, scopes)]
        return []

    def count(self, now: datetime | None, below: int | None) -> int:
        """Return how many entries there are, or how many of less importance than `below`."""
        return self._again(lambda: self._count(now, below))

    def _count(self, now: datetime | None, below: int | None) -> int:
        with self._lock:
            opened = self._open()
            if opened is None:
                return 0
            with self._reading(opened):
                return self._view(opened).count(now, below)
        return 0

    def _asked(self, text: str) -> list[str]:
        asked = unique_tokens(text, self._stemmer)
        if len(asked) > _PRE_CAP:
            asked = sorted(asked, key=len, reverse=True)[:_PRE_CAP]  # longer words are rarer (Zipf 1935)
        return asked

    @staticmethod
    def _entry(opened: Opened, number: int) -> MemoryEntry:
        return from_json(opened.searcher.stored_fields(number)["entry"])

    def _view(self, opened: Opened) -> View:
        if self._shown is None or self._shown[0] is not opened:
            self._shown = (opened, View(opened.searcher, self._facts))
        return self._shown[1]

    def _open(self) -> Opened | None:
        opened = self._files.open()
        return opened if self._state(opened) is not None else None

    def _reading(self, opened: Opened) -> "_Reading":
        return _Reading(self._files, opened)

    def _again(self, read: Callable[[], T]) -> T:
        """Read, and read again where another process' commit was faster."""
        for _ in range(_RETRIES):
            try:
                return read()
            except OvertakenError:
                self._shown = None
        raise IndexUnavailableError(
            f"The Whoosh index in {self._files.directory} is written without a pause by other processes. Try again."
        )

    def close(self) -> None:
        """Close the files."""
        with self._lock:
            self._shown = None
            self._facts.clear()
            self._files.close()

    def __del__(self) -> None:
        with suppress(AttributeError):  # it may not have come to be
            self.close()


class _Reading:
    """Turns damage that is noticed while reading into one sentence; the index is removed and built anew."""

    def __init__(self, files: IndexFiles, opened: Opened) -> None:
        self._guard = files.guarded(opened.stamp)
        self._directory = files.directory

    def __enter__(self) -> None:
        self._guard.__enter__()

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if self._guard.__exit__(kind, error, trace) and error is not None:
            raise IndexUnavailableError(
                f"The Whoosh index in {self._directory} was damaged and has been removed. Search again: it is built "
                "anew from the store."
            ) from error
