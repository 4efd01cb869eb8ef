"""Compares searchers on sets: builds each, measures it, and says how sure the figures are."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memory_core.contracts import Progress
from memory_core.errors import MissingExtraError
from memory_core.evaluation.confidence import Difference, Interval, differences, intervals
from memory_core.evaluation.datasets import Dataset
from memory_core.evaluation.metrics import MEASURES
from memory_core.evaluation.opening import open_searcher, open_solution
from memory_core.evaluation.runner import Advance, Result, evaluate, evaluate_solution
from memory_core.transfer.report import no_progress

MAIN = MEASURES[0]
"""The measure on which searchers are compared."""


@dataclass(frozen=True, slots=True)
class Setup:
    """With what searchers are built: settings (`overrides` win over those in force at `cwd`) and the vectors' cache.

    `store` names the store that the entries pass through; empty feeds them to the searcher directly.
    """

    overrides: Mapping[str, Any] = field(default_factory=dict[str, Any])
    cwd: Path | None = None
    config_file: Path | None = None
    cache: Path | None = None
    store: str = ""

    def measure(self, searcher: str, dataset: Dataset, advance: Advance = lambda _: None) -> Result:
        """Build a searcher, measure it on a set, and throw away its index.

        Raises:
            PluginError, ConfigError: The searcher, its embedder or the store cannot be built.
            StorerError, SearcherError: It failed.

        """
        where: Any = {"cwd": self.cwd, "config_file": self.config_file, "cache": self.cache}
        with tempfile.TemporaryDirectory(prefix="memory-core-bench-", ignore_cleanup_errors=True) as folder:
            home = Path(folder)
            if self.store:
                with open_solution(self.store, searcher, home, dataset, self.overrides, **where) as solution:
                    return evaluate_solution(solution, dataset, searcher, advance=advance, store=self.store)
            opened = open_searcher(searcher, home, self.overrides, **where)
            try:
                return evaluate(opened, dataset, searcher, advance=advance)
            finally:
                opened.close()

    def available(self, searchers: Sequence[str], *, leave_out: bool = False) -> tuple[list[str], list[str]]:
        """Build each searcher once, so that what is missing is known before hours of work, not after.

        Returns:
            The searchers that can be built, and why others were left out, one sentence each.

        Args:
            searchers: By name; what stands there twice counts once.
            leave_out: Whether one whose packages are not installed is left out instead of being an error.

        Raises:
            PluginError, ConfigError, StorerError: As `measure`.
            MissingExtraError: A package is missing: of any searcher, or with `leave_out` of all of them.

        """
        found: list[str] = []
        why: list[MissingExtraError] = []
        nothing = Dataset("", (), (), {})
        for name in dict.fromkeys(searchers):
            try:
                self.measure(name, nothing)
            except MissingExtraError as error:
                if not leave_out:
                    raise
                why.append(error)
            else:
                found.append(name)
        if not found and why:
            raise why[0]
        return found, [str(error) for error in why]


def measure_all(
    datasets: Sequence[Dataset], searchers: Sequence[str], setup: Setup, progress: Progress = no_progress
) -> Iterator[Result]:
    """Yield the result of every searcher on every set, set by set; errors as `Setup.measure`.

    `progress` is told how many documents and questions are done, over all sets and searchers.
    """
    total = len(searchers) * sum(len(data.documents) + len(data.questions) for data in datasets)
    done = 0

    def advance(count: int) -> None:
        nonlocal done
        done += count
        progress(done, total)

    for data in datasets:
        for name in searchers:
            yield setup.measure(name, data, advance)


@dataclass(frozen=True, slots=True)
class Row:
    """What one searcher reached on the questions of one kind; `kind` is empty for all questions of the set."""

    dataset: str
    searcher: str
    kind: str
    questions: int
    scores: dict[str, Interval]


def rows(results: Sequence[Result], seed: int = 0) -> list[Row]:
    """Return each result with intervals: on all its questions, then by kind where there are several."""
    return [row for result in results for row in _rows(result, seed)]


def _rows(result: Result, seed: int) -> Iterator[Row]:
    for kind, questions in {"": list(result.each), **_by_kind(result)}.items():
        if questions:
            columns = {measure: [result.each[id][measure] for id in questions] for measure in result.scores}
            yield Row(result.dataset, result.searcher, kind, len(questions), intervals(columns, seed))


def _by_kind(result: Result) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for question, kind in result.kinds.items():
        found.setdefault(kind, []).append(question)
    return dict(sorted(found.items())) if len(found) > 1 else {}


def comparisons(results: Sequence[Result], seed: int = 0, measure: str = MAIN) -> dict[str, list[Difference]]:
    """Return for each set how every two searchers differ in `measure`; p-values are corrected within a set."""
    by_set: dict[str, dict[str, list[float]]] = {}
    for result in results:
        if result.each:
            values = [scores[measure] for scores in result.each.values()]
            by_set.setdefault(result.dataset, {})[result.searcher] = values
    return {name: differences(columns, seed) for name, columns in by_set.items()}
