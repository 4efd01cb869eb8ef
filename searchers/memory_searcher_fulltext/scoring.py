"""The exact BM25 of some entries, from the postings in memory: no text is read."""

from collections.abc import Mapping

from memory_searcher_fulltext.bits import to_rows
from memory_searcher_fulltext.impacts import K1, Impacts, length_norm


def scores(entries: int, weights: Mapping[str, float], impacts: Impacts, mean: float) -> dict[int, float]:
    """Return row → BM25 of a set of entries, as far as these terms go; terms are added up in their order.

    Args:
        entries: A set of rows, as in `bits`.
        weights: Term → IDF.
        impacts: Where the terms' postings are.
        mean: The average length of all entries.

    """
    rows = list(to_rows(entries))
    norms = [length_norm(impacts.length(row), mean) for row in rows]
    totals = [0.0] * len(rows)
    size = entries.bit_length() // 8 + 1
    for term, idf in weights.items():
        weight = idf * (K1 + 1)
        holders = impacts.holders(term) & entries
        if not holders:
            continue
        held = holders.to_bytes(size, "little")
        repeats = ((power, digit & holders) for power, digit in enumerate(impacts.repeats(term)))
        more = [(power, digit.to_bytes(size, "little")) for power, digit in repeats if digit]
        for place, row in enumerate(rows):
            byte, bit = row >> 3, row & 7
            if held[byte] >> bit & 1:
                frequency = 1
                for power, digit in more:
                    frequency += (digit[byte] >> bit & 1) << power
                totals[place] += weight * frequency / (frequency + norms[place])
    return dict(zip(rows, totals, strict=True))
