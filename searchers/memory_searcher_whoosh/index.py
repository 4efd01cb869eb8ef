"""One user's index: what is written at a change, and how it is searched."""

import json
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from heapq import nsmallest
from pathlib import Path
from secrets import token_hex
from threading import RLock
from typing import Any

from whoosh import query as wq
from whoosh.searching import Searcher

from memory_core.errors import IndexUnavailableError
from memory_core.model import ChangeBatch, MemoryEntry, MemoryId, SearchHit, SearchQuery, hit_order, listing_order
from memory_core.serial import from_json, to_json
from memory_core.text import TOKENIZER_VERSION, tokens, unique_tokens
from memory_searcher_whoosh.files import K1, STATE_ID, Change, Document, IndexFiles, Opened, document_id, idf

log = logging.getLogger(__name__)

FORMAT = 1
NEVER = (1 << 63) - 1
_SLACK = 8
_PRE_CAP = 4_096


@dataclass(frozen=True, slots=True)
class State:
    """What each commit keeps beside the entries. `epoch` is new whenever everything before was forgotten."""

    cursor: str | None
    epoch: str
    version: str


def _micros(moment: datetime) -> int:
    return int(moment.timestamp()) * 1_000_000 + moment.microsecond


class UserIndex:
    """Everything that is known of one user; safe for several threads and processes."""

    def __init__(self, directory: Path, stemmer: str | None, max_terms: int, lock_timeout_s: float) -> None:
        self._files = IndexFiles(directory, lock_timeout_s)
        self._stemmer = stemmer
        self._max_terms = max_terms
        self._version = f"{FORMAT}/{TOKENIZER_VERSION}/{stemmer}"
        self._lock = RLock()
        self._followed: str | None = None  # the epoch of the cursor that was last handed out
        self._ahead: tuple[State, str] | None = None
        self._columns: _Columns | None = None

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
            if state is not None and self._ahead is not None and self._ahead[0] == state:
                return self._ahead[1]
            return state.cursor if state is not None else None

    def apply(self, batch: ChangeBatch) -> None:
        """Take a batch over in one commit.

        A step that continues an index which another process has built anew meanwhile is left out: the next reading
        of the feed starts from that index's own cursor.
        """
        with self._lock:
            if not (batch.upserts or batch.removals or batch.complete):
                # Only the cursor moved (other users' writes): not worth a commit, and repeating it is harmless.
                state = self._state(self._files.open())
                if state is not None:
                    self._ahead = (state, batch.cursor)
                return

            def decide(opened: Opened | None) -> Change | None:
                state = self._state(opened)
                if batch.complete or (state is None and self._followed is None):
                    epoch, replace = token_hex(8), True
                elif state is None or (self._followed is not None and state.epoch != self._followed):
                    log.info("The index in %s was built anew meanwhile", self._files.directory)
                    return None
                else:
                    epoch, replace = state.epoch, False
                return self._change(State(batch.cursor, epoch, self._version), batch.upserts, batch.removals, replace)

            self._files.commit(decide)

    def put(self, entries: Sequence[MemoryEntry], removed: Sequence[MemoryId] = ()) -> None:
        """Add, replace and remove entries without a cursor: what they change is not known to have come from the feed."""

        def decide(opened: Opened | None) -> Change | None:
            state = self._state(opened)
            kept = state or State(None, token_hex(8), self._version)
            return self._change(kept, entries, removed, state is None)

        with self._lock:
            if entries or self._files.open() is not None:
                self._files.commit(decide)

    def clear(self) -> None:
        """Forget everything, the cursor included."""
        with self._lock:
            self._ahead = None
            if self._files.open() is not None:
                state = State(None, token_hex(8), self._version)
                self._files.commit(lambda _: self._change(state, (), (), replace=True))

    def _change(
        self, state: State, upserts: Iterable[MemoryEntry], removals: Iterable[MemoryId], replace: bool
    ) -> Change:
        documents = {document_id(entry.id.scope, entry.id.key): self._document(entry) for entry in upserts}
        kept = {"cursor": state.cursor, "epoch": state.epoch, "version": state.version}
        documents[STATE_ID] = {
            "id": STATE_ID,
            "state": json.dumps(kept),
            "importance": 0,
            "updated": 0,
            "expires": 0,
            "scope": b"",
        }
        removed = [document_id(id.scope, id.key) for id in removals]
        return Change(list(documents.values()), [id for id in removed if id not in documents], replace)

    def _document(self, entry: MemoryEntry) -> Document:
        return {
            "id": document_id(entry.id.scope, entry.id.key),
            "terms": " ".join((*tokens(entry.id.key, self._stemmer), *tokens(entry.content, self._stemmer))),
            "importance": entry.importance,
            "updated": _micros(entry.updated_at),
            "expires": _micros(entry.expires_at) if entry.expires_at else NEVER,
            "scope": entry.id.scope.encode(),
            "entry": to_json(entry),
        }

    # --- reading ---------------------------------------------------------------------------------------------------

    def search(self, query: SearchQuery) -> list[SearchHit]:
        """Return the best entries by BM25, scores as the share of what a text could reach at most."""
        with self._lock:
            opened = self._open()
            if opened is None:
                return []
            with self._reading():
                wanted, best = self._terms(opened.searcher, query.text)
                return self._ranked(opened, wanted, best, query) if wanted else []
        return []

    def _ranked(self, opened: Opened, wanted: list[str], best: float, query: SearchQuery) -> list[SearchHit]:
        """Ask for a few more than wanted; for all that the filters admit only when they turned out to matter."""
        limit, allowed = query.top_k + _SLACK, None
        if query.scopes is not None or query.min_importance is not None:
            allowed = self._known(opened).admitted(query)
        parsed = wq.Or([wq.Term("terms", term) for term in wanted])
        while True:
            if allowed is not None and not allowed:
                return []  # Whoosh takes an empty filter for none
            results = opened.searcher.search(parsed, limit=limit, filter=allowed)
            scored: list[tuple[int, float]] = list(results.items())
            hits: list[SearchHit] = []
            for number, score in scored:
                entry = from_json(opened.searcher.stored_fields(number)["entry"])
                hits.append(SearchHit(entry, min(1.0, round(score, 9) / best), {"bm25": round(score, 9)}))
            if allowed is None and not all(query.admits(hit.entry) for hit in hits):
                allowed = self._known(opened).admitted(query)
                continue
            hits.sort(key=hit_order)
            last = hits[query.top_k - 1].score if len(hits) >= query.top_k else None
            if len(scored) < limit or (last is not None and last > hits[-1].score):
                return hits[: query.top_k]
            limit *= 4  # a tie reaches beyond what was fetched

    def scores(self, query: SearchQuery, ids: Sequence[MemoryId]) -> dict[MemoryId, float]:
        """Return the score of given entries; those that share no term with the query have 0."""
        with self._lock:
            opened = self._open()
            if opened is None:
                return {}
            with self._reading():
                numbers = {opened.searcher.document_number(id=document_id(id.scope, id.key)): id for id in ids}
                numbers.pop(None, None)
                found = dict.fromkeys(numbers.values(), 0.0)
                wanted, best = self._terms(opened.searcher, query.text)
                if wanted and numbers:
                    parsed = wq.Or([wq.Term("terms", term) for term in wanted])
                    results = opened.searcher.search(parsed, limit=len(numbers), filter=set(numbers))
                    for number, score in results.items():
                        found[numbers[number]] = min(1.0, round(score or 0.0, 9) / best)
                return found
        return {}

    def listed(self, limit: int, now: datetime | None, scopes: Sequence[str] | None) -> list[MemoryEntry]:
        """Return entries by importance, then newest, then key."""
        with self._lock:
            opened = self._open()
            if opened is None:
                return []
            with self._reading():
                rows = self._known(opened).listed(limit, now, scopes)
                entries = [from_json(opened.searcher.stored_fields(number)["entry"]) for number in rows]
                return sorted(entries, key=listing_order)[:limit]
        return []

    def count(self, now: datetime | None, below: int | None) -> int:
        """Return how many entries there are, or how many of less importance than `below`."""
        with self._lock:
            opened = self._open()
            if opened is None:
                return 0
            with self._reading():
                return self._known(opened).count(now, below)
        return 0

    def _open(self) -> Opened | None:
        opened = self._files.open()
        return opened if self._state(opened) is not None else None

    def _reading(self) -> Any:
        return _Reading(self._files)

    def _terms(self, searcher: Searcher, text: str) -> tuple[list[str], float]:
        """Return the terms to look for, and the highest BM25 that any text could reach for the whole query."""
        asked = unique_tokens(text, self._stemmer)
        entries = searcher.doc_count() - 1
        if not asked or entries < 1:
            return [], 1.0
        if len(asked) > _PRE_CAP:
            asked = sorted(asked, key=len, reverse=True)[:_PRE_CAP]  # longer words are rarer (Zipf 1935)
        counts = {term: int(searcher.doc_frequency("terms", term)) for term in asked}
        chosen = [term for term in asked if counts[term]]
        weighed = asked
        if len(chosen) > self._max_terms:
            chosen = weighed = sorted(chosen, key=lambda term: (counts[term], term))[: self._max_terms]
        best = sum(idf(entries, counts[term]) for term in weighed)
        return chosen, max(best * (K1 + 1), 1e-6)

    def _known(self, opened: Opened) -> "_Columns":
        if self._columns is None or self._columns.opened is not opened:
            self._columns = _Columns(opened)
        return self._columns

    def close(self) -> None:
        """Close the files."""
        with self._lock:
            self._columns = None
            self._files.close()


