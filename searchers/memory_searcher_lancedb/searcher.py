"""Vectors in LanceDB as a follower of the store."""

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from threading import RLock, local
from typing import ClassVar, Literal

import numpy as np

from memory_core.contracts import Embedder, MemorySearcher, Problem
from memory_core.errors import EmbeddingMismatchError, IndexUnavailableError, MemoryCoreError
from memory_core.model import (
    HOT_IMPORTANCE,
    ChangeBatch,
    MemoryEntry,
    MemoryId,
    SearchHit,
    SearchQuery,
    hit_order,
    listing_order,
)
from memory_core.vectors import Vectors, descending, embedding_text
from memory_searcher_lancedb import rows as layout
from memory_searcher_lancedb.buffer import Buffer, Snapshot
from memory_searcher_lancedb.held import Held
from memory_searcher_lancedb.rows import Row, uid_of
from memory_searcher_lancedb.store import LanceTable
from memory_searcher_lancedb.writer import Writer

log = logging.getLogger(__name__)

_SAMPLE = 512
_TIE = 1e-6
_MARGIN = 8
_HIDDEN_AT_FIRST = 64
"""So many rows are asked for beyond those wanted, because memory may hide them; more when that was not enough."""


@dataclass(frozen=True, slots=True)
class _Sample:
    token: object
    vectors: Vectors


def score_of(cosine: float) -> float:
    """Return the shown score of a cosine: (1 + cos) / 2, so that −1..1 becomes 0..1 without losing order or distances.

    Rounded to six digits: the last bits differ between the table's arithmetic and ours, and ties must be ties.
    """
    return round(min(1.0, max(0.0, (1.0 + cosine) / 2.0)), 6)


def _nearest(top_k: int, near: Iterable[tuple[MemoryEntry, float]]) -> Iterator[SearchHit]:
    """Yield the first `top_k` of entries with falling cosines as hits, and all that tie with the last."""
    kept: list[float] = []
    for entry, cosine in near:
        if len(kept) >= top_k and cosine < kept[top_k - 1] - _TIE:
            return
        kept.append(cosine)
        yield _hit(entry, cosine)


