"""Makes queries out of the texts that they should find, without a model: known-item queries.

After Azzopardi, de Rijke & Balog 2007 ("Building simulated queries for known-item topics"): the words of a query are
drawn from the text, those more often that are frequent in it and rare elsewhere.
"""

import math
import random
from collections import Counter
from collections.abc import Sequence

from memory_core.text import tokens

WORDS = 3
GENERATED_NOTE = (
    f"The queries were generated: each is {WORDS} words drawn from the memory that it should find, words that are rare "
    "elsewhere more often. This is an optimistic measure, and it favours search by words: people ask in other words "
    "than those they stored. Give real questions with --queries before you decide for a searcher."
)


def known_item(texts: Sequence[tuple[str, str]], seed: int = 0) -> list[tuple[str, str]]:
    """Return a query for each text that has at least three different words, as (id, query), in their order.

    Args:
        texts: (id, text).
        seed: The same texts and seed give the same queries, and a text's query does not depend on the order.

    """
    counts = {id: Counter(_words(text)) for id, text in texts}
    spread = Counter(word for words in counts.values() for word in words)
    queries: list[tuple[str, str]] = []
    for id, words in counts.items():
        if len(words) < WORDS:
            continue
        draw = random.Random(f"{seed}\0{id}")
        # Drawing without repeats by weight: the largest of u^(1/weight) win (Efraimidis & Spirakis 2006).
        luck = {
            word: math.log(1 - draw.random()) / (count * math.log(1 + len(counts) / spread[word]))
            for word, count in words.items()
        }
        chosen = set(sorted(luck, key=lambda word: luck[word], reverse=True)[:WORDS])
        queries.append((id, " ".join(word for word in words if word in chosen)))
    return queries


def _words(text: str) -> list[str]:
    """Return words and, of scripts without spaces, pairs of characters: a single one says too little."""
    return [token for token in tokens(text, None) if len(token) > 1]