class _Reading:
    """Turns damage that is noticed while reading into one sentence; the index is removed and built anew."""

    def __init__(self, files: IndexFiles) -> None:
        self._guard = files.guarded()
        self._directory = files.directory

    def __enter__(self) -> None:
        self._guard.__enter__()

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if self._guard.__exit__(kind, error, trace) and error is not None:
            raise IndexUnavailableError(
                f"The Whoosh index in {self._directory} was damaged and has been removed. Search again: it is built "
                "anew from the store."
            ) from error


class _Columns:
    """Importance, time and scope of every document of one reader, in memory: for filters and listings."""

    def __init__(self, opened: Opened) -> None:
        self.opened = opened
        reader = opened.searcher.reader()
        importance, updated, expires, scope = (
            reader.column_reader(name) for name in ("importance", "updated", "expires", "scope")
        )
        self._rows = [
            (-importance[number], -updated[number], expires[number], bytes(scope[number]), number)
            for number in reader.all_doc_ids()
            if importance[number]
        ]

    def _selected(
        self, now: datetime | None, scopes: Sequence[str] | None, at_least: int = 0
    ) -> "Iterable[tuple[int, int, int, bytes, int]]":
        moment = _micros(now) if now is not None else None
        names = {name.encode() for name in scopes} if scopes is not None else None
        for row in self._rows:
            if (
                (moment is None or row[2] > moment)
                and (names is None or row[3] in names)
                and -row[0] >= at_least
            ):
                yield row

    def admitted(self, query: SearchQuery) -> set[int]:
        """Return the numbers of the documents that the query's filters let through."""
        return {row[4] for row in self._selected(query.now, query.scopes, query.min_importance or 0)}

    def count(self, now: datetime | None, below: int | None) -> int:
        """Return how many documents there are, or how many of less importance than `below`."""
        return sum(1 for row in self._selected(now, None) if below is None or -row[0] < below)

    def listed(self, limit: int, now: datetime | None, scopes: Sequence[str] | None) -> list[int]:
        """Return the numbers of the first `limit` documents, and of all that share the last one's rank."""
        rows = list(self._selected(now, scopes))
        best = nsmallest(limit, rows)
        if not best:
            return []
        last = best[-1][:2]
        return [row[4] for row in rows if row[:2] <= last]