class LanceDBSearcher(MemorySearcher):
    """Finds by the cosine of embeddings; exact while a user has few entries, approximate and refined above.

    Changes are collected in memory and written together (see `buffer`); a search sees both. The table keeps each
    user's cursor beside the rows, in the same commit. Everything may be called from several threads; several processes
    may use one table.
    """

    kind: ClassVar[Literal["lexical", "dense"]] = "dense"

    def __init__(
        self, table: LanceTable, embedder: Embedder, *, buffer_rows: int = 256, held_rows: int = 20_000
    ) -> None:
        super().__init__()
        self.embedder = embedder
        self._table = table
        self._lock = RLock()
        self._buffers: dict[str, Buffer] = {}
        self._samples: dict[str, _Sample] = {}
        self._writer = Writer(table, embedder, self._buffers, self._lock, buffer_rows)
        self._held = Held(table, held_rows, self._writer.row_count)
        self._followed = local()  # each thread's last user and the buffer whose cursor it was given

    # --- reading ---------------------------------------------------------------------------------------------------

    def search(self, query: SearchQuery) -> list[SearchHit]:  # noqa: D102 - the contract says it
        if query.top_k < 1 or not query.text.strip():
            return []
        seen = self._seen(query.user_id)
        vector = self.embedder.embed_query(query.text)
        if not vector.any():
            return []
        hits = [] if seen.cleared else list(self._from_table(query, vector, seen))
        hits.extend(self._from_memory(query, vector, seen))
        return sorted(hits, key=hit_order)[: query.top_k]

    @staticmethod
    def _from_memory(query: SearchQuery, vector: Vectors, seen: Snapshot) -> Iterator[SearchHit]:
        """Yield the nearest of the entries that are not in the table yet: many, while an index is being built."""
        uids, vectors = seen.vectors()
        if not uids:
            return
        cosines = vectors @ vector
        near = (
            (entry, float(cosines[place]))
            for place in descending(cosines)
            if query.admits(entry := seen.rows[uids[place]].entry)
        )
        yield from _nearest(query.top_k, near)

    def _from_table(self, query: SearchQuery, vector: Vectors, seen: Snapshot) -> Iterable[SearchHit]:
        held = self._held.of(query.user_id)
        if held is None:
            return self._asked_of_table(query, vector, seen)
        return _nearest(
            query.top_k,
            ((entry, cosine) for uid, entry, cosine in held.nearest(query, vector) if not seen.hides(uid)),
        )

    def _asked_of_table(self, query: SearchQuery, vector: Vectors, seen: Snapshot) -> list[SearchHit]:
        condition = layout.owned(query.user_id, now=query.now, scopes=query.scopes, min_importance=query.min_importance)
        exact = self._writer.few_rows(query.user_id)
        # Most of what is collected in memory is new, and hides no row of the table: asking for as many more rows as are
        # collected would read the table while an index is being built and nothing can be written.
        limit = query.top_k + min(_HIDDEN_AT_FIRST, len(seen.rows) + len(seen.removed)) + _MARGIN
        while True:
            found = self._table.nearest(vector, condition, limit, exact=exact)
            if found is None:
                return []
            hits: dict[str, SearchHit] = {}
            distances = found["_distance"].to_pylist()
            kept: list[float] = []
            columns = (found["uid"].to_pylist(), found["entry"].to_pylist(), distances)
            for uid, text, distance in zip(*columns, strict=True):
                if uid in hits or seen.hides(uid):
                    continue
                if len(kept) >= query.top_k and distance > kept[query.top_k - 1] + _TIE:
                    break
                kept.append(distance)
                entry = layout.entry_of(text)
                if query.admits(entry):
                    hits[uid] = _hit(entry, 1.0 - distance)
            # Equal distances at the cut are ordered by importance and age, so all of them must be seen.
            tied = len(kept) >= query.top_k and bool(distances) and distances[-1] <= kept[query.top_k - 1] + _TIE
            if len(distances) < limit or (len(kept) >= query.top_k and not tied):
                return list(hits.values())
            limit *= 4

    def list_all(  # noqa: D102 - the contract says it
        self, user_id: str, limit: int, *, now: datetime | None = None, scopes: Sequence[str] | None = None
    ) -> list[MemoryEntry]:
        return self._listed(user_id, limit, now, scopes, None)

    def hot(  # noqa: D102 - the contract says it
        self, user_id: str, limit: int, *, now: datetime | None = None, scopes: Sequence[str] | None = None
    ) -> list[MemoryEntry]:
        return self._listed(user_id, limit, now, scopes, HOT_IMPORTANCE)

    def _listed(
        self, user_id: str, limit: int, now: datetime | None, scopes: Sequence[str] | None, least: int | None
    ) -> list[MemoryEntry]:
        if limit < 1:
            return []
        seen = self._seen(user_id)
        entries = [
            row.entry
            for row in seen.rows.values()
            if (now is None or not row.entry.expired(now))
            and (scopes is None or row.entry.id.scope in scopes)
            and (least is None or row.entry.importance >= least)
        ]
        held = None if seen.cleared else self._held.of(user_id)
        if held is not None:
            listed = (pair for pair in held.listed(now, scopes, least) if not seen.hides(pair[0]))
            entries += dict(islice(listed, limit)).values()
        elif not seen.cleared:
            condition = layout.owned(user_id, now=now, scopes=scopes, min_importance=least)
            found = self._table.rows(condition, layout.LISTED)
            if found is not None and len(found):
                first = found.sort_by(layout.LISTING_ORDER).slice(0, limit + len(seen.rows) + len(seen.removed))
                wanted = [uid for uid in dict.fromkeys(first["uid"].to_pylist()) if not seen.hides(uid)][:limit]
                entries += self._entries(user_id, wanted).values()
        return sorted(entries, key=listing_order)[:limit]

    def count(self, user_id: str, *, now: datetime | None = None, below: int | None = None) -> int:  # noqa: D102
        seen = self._seen(user_id)
        total = sum(
            (now is None or not row.entry.expired(now)) and (below is None or row.entry.importance < below)
            for row in seen.rows.values()
        )
        pairs: Iterable[tuple[str, int]] = ()
        held = None if seen.cleared else self._held.of(user_id)
        if held is not None:
            pairs = held.counted(now)
        elif not seen.cleared:
            found = self._table.rows(layout.owned(user_id, now=now), ["uid", "importance"])
            if found is not None:
                pairs = zip(found["uid"].to_pylist(), found["importance"].to_pylist(), strict=True)
        return total + sum((below is None or importance < below) and not seen.hides(uid) for uid, importance in pairs)

    def _entries(self, user_id: str, uids: Sequence[str]) -> dict[str, MemoryEntry]:
        if not uids:
            return {}
        found = self._table.rows(layout.owned(user_id) & layout.among(uids), ["uid", "entry"])
        if found is None:
            return {}
        pairs = zip(found["uid"].to_pylist(), found["entry"].to_pylist(), strict=True)
        return {uid: layout.entry_of(text) for uid, text in pairs}

    def scores(self, query: SearchQuery, ids: Sequence[MemoryId]) -> dict[MemoryId, float]:  # noqa: D102
        by_uid = {uid_of(wanted): wanted for wanted in ids if wanted.user_id == query.user_id}
        if not by_uid or not query.text.strip():
            return {}
        vector = self.embedder.embed_query(query.text)
        if not vector.any():
            return {}
        seen = self._seen(query.user_id)
        buffered, vectors = seen.vectors()
        place = {uid: number for number, uid in enumerate(buffered)}
        found = {uid: float(vectors[place[uid]] @ vector) for uid in by_uid if uid in place}
        others = [uid for uid in by_uid if not seen.hides(uid)]
        held = self._held.of(query.user_id) if others else None
        if held is not None:
            places = [at for uid in others if (at := held.places.get(uid)) is not None and held.embedded[at]]
            cosines = (held.vectors[places] @ vector).tolist() if places else ()
            found.update((held.uids[at], cosine) for at, cosine in zip(places, cosines, strict=True))
        elif others:
            table = self._table.rows(layout.owned(query.user_id) & layout.among(others), ["uid", "vector"])
            uids, vectors = layout.vectors_of(table)
            found.update(zip(uids, (vectors @ vector).tolist() if uids else (), strict=True))
        return {by_uid[uid]: score_of(cosine) for uid, cosine in found.items()}

    def score_stats(self, query: SearchQuery) -> tuple[float, float] | None:
        """Return mean and deviation of the scores over a random sample of some 500 of that user's entries."""
        if not query.text.strip():
            return None
        vector = self.embedder.embed_query(query.text)
        sample = self._sample(query.user_id)
        if len(sample) == 0 or not vector.any():
            return None
        scores = (1.0 + sample @ vector) / 2.0
        return float(scores.mean()), float(scores.std())

    def unknown_share(self, text: str) -> float:
        """Return which share of the text the embedding model cannot read."""
        return self.embedder.unknown_share(text)

    def _sample(self, user_id: str) -> Vectors:
        seen, token = self._seen(user_id), self._table.token()
        known = self._samples.get(user_id)
        if known is None or known.token != token:
            vectors = np.empty((0, 0), np.float32)
            if not seen.cleared:
                share = _SAMPLE / max(1, self._writer.row_count(user_id))
                vectors = layout.vectors_of(self._table.rows(layout.sampled(user_id, share), ["uid", "vector"]))[1]
            if len(self._samples) > 1_000:
                self._samples.clear()
            known = self._samples[user_id] = _Sample(token, vectors)
        buffered = seen.vectors()[1][:_SAMPLE]
        if not len(known.vectors):
            return buffered
        return np.concatenate((known.vectors, buffered)) if len(buffered) else known.vectors

    # --- following -------------------------------------------------------------------------------------------------

    def cursor(self, user_id: str) -> str | None:
        """Return how far this index has followed the store; looks first whether another process changed the table.

        Raises:
            EmbeddingMismatchError: The table was built with another model.
        """
        with self._lock:
            buffer = self._writer.refreshed(user_id)
            self._followed.last = user_id, buffer
            return buffer.cursor

    def apply(self, batch: ChangeBatch, user_id: str) -> None:  # noqa: D102 - the contract says it
        rows = self._embedded(batch.upserts)
        user, followed = getattr(self._followed, "last", (None, None))
        with self._lock:
            buffer = self._writer.continued(user_id, followed if user == user_id and not batch.complete else None)
            if batch.complete:
                buffer.clear()
            gone = [buffer.remove(uid_of(id)) for id in batch.removals]
            for row in rows:
                buffer.put(uid_of(row.entry.id), row)
            buffer.cursor = batch.cursor
        self._writer.forget_vectors(row.entry for row in gone if row is not None)
        self._writer.flush_if_due()

    def update_index(self, entry: MemoryEntry) -> None:  # noqa: D102 - the contract says it
        row = self._embedded([entry])[0]
        with self._lock:
            self._writer.buffer(entry.id.user_id).put(uid_of(entry.id), row)
        self._writer.flush_if_due()

    def remove_index(self, id: MemoryId) -> None:  # noqa: D102 - the contract says it
        with self._lock:
            gone = self._writer.buffer(id.user_id).remove(uid_of(id))
        self._writer.forget_vectors([gone.entry] if gone is not None else [])
        self._writer.flush_if_due()

    def clear(self, user_id: str | None = None) -> None:  # noqa: D102 - the contract says it
        self._writer.clear(user_id)
        self._held.forget(user_id)
        self._followed = local()

    def flush(self) -> None:
        """Write what is collected to the table now.

        Raises:
            IndexUnavailableError: It could not be written; everything stays in memory.
        """
        self._writer.flush()

    def embedders(self) -> Sequence[Embedder]:
        """Return the one embedder."""
        return (self.embedder,)

    def problems(self) -> list[Problem]:  # noqa: D102 - the contract says it
        try:
            self._table.check(self.embedder.model_id)
        except EmbeddingMismatchError as error:
            return [Problem("error", "embedding-mismatch", str(error), advice="memory-core reindex")]
        except IndexUnavailableError as error:
            return [Problem("warning", "index-unavailable", str(error), advice="memory-core reindex")]
        return []

    def close(self) -> None:
        """Write what is collected and let go of the table; what cannot be written now is told again by the store."""
        try:
            self._writer.flush()
        except MemoryCoreError as error:
            log.warning("The vector index was closed without its latest changes; the store tells them again: %s", error)
        self._held.forget()
        self._table.close()
        self.embedder.close()

    # --- inside ----------------------------------------------------------------------------------------------------

    def _seen(self, user_id: str) -> Snapshot:
        with self._lock:
            return self._writer.buffer(user_id).snapshot()

    def _embedded(self, entries: Iterable[MemoryEntry]) -> list[Row]:
        entries = list(entries)
        if not entries:
            return []
        vectors = self.embedder.embed_documents([embedding_text(entry) for entry in entries])
        return [Row(entry, vector if vector.any() else None) for entry, vector in zip(entries, vectors, strict=True)]


def _hit(entry: MemoryEntry, cosine: float) -> SearchHit:
    score = score_of(cosine)
    return SearchHit(entry, score, {"lancedb": score})
