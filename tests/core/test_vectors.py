from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from memory_core.vectors import descending


@given(st.integers(0, 3_000), st.integers(1, 50), st.randoms(use_true_random=False))
def test_the_highest_come_first_and_equals_keep_their_order(count: int, different: int, chance: Random) -> None:
    scores = np.array([chance.randrange(different) / different for _ in range(count)], dtype=np.float32)
    assert list(descending(scores)) == np.argsort(-scores, kind="stable").tolist()
