"""The default fusion against its formula, spelt out."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_core.contracts import Candidates
from memory_core.model import MemoryEntry
from memory_core.testing import make_entry
from memory_searcher_hybrid.fusion import Z_SCALE, Answer, fuse

COUNT = 12
ENTRIES = [make_entry(f"k{n:02}", f"text {n}") for n in range(COUNT)]

scores = st.lists(st.floats(0, 1, width=32), min_size=COUNT, max_size=COUNT)


def answer(name: str, given_scores: list[float], stats: tuple[float, float] | None = None) -> Answer:
    found: list[tuple[MemoryEntry, float]] = list(zip(ENTRIES, given_scores, strict=True))
    candidates = Candidates.held(sorted(found, key=lambda pair: -pair[1]))
    return Answer(name, stats is not None, candidates, dict(candidates.ranked), stats)


@given(scores, scores, st.floats(0.2, 0.6), st.floats(0.02, 0.3))
def test_the_words_and_the_distances_add_up_as_the_formula_says(
    lexical: list[float], dense: list[float], mean: float, deviation: float
) -> None:
    """Also where a dense score lies more than `Z_SCALE` deviations off: then all scores shrink, and none passes 1."""
    best = max(lexical)
    expected = {
        entry.id: 0.6 * (words / best if best else 0.0) + 0.4 * (meaning - mean) / deviation / Z_SCALE
        for entry, words, meaning in zip(ENTRIES, lexical, dense, strict=True)
    }
    hits = fuse([answer("words", lexical), answer("meaning", dense, (mean, deviation))], "union", 0.4, COUNT)
    assert all(0 <= hit.score <= 1 for hit in hits)
    given_order = [expected[hit.entry.id] for hit in hits if hit.score > 0]
    assert all(one >= other - 1e-6 for one, other in pairwise(given_order))
    highest = 0.6 * bool(best) + max(0.0, 0.4 * (max(dense) - mean) / deviation / Z_SCALE)
    for hit in hits:
        assert hit.score == pytest.approx(max(0.0, expected[hit.entry.id]) / max(1.0, highest), abs=1e-6)


def test_a_distance_beyond_the_scale_does_not_change_the_order() -> None:
    """Ten deviations off counts ten sixths of the dense weight: it beats the best words alone."""
    hits = fuse(
        [
            answer("words", [1.0, 0.5] + [0.0] * (COUNT - 2)),
            answer("meaning", [0.5, 0.9] + [0.5] * (COUNT - 2), (0.4, 0.05)),
        ],
        "union",
        0.4,
        2,
    )
    assert [hit.entry.id.key for hit in hits] == ["k01", "k00"]
    assert hits[0].score == pytest.approx((0.3 + 0.4 * 10 / 6) / (0.6 + 0.4 * 10 / 6), abs=1e-6)
