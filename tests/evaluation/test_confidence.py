import math
import random
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_core.errors import MissingExtraError
from memory_core.evaluation.confidence import ROUNDS, differences, holm, intervals, randomisation_p


def drawn(count: int, centre: float = 0.0, spread: float = 1.0, seed: int = 0) -> list[float]:
    source = random.Random(seed)
    return [source.gauss(centre, spread) for _ in range(count)]


def test_an_interval_is_that_of_theory_where_theory_knows_it() -> None:
    values = drawn(1_500, 0.4, 0.3)
    found = intervals({"x": values, "same": values}, seed=3)
    assert found["x"] == found["same"], "all columns see the same resamples"
    mean = sum(values) / len(values)
    deviation = math.sqrt(sum((value - mean) ** 2 for value in values) / len(values))
    assert found["x"].mean == pytest.approx(mean)
    assert found["x"].low == pytest.approx(mean - 1.96 * deviation / math.sqrt(len(values)), abs=0.002)
    assert found["x"].high == pytest.approx(mean + 1.96 * deviation / math.sqrt(len(values)), abs=0.002)


def test_the_seed_decides_and_nothing_else() -> None:
    values = {"x": drawn(50)}
    assert intervals(values, 1) == intervals(values, 1)
    assert intervals(values, 1) != intervals(values, 2)
    deltas = [drawn(50, 0.2)]
    assert randomisation_p(deltas, 1) == randomisation_p(deltas, 1)


@settings(deadline=None, max_examples=40)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_an_interval_lies_within_the_values(values: list[float]) -> None:
    found = intervals({"x": values})["x"]
    assert min(values) - 1e-9 <= found.low <= found.high <= max(values) + 1e-9
    assert found.low - 1e-9 <= found.mean + 1e-9


def test_few_questions_are_counted_out() -> None:
    # 3 of 3 in one direction: 2 of 8 combinations of signs are as far from 0.
    assert randomisation_p([[0.1, 0.2, 0.3]]) == [2 / 8]
    assert randomisation_p([[0.1, 0.2, 0.3, 0.0, 0.0]]) == [2 / 8], "questions without a difference say nothing"
    assert randomisation_p([[0.5, -0.5]]) == [1.0]
    assert randomisation_p([[0.0, 0.0]]) == [1.0]
    assert randomisation_p([]) == []


def test_drawing_comes_near_the_normal_approximation() -> None:
    for shift in (0.0, 0.1, 0.2):
        delta = drawn(200, shift)
        (p,) = randomisation_p([delta])
        z = sum(delta) / math.sqrt(sum(value**2 for value in delta))
        assert p == pytest.approx(math.erfc(abs(z) / math.sqrt(2)), abs=0.02)
    assert randomisation_p([drawn(200, 5.0)]) == [1 / (ROUNDS + 1)], "never 0"


def test_chance_alone_is_called_significant_as_often_as_it_says() -> None:
    chances = [randomisation_p([drawn(12, seed=seed)])[0] for seed in range(200)]
    assert 0.01 <= sum(p <= 0.05 for p in chances) / len(chances) <= 0.10


def test_holm_steps_down() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), max_size=8))
def test_holm_never_lowers_and_keeps_the_order(chances: list[float]) -> None:
    corrected = holm(chances)
    assert all(p <= q <= 1 for p, q in zip(chances, corrected, strict=True))
    ordered = [q for _, q in sorted(zip(chances, corrected, strict=True))]
    assert ordered == sorted(ordered)


def test_searchers_are_compared_in_pairs() -> None:
    good = drawn(100, 0.5, 0.1)
    pairs = differences({"good": good, "same": good, "bad": [value - 0.3 for value in good]})
    assert [(pair.one, pair.other) for pair in pairs] == [("good", "same"), ("good", "bad"), ("same", "bad")]
    assert (pairs[0].mean, pairs[0].p, pairs[0].p_holm) == (0.0, 1.0, 1.0)
    assert pairs[1].mean == pytest.approx(0.3)
    assert (pairs[1].low, pairs[1].high) == pytest.approx((0.3, 0.3))
    assert pairs[1].p == 1 / (ROUNDS + 1)
    assert pairs[1].p_holm == pytest.approx(3 / (ROUNDS + 1))
    assert differences({"alone": good}) == []


def test_without_numpy_there_is_an_instruction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numpy", None)
    for call in (lambda: intervals({"x": [1.0]}), lambda: randomisation_p([[1.0]])):
        with pytest.raises(MissingExtraError, match=r"memory-talent\[bench\]"):
            call()
