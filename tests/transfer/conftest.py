"""Solutions over real stores, on a clock that the test moves."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from memory_core.hooks import Hooks
from memory_core.solution import StandardSolution
from memory_core.testing import FakeClock
from memory_searcher_fulltext.searcher import FulltextSearcher
from memory_storer_markdown.storer import MarkdownStorer

OpenSolution = Callable[..., StandardSolution]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def open_solution(tmp_path: Path, clock: FakeClock) -> Iterator[OpenSolution]:
    opened: list[StandardSolution] = []

    def open_one(name: str = "store", hooks: Hooks | None = None) -> StandardSolution:
        root = tmp_path / name
        storer = MarkdownStorer({"user": root / "user", "workspace": root / "workspace"}, clock=clock)
        solution = StandardSolution(storer, FulltextSearcher(), ("user", "workspace"), clock=clock, hooks=hooks)
        opened.append(solution)
        return solution

    yield open_one
    for solution in opened:
        solution.close()


@pytest.fixture
def solution(open_solution: OpenSolution) -> StandardSolution:
    return open_solution()
