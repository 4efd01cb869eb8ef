"""What tests of hybrids ask, and of what they read the answer."""

from collections.abc import Sequence

from memory_core.contracts import MemorySearcher
from memory_core.model import ChangeBatch, MemoryEntry, SearchHit, SearchQuery
from memory_core.testing.clock import START


def query(text: str, top_k: int = 5) -> SearchQuery:
    return SearchQuery("shared", text, top_k, START)


def feed(searcher: MemorySearcher, *entries: MemoryEntry) -> None:
    searcher.apply(ChangeBatch(entries, (), "1", complete=True), "shared")


def keys(hits: Sequence[SearchHit]) -> list[str]:
    return [hit.entry.id.key for hit in hits]
