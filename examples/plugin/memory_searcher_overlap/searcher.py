"""Scores a memory by the share of the query's words that it holds, rare words counting more."""

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import datetime
from threading import RLock

from memory_core.contracts import MemorySearcher
from memory_core.model import MemoryEntry, MemoryId, SearchHit, SearchQuery, hit_order, listing_order
from memory_core.text import unique_tokens


class OverlapSearcher(MemorySearcher):
    """Keeps every entry and its words in memory, user by user; the change feed fills it."""

    def __init__(self, *, stemmer: str | None = "english", max_terms: int = 64) -> None:
        super().__init__()
        self._stemmer, self._max_terms = stemmer, max_terms
        self._entries: defaultdict[str, dict[MemoryId, tuple[MemoryEntry, frozenset[str]]]] = defaultdict(dict)
        self._counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._lock = RLock()

    def search(self, query: SearchQuery) -> list[SearchHit]:
        """Return the entries that hold any of the query's words, the rarest words first."""
        if query.top_k < 1:
            return []
        with self._lock:
            weights = self._weights(query)
            hits = [hit for hit in self._hits(query, weights) if hit.score > 0]
        return sorted(hits, key=hit_order)[: query.top_k]

    def _weights(self, query: SearchQuery) -> dict[str, float]:
        """Return word → inverse document frequency, for the rarest words of the query."""
        counts, total = self._counts[query.user_id], len(self._entries[query.user_id])
        words = unique_tokens(query.text, self._stemmer)
        weights = {word: math.log(1 + (total + 1) / (counts[word] + 0.5)) for word in words}
        known = sorted((word for word in words if counts[word]), key=lambda word: -weights[word])[: self._max_terms]
        return {word: weights[word] for word in known}

    def _hits(self, query: SearchQuery, weights: dict[str, float]) -> list[SearchHit]:
        total = sum(weights.values()) or 1.0
        hits: list[SearchHit] = []
        for entry, words in self._entries[query.user_id].values():
            if query.admits(entry):
                score = min(1.0, sum(weight for word, weight in weights.items() if word in words) / total)
                hits.append(SearchHit(entry, score, {"overlap": score}))
        return hits

    def scores(self, query: SearchQuery, ids: Sequence[MemoryId]) -> dict[MemoryId, float]:
        """Return the scores of given entries, for a hybrid."""
        wanted = set(ids)
        with self._lock:
            hits = self._hits(query, self._weights(query))
        return {hit.entry.id: hit.score for hit in hits if hit.entry.id in wanted}

    def list_all(
        self, user_id: str, limit: int, *, now: datetime | None = None, scopes: Sequence[str] | None = None
    ) -> list[MemoryEntry]:
        """Return the entries by importance, then newest, then key."""
        with self._lock:
            entries = [entry for entry, _ in self._entries[user_id].values()]
        shown = [
            entry
            for entry in entries
            if (scopes is None or entry.id.scope in scopes) and (now is None or not entry.expired(now))
        ]
        return sorted(shown, key=listing_order)[: max(0, limit)]

    def update_index(self, entry: MemoryEntry) -> None:
        """Take over one entry."""
        with self._lock:
            self.remove_index(entry.id)
            words = frozenset(unique_tokens(f"{entry.id.key}\n{entry.content}", self._stemmer))
            self._entries[entry.id.user_id][entry.id] = (entry, words)
            self._counts[entry.id.user_id].update(words)

    def remove_index(self, id: MemoryId) -> None:
        """Forget one entry."""
        with self._lock:
            known = self._entries[id.user_id].pop(id, None)
            if known is not None:
                self._counts[id.user_id].subtract(known[1])

    def clear(self, user_id: str | None = None) -> None:
        """Forget everything, or everything of one user."""
        with self._lock:
            if user_id is None:
                self._entries.clear()
                self._counts.clear()
            else:
                self._entries.pop(user_id, None)
                self._counts.pop(user_id, None)
            self.forget_cursor(user_id)
