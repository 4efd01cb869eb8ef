"""Fills a searcher with a labelled set and asks it every question."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from memory_core.clock import SystemClock
from memory_core.config import load_settings
from memory_core.contracts import FEED_PAGE, MemorySearcher, ScopePlace
from memory_core.evaluation.datasets import Dataset, Document
from memory_core.evaluation.metrics import MEASURES, Scores, measure
from memory_core.loading import ProviderContext
from memory_core.model import ChangeBatch, MemoryEntry, MemoryId, SearchQuery
from memory_core.plugins.registry import PluginRegistry, get_registry

SCOPE = "workspace"
_MOMENT = datetime(2025, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Result:
    """What one searcher reached on one set; times depend on the machine and only compare within one run."""

    dataset: str
    searcher: str
    questions: int
    scores: Scores
    index_s: float
    query_ms: float


def open_searcher(
    name: str, home: Path, overrides: Mapping[str, Any] | None = None, registry: PluginRegistry | None = None
) -> MemorySearcher:
    """Build a searcher as a solution would, alone, with its files in `home`.

    Args:
        name: A registered searcher.
        home: A directory for its index; vectors are cached there and found again by the next searcher.
        overrides: Settings, nested as in `memory.toml`.
        registry: The plugins; by default every installed one.

    Raises:
        PluginError, ConfigError: The searcher is unknown, incomplete or wrongly configured.

    """
    loaded = load_settings(home, overrides={**(overrides or {}), "home": str(home)})
    context = ProviderContext(loaded, registry or get_registry(), SystemClock())
    return context.searcher([ScopePlace(SCOPE, home / "memory")], name)


def evaluate(searcher: MemorySearcher, dataset: Dataset, name: str = "", measures: Sequence[str] = MEASURES) -> Result:
    """Fill `searcher`, which must be empty, with the set's documents, and measure its answers to all questions.

    Each scope of the set is a user of its own, so that a question cannot find another scope's documents. Keys say
    nothing about the text: only what is stored counts.
    """
    users = {scope: f"user-{place}" for place, scope in enumerate(sorted({doc.scope for doc in dataset.documents}))}
    ids: dict[str, str] = {}
    by_user: dict[str, list[MemoryEntry]] = {}
    for place, document in enumerate(dataset.documents):
        user, key = users[document.scope], f"m{place:06d}"
        ids[key] = document.id
        if document.text.strip():
            by_user.setdefault(user, []).append(_entry(document, user, key))
    start = time.perf_counter()
    for user, entries in by_user.items():
        for first in range(0, len(entries), FEED_PAGE):
            page = entries[first : first + FEED_PAGE]
            searcher.apply(ChangeBatch(page, (), f"{first + len(page)}", complete=first == 0), user)
    index_s = time.perf_counter() - start
    rankings: dict[str, list[str]] = {}
    times: list[float] = []
    for question in dataset.questions:
        user = users.get(question.scope, "nobody")
        start = time.perf_counter()
        hits = searcher.search(SearchQuery(user, question.text, 10, _MOMENT))
        times.append(time.perf_counter() - start)
        rankings[question.id] = [ids[hit.entry.id.key] for hit in hits]
    scores = measure(dataset.grades, rankings, measures)
    query_ms = median(times) * 1_000 if times else 0.0
    return Result(dataset.name, name or type(searcher).__name__, len(rankings), scores, index_s, query_ms)


def _entry(document: Document, user: str, key: str) -> MemoryEntry:
    return MemoryEntry.checked(
        id=MemoryId(SCOPE, user, key),
        content=document.text,
        created_at=_MOMENT,
        updated_at=_MOMENT,
        source="evaluation",
    )
