"""Texts that are the same, or nearly: exact by hash, near by an all-pairs join over token sets.

The join compares only pairs that share a rare token: two sets with a Jaccard index of at least t must share one
among the first `size − ceil(t · size) + 1` tokens of each, when all tokens are ordered from rare to frequent (prefix
filtering: Chaudhuri, Ganti & Kaushik 2006; Bayardo, Ma & Srikant 2007). It finds every pair, not only likely ones.
"""

import math
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class NearGroup:
    """Entries of one user that are alike, directly or through each other; `similarity` is the weakest link found."""

    entries: tuple[MemoryEntry, ...]
    similarity: float


def near_groups(entries: Sequence[MemoryEntry], threshold: float) -> list[NearGroup]:
    """Return the groups of entries that are alike (Jaccard index of their tokens), but not the same.

    Copies of one key in two scopes do not count.
    """
    by_user: defaultdict[str, list[MemoryEntry]] = defaultdict(list)
    for entry in entries:
        by_user[entry.id.user_id].append(entry)
    return [group for own in by_user.values() for group in _joined(own, threshold)]


def _joined(entries: list[MemoryEntry], threshold: float) -> Iterator[NearGroup]:
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
    texts_folded = [folded(entry.content) for entry, _ in sets]
    groups = _Groups(len(sets))
    for place, (entry, tokens) in enumerate(sets):
        size = len(tokens)
        prefix = tokens[: size - math.ceil(threshold * size) + 1]
        for other in {candidate for token in prefix for candidate in index[token]}:
            # What hangs together already needs no comparison: templates with one changing word stay cheap.
            if len(members[other]) < threshold * size or groups.root(place) == groups.root(other):
                continue
            shared = len(members[place] & members[other])
            alike = shared / (size + len(members[other]) - shared)
            same = entry.id.key == sets[other][0].id.key or texts_folded[place] == texts_folded[other]
            if alike >= threshold and not same:
                groups.join(place, other, alike)
        for token in prefix:
            index[token].append(place)
    for places, weakest in groups.all():
        yield NearGroup(tuple(sorted((sets[place][0] for place in places), key=lambda one: one.id)), weakest)


class _Groups:
    """Disjoint sets with path halving (Tarjan & van Leeuwen 1984)."""

    def __init__(self, size: int) -> None:
        self._parent = list(range(size))
        self._weakest: dict[int, float] = {}

    def root(self, place: int) -> int:
        while self._parent[place] != place:
            self._parent[place] = place = self._parent[self._parent[place]]
        return place

    def join(self, one: int, other: int, alike: float) -> None:
        kept, gone = self.root(one), self.root(other)
        self._weakest[kept] = min(alike, self._weakest.get(kept, 1.0), self._weakest.pop(gone, 1.0))
        self._parent[gone] = kept

    def all(self) -> list[tuple[list[int], float]]:
        """Return the groups of more than one, with their weakest link."""
        found: defaultdict[int, list[int]] = defaultdict(list)
        for place in range(len(self._parent)):
            found[self.root(place)].append(place)
        return [(places, self._weakest[root]) for root, places in found.items() if len(places) > 1]
