"""A talent over real files, and stores that fail."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from memory_core.contracts import MemorySolution, MemorySolutionProvider
from memory_core.talent import MemoryTalent, ToolContext, ToolResult
from memory_core.testing import FakeClock
from tests.core.fakes import FailingStorer, make_solution


class OneSolution(MemorySolutionProvider):
    """Serves every directory with one solution and counts how often it was asked."""

    def __init__(self, solution: MemorySolution) -> None:
        self.solution = solution
        self.asked = 0

    def get(self, cwd: Path | str) -> MemorySolution:
        self.asked += 1
        return self.solution


@dataclass
class Bench:
    """What a test of the talent works with."""

    talent: MemoryTalent
    provider: OneSolution
    storer: FailingStorer
    clock: FakeClock
    context: ToolContext

    @property
    def solution(self) -> MemorySolution:
        return self.provider.solution

    def call(self, tool: str, **arguments: object) -> ToolResult:
        return self.talent.call(tool, arguments, self.context)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    solution, storer, clock = make_solution(tmp_path)
    provider = OneSolution(solution)
    yield Bench(MemoryTalent(provider), provider, storer, clock, ToolContext(str(tmp_path), "session-1"))
    solution.close()
