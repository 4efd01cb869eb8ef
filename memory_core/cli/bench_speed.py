"""`bench speed`: how fast each store is with each searcher, over the number of memories."""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from memory_core.cli.bench_options import FILE, SIZES, bench_folder, pair_options, tell, write_report
from memory_core.cli.output import warn
from memory_core.cli.state import State, pass_state

if TYPE_CHECKING:
    from memory_core.evaluation.speed import Cell, Plan


@click.command()
@pair_options
@click.option("--sizes", type=SIZES, default="1000,10000,100000", show_default=True, help="Memories, with commas.")
@click.option(
    "--data", type=click.Path(path_type=Path, exists=True, file_okay=False), help="A labelled set: its texts."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Another one makes other texts.")
@click.option(
    "--budget", "budget_s", type=click.FloatRange(min=1), default=300, show_default=True, help="Seconds for each cell."
)
@click.option("--quick", is_flag=True, help="Few repetitions: to see that it runs, not for figures.")
@click.option("--csv", "csv_file", type=FILE, help="Write the figures there as CSV.")
@click.option("--html", "html_file", type=FILE, help="Write the report there as a page with plots.")
@pass_state
def speed(
    state: State,
    /,
    *,
    stores: tuple[str, ...],
    searchers: tuple[str, ...],
    sizes: tuple[int, ...],
    embedder: str,
    redis_url: str | None,
    data: Path | None,
    seed: int,
    budget_s: float,
    quick: bool,
    folder: Path | None,
    json_file: Path | None,
    csv_file: Path | None,
    html_file: Path | None,
) -> None:
    """Measure every store with every searcher at every size, each in a process of its own.

    Durable writes, from a write until it is found, searches, the same query again, injection, cold and warm start,
    memory, disk, and what a thousand single upserts leave behind. What fails or takes longer than its budget is
    reported as not measured, with the reason, and the rest goes on. `--json` is written anew after each pair, so that
    an interruption loses one.

    \b
    memory-core bench speed --sizes 1000,10000
    memory-core bench speed --stores kv --searchers fulltext,lancedb --html speed.html
    """
    from memory_core.evaluation.bench_stores import load_average, prepared
    from memory_core.evaluation.extras import require
    from memory_core.evaluation.machine import describe_machine
    from memory_core.evaluation.speed import Plan, Repeats, csv_text, html_report, report_json, run_cells, table
    from memory_core.evaluation.speed.plan import QUICK

    if html_file is not None:
        require("matplotlib")
    load, machine = load_average(), describe_machine()
    texts = "" if data is None else str(data.absolute())
    plan = Plan(stores, searchers, sizes, budget_s, seed, texts, QUICK if quick else Repeats())
    parameters: dict[str, Any] = {**asdict(plan), "data": "" if data is None else data.name, "embedder": embedder}
    cells: list[Cell] = []
    watched = Watched(plan)
    with (
        bench_folder(folder) as (work, _),
        prepared(work, stores, searchers, embedder, redis_url) as ground,
    ):
        parameters |= {"redis": ground.redis_server, "load": load}

        def measured(cell: "Cell") -> None:
            cells.append(cell)
            watched(cell)
            if json_file is not None:
                write_report(report_json(cells, parameters, machine), json_file)

        run_cells(ground, plan, measured)
    report = report_json(cells, parameters, machine)
    tell(state, report, json_file, table(cells), load)
    if csv_file is not None:
        csv_file.write_text(csv_text(cells), "utf-8")
    if html_file is not None:
        html_file.write_text(html_report(report, cells), "utf-8")


class Watched:
    """Says on stderr how far it is, when somebody watches."""

    def __init__(self, plan: "Plan") -> None:
        self._total = len(plan.storers) * len(plan.searchers) * len(plan.sizes)
        self._done = 0

    def __call__(self, cell: "Cell") -> None:
        """Count a cell, and say it."""
        self._done += 1
        if sys.stderr.isatty():
            what = f"{cell.storer} × {cell.searcher} at {cell.size:,}: {cell.seconds:.0f} s"
            because = "" if cell.not_measured is None else f", not measured: {cell.not_measured}"
            warn(f"[{self._done}/{self._total}] {what}{because}")
