"""What may follow the fusion: a cross-encoder, recency, diversity. Each takes hits, best first, and returns such."""

import logging
import math
from collections.abc import Callable, Sequence
from datetime import datetime
from threading import Lock
from typing import Any

from memory_core.errors import ConfigError
from memory_core.model import SearchHit, SearchQuery, hit_order
from memory_core.text import tokens

log = logging.getLogger(__name__)

Stage = Callable[[SearchQuery, list[SearchHit]], list[SearchHit]]
_DAY_S = 86_400
_MAX_CHARS = 8_000


def _with(hit: SearchHit, score: float, **explain: float) -> SearchHit:
    rounded = {name: round(value, 6) for name, value in explain.items()}
    return SearchHit(hit.entry, round(min(1.0, max(0.0, score)), 9), {**hit.explain, **rounded})


class Recency:
    """Take up to `weight` off a score, by the age of the entry's last change: half of that after `half_life_days`."""

    def __init__(self, half_life_days: float, weight: float) -> None:
        self._half_life_s = half_life_days * _DAY_S
        self._weight = weight

    def __call__(self, query: SearchQuery, hits: list[SearchHit]) -> list[SearchHit]:
        """Return the hits with new scores, in their new order."""
        return sorted((self._aged(query.now, hit) for hit in hits), key=hit_order)

    def _aged(self, now: datetime, hit: SearchHit) -> SearchHit:
        age_s = max(0.0, (now - hit.entry.updated_at).total_seconds())
        freshness = 0.5 ** (age_s / self._half_life_s)
        return _with(hit, hit.score * (1 - self._weight * (1 - freshness)), freshness=freshness)


class Diversity:
    """Maximal marginal relevance (Carbonell & Goldstein 1998) over the words of the entries.

    The next hit is always the one with the highest score after `strength` × its likeness (Jaccard index of the words)
    to the most alike of the hits before it has been taken off. Only the first `top_k` are chosen so.
    """

    def __init__(self, strength: float, stemmer: str | None) -> None:
        self._strength = strength
        self._stemmer = stemmer

    def __call__(self, query: SearchQuery, hits: list[SearchHit]) -> list[SearchHit]:
        """Return at most `top_k` hits; scores are those after the deduction, so that they still fall."""
        rest = [(hit, frozenset(tokens(hit.entry.content[:_MAX_CHARS], self._stemmer))) for hit in hits]
        likeness = [0.0] * len(rest)
        chosen: list[SearchHit] = []
        while rest and len(chosen) < query.top_k:
            reduced = [
                _with(hit, hit.score * (1 - self._strength * alike), repeats=alike)
                for (hit, _), alike in zip(rest, likeness, strict=True)
            ]
            place = min(range(len(reduced)), key=lambda place: hit_order(reduced[place]))
            chosen.append(reduced[place])
            _, words = rest.pop(place)
            likeness.pop(place)
            likeness = [max(known, _jaccard(words, other)) for known, (_, other) in zip(likeness, rest, strict=True)]
        return chosen


def _jaccard(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / len(one | other) if one and other else 0.0


class Rerank:
    """Score the first `depth` hits with a cross-encoder, which reads query and entry together.

    The rest stays behind them in its order. The model is loaded at the first search; one that cannot be loaded raises
    `ConfigError` there.
    """

    def __init__(self, model: str, depth: int) -> None:
        self._name = model
        self.depth = depth
        self._model: Any = None
        self._lock = Lock()

    def __call__(self, query: SearchQuery, hits: list[SearchHit]) -> list[SearchHit]:
        """Return the hits, the first ones scored 0.5..1 by the model, the others below."""
        head, tail = hits[: self.depth], hits[self.depth :]
        if not head:
            return hits
        with self._lock:
            if self._model is None:
                self._model = _load_cross_encoder(self._name)
            pairs = [(query.text[:_MAX_CHARS], hit.entry.content[:_MAX_CHARS]) for hit in head]
            raw: Sequence[float] = [float(score) for score in self._model.predict(pairs, show_progress_bar=False)]
        # Models with one label end in a sigmoid (0..1) or give logits: both become 0..1, in the same order.
        shares = list(raw) if all(0 <= score <= 1 for score in raw) else [1 / (1 + math.exp(-_bounded(s))) for s in raw]
        scored = [_with(hit, 0.5 + share / 2, rerank=share) for hit, share in zip(head, shares, strict=True)]
        return [*sorted(scored, key=hit_order), *(_with(hit, hit.score / 2) for hit in tail)]


def _bounded(score: float) -> float:
    return 0.0 if math.isnan(score) else max(-60.0, min(60.0, score))


def _load_cross_encoder(name: str) -> Any:
    from sentence_transformers import CrossEncoder

    try:
        return CrossEncoder(name)
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"[searchers.hybrid]: the cross-encoder {name!r} cannot be loaded: {' '.join(str(error).split())[:200]} "
            "Give a local directory, or a name on the Hugging Face hub with the network reachable."
        ) from error
