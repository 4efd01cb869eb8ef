"""A long run over every asked-for store with every asked-for searcher, one after the other."""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from memory_core.evaluation.bench_stores import Ground
from memory_core.evaluation.long_run.report import Outcome
from memory_core.evaluation.long_run.run import LongRun, run_pair


def run_all(
    ground: Ground,
    storers: Sequence[str],
    searchers: Sequence[str],
    plan: LongRun,
    told: Callable[[Outcome], None] = lambda _: None,
) -> list[Outcome]:
    """Run every pair, tell each outcome as soon as it is known, and return all.

    A pair's folder is deleted afterwards, and kept when something was wrong.
    """
    outcomes: list[Outcome] = []
    for storer in storers:
        for searcher in searchers:
            reason = ground.reason_against(storer, searcher)
            if reason is not None:
                outcome = Outcome(storer, searcher, not_run=reason)
            else:
                with ground.pair(storer, searcher, f"{storer}-{searcher}") as pair:
                    outcome = run_pair(pair, plan)
                if outcome.holds:
                    shutil.rmtree(Path(pair.root), ignore_errors=True)
            outcomes.append(outcome)
            told(outcome)
    return outcomes
