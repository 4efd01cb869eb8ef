"""Texts that are the same, or nearly: exact by hash, near by an all-pairs join over token sets.

The join compares only pairs that share a rare token: two sets with a Jaccard index of at least t must share one
among the first `size − ceil(t · size) + 1` tokens of each, when all tokens are ordered from rare to frequent (prefix
filtering: Chaudhuri, Ganti & Kaushik 2006; Bayardo, Ma & Srikant 2007). It finds every pair, not only likely ones.
"""

import math
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from memory_core.model import MemoryEntry
from memory_core.text import unique_tokens

MIN_TOKENS = 4
"""Shorter texts are alike by chance; they are compared exactly only."""


def folded(text: str) -> str:
    """Return `text` as exact duplicates are compared: NFKC, case folded, white space made single."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def exact_groups(entries: Sequence[MemoryEntry]) -> list[list[MemoryEntry]]:
    """Return the groups of one user's entries that say the same under different keys."""
    groups: defaultdict[tuple[str, str], list[MemoryEntry]] = defaultdict(list)
    for entry in entries:
        groups[entry.id.user_id, folded(entry.content)].append(entry)
    return [group for group in groups.values() if len({entry.id.key for entry in group}) > 1]


def near_pairs(entries: Sequence[MemoryEntry], threshold: float) -> Iterator[tuple[MemoryEntry, MemoryEntry, float]]:
    """Yield each pair of one user's entries that are alike, but not the same, with their Jaccard index.

    Copies of one key in two scopes do not count.
    """
    by_user: defaultdict[str, list[MemoryEntry]] = defaultdict(list)
    for entry in entries:
        by_user[entry.id.user_id].append(entry)
    for own in by_user.values():
        yield from _joined(own, threshold)


def _joined(entries: list[MemoryEntry], threshold: float) -> Iterator[tuple[MemoryEntry, MemoryEntry, float]]:
    texts = [(entry, unique_tokens(entry.content)) for entry in entries]
    frequency = Counter(token for _, tokens in texts for token in tokens)
    sets = [
        (entry, sorted(tokens, key=lambda token: (frequency[token], token)))
        for entry, tokens in texts
        if len(tokens) >= MIN_TOKENS
    ]
    sets.sort(key=lambda pair: len(pair[1]))  # shorter first: a later set is never the shorter one of a pair
    index: defaultdict[str, list[int]] = defaultdict(list)
    members = [frozenset(tokens) for _, tokens in sets]
    for place, (entry, tokens) in enumerate(sets):
        size = len(tokens)
        prefix = tokens[: size - math.ceil(threshold * size) + 1]
        for other in {candidate for token in prefix for candidate in index[token]}:
            shared = len(members[place] & members[other])
            alike = shared / (size + len(members[other]) - shared)
            twin = sets[other][0]
            if alike >= threshold and entry.id.key != twin.id.key and folded(entry.content) != folded(twin.content):
                yield twin, entry, alike
        for token in prefix:
            index[token].append(place)
