"""`bench long-run`: a day in the life of every store with every searcher, checked against a model."""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from memory_core.cli.bench_options import bench_folder, pair_options, tell
from memory_core.cli.output import warn
from memory_core.cli.state import State, pass_state

if TYPE_CHECKING:
    from memory_core.evaluation.long_run import Outcome


@click.command("long-run")
@pair_options
@click.option("--operations", type=click.IntRange(min=8), default=10_000, show_default=True, help="How many, a pair.")
@click.option("--processes", type=click.IntRange(1, 64), default=4, show_default=True, help="How many at once.")
@click.option("--seed", type=int, default=0, show_default=True, help="Another one does other operations.")
@click.option(
    "--budget", "budget_s", type=click.FloatRange(min=1), default=900, show_default=True, help="Seconds, a pair."
)
@pass_state
def long_run(
    state: State,
    /,
    *,
    stores: tuple[str, ...],
    searchers: tuple[str, ...],
    operations: int,
    processes: int,
    seed: int,
    embedder: str,
    redis_url: str | None,
    budget_s: float,
    folder: Path | None,
    json_file: Path | None,
) -> int | None:
    """Let several processes remember, change, forget, merge, search and list at once, and check all that they see.

    One process dies midway and comes back; in the end a new one compares store and index with the model. Exit code 1
    when an operation failed (errors), something stored was not there (lost), or something removed or replaced was
    (ghosts); the first few are named, and the pair's files are kept.

    \b
    memory-core bench long-run
    memory-core bench long-run --stores kv --searchers lancedb --operations 2000 --json run.json
    """
    from memory_core.evaluation.bench_stores import load_average, prepared
    from memory_core.evaluation.long_run import LongRun, report_json, table
    from memory_core.evaluation.long_run.day import run_all
    from memory_core.evaluation.machine import describe_machine

    plan, load, machine = LongRun(operations, processes, seed, budget_s), load_average(), describe_machine()

    def told(outcome: "Outcome") -> None:
        if sys.stderr.isatty():
            for line in table([outcome])[1:]:
                warn(line)

    with bench_folder(folder) as (work, keep):
        with prepared(work, stores, searchers, embedder, redis_url) as ground:
            outcomes = run_all(ground, stores, searchers, plan, told)
            server = ground.redis_server
        wrong = [outcome for outcome in outcomes if not outcome.holds]
        if wrong:
            keep()
            warn(f"What they left is kept in {work}.")
    parameters = {
        **asdict(plan),
        "stores": stores,
        "searchers": searchers,
        "embedder": embedder,
        "redis": server,
        "load": load,
    }
    report = report_json(outcomes, parameters, machine)
    tell(state, report, json_file, table(outcomes), load)
    return 1 if wrong else None
