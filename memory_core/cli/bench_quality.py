"""`bench quality`: how well the searchers find, on labelled sets or on the user's own memories."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from memory_core.cli.output import padded, plain, print_json, say, warn
from memory_core.cli.progress import progress_bar
from memory_core.cli.state import State, pass_state, shared_options

if TYPE_CHECKING:
    from memory_core.evaluation import Dataset
    from memory_core.evaluation.report import Report
    from memory_core.evaluation.study import Setup

SEARCHERS: str = "fulltext,whoosh,lancedb,hybrid"
EMBEDDER = "static"
"""What makes the vectors where nothing is configured: it needs no download and a fraction of a millisecond a text."""
FILE = click.Path(path_type=Path, dir_okay=False)


def _names(_: click.Context, __: click.Parameter, value: str | None) -> list[str] | None:
    if value is None:
        return None
    names = [name.strip() for name in value.split(",") if name.strip()]
    if not names:
        raise click.BadParameter("it names nothing")
    return names


@click.command()
@click.option(
    "--data", type=click.Path(path_type=Path), metavar="DIR", help="A labelled set, or a directory that holds sets."
)
@click.option("--own", is_flag=True, help="Measure on your own memories instead (see --user, --scope).")
@click.option("--queries", type=FILE, metavar="FILE", help="With --own: real questions and the keys that answer them.")
@click.option("--sets", callback=_names, metavar="A,B", help="With --data: only these sets.")
@click.option(
    "--searchers", callback=_names, metavar="A,B",
    help=f"Which to compare; by default those of {SEARCHERS} whose packages are installed.",
)  # fmt: skip
@click.option("--embedder", metavar="NAME", help="What makes the vectors; by default the configured one, else static.")
@click.option("--store", metavar="NAME", help="Let the entries pass through this store and its change feed.")
@click.option("--questions", type=click.IntRange(1), metavar="N", help="Only about so many questions of each set.")
@click.option(
    "--cache", type=click.Path(path_type=Path, file_okay=False), metavar="DIR", help="Where vectors are kept."
)
@click.option("--json", "json_file", type=FILE, metavar="FILE", help="Write the figures as JSON.")
@click.option("--csv", "csv_file", type=FILE, metavar="FILE", help="Write the figures as CSV.")
@click.option("--html", "html_file", type=FILE, metavar="FILE", help="Write a page with charts.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="For everything that is drawn.")
@shared_options("cwd", "user", "scope")
@pass_state
def quality(state: State, /, **options: Any) -> None:
    """Measure how well searchers find, with intervals and significance.

    DIR is a set of documents, questions and labels, or holds such sets (docs/bench.md has the format). --own takes your
    memories; without --queries, questions are generated from their words, which is an optimistic measure. Nothing of
    yours is changed: all indexes and stores of a measurement are temporary.

    Entries are fed to each searcher directly, because a store does not change what is found, only how long filling
    takes. --store checks the whole way.

    \b
    memory-core bench quality --own
    memory-core bench quality --own --queries questions.tsv --searchers fulltext,hybrid
    memory-core bench quality --data sets/ --html report.html --json report.json
    """
    if (options["data"] is None) == (not options["own"]):
        raise click.UsageError("Give either --data DIR or --own.")
    for name, needs in (("queries", "own"), ("sets", "data")):
        if options[name] and not options[needs]:
            raise click.UsageError(f"--{name} needs --{needs}.")
    found = _run(state, **options)
    _write(found, options)
    if state.as_json:
        from memory_core.evaluation.report import json_data

        print_json(json_data(found))
    else:
        print_report(found)


def _run(state: State, /, **options: Any) -> "Report":
    from memory_core.evaluation.extras import require
    from memory_core.evaluation.machine import describe_machine
    from memory_core.evaluation.report import report
    from memory_core.evaluation.study import measure_all

    outputs = {name: options[f"{name}_file"] for name in ("json", "csv", "html")}
    require("ir_measures", "numpy", *(["matplotlib"] if outputs["html"] else []))
    for path in filter(None, outputs.values()):
        if not path.absolute().parent.is_dir():
            raise click.UsageError(f"There is no folder {path.absolute().parent} to write {path.name} into.")
    setup, embedder = _setup(state, options["embedder"], options["cache"], options["store"], own=options["own"])
    wanted: list[str] = options["searchers"] or SEARCHERS.split(",")
    _check_names(wanted, embedder, options["store"])
    sets = _own(state, options["queries"], options["seed"]) if options["own"] else _labelled(options)
    if options["questions"]:
        sets = [data.head(options["questions"]) for data in sets]
    searchers, left_out = setup.available(wanted, leave_out=options["searchers"] is None)
    for why in left_out:
        warn(f"Left out: {why}")
    settings = {
        "sets": [data.name for data in sets],
        "searchers": searchers,
        "embedder": embedder,
        "store": options["store"],
        "questions": options["questions"],
        "seed": options["seed"],
    }
    with progress_bar("Measuring") as progress:
        results = list(measure_all(sets, searchers, setup, progress))
    notes = [f"Left out: {why}" for why in left_out]
    return report(sets, results, settings, describe_machine(), notes, seed=options["seed"])


def _setup(
    state: State, embedder: str | None, cache: Path | None, store: str | None, *, own: bool
) -> "tuple[Setup, str]":
    from memory_core.evaluation.opening import embedder_settings
    from memory_core.evaluation.study import Setup

    settings = state.load().settings
    name = embedder or settings.embedder or EMBEDDER
    kept = settings.home_dir / "cache"
    cache = (cache or (kept if own else kept / "bench")).absolute()  # own memories have their vectors already
    cache.mkdir(parents=True, exist_ok=True)
    return Setup(embedder_settings(name), state.workspace, state.config_file, cache, store or ""), name


def _check_names(searchers: Sequence[str], embedder: str, store: str | None) -> None:
    from memory_core.evaluation.opening import MINILM
    from memory_core.plugins import get_registry

    for name in searchers:
        get_registry().backend("searcher", name)
    if embedder != MINILM:
        get_registry().backend("embedder", embedder)
    if store is not None:
        get_registry().backend("storer", store)


def _labelled(options: dict[str, Any]) -> "list[Dataset]":
    from memory_core.evaluation import find_sets, load_dataset

    return [load_dataset(path) for path in find_sets(options["data"], options["sets"])]


def _own(state: State, queries: Path | None, seed: int) -> "list[Dataset]":
    from memory_core.clock import SystemClock
    from memory_core.evaluation.own import own_dataset, read_queries

    given = read_queries(queries) if queries is not None else None
    solution = state.open(searcher="fulltext")  # only the store is read
    if state.scope is not None and state.scope not in solution.scopes:
        from memory_core.errors import UnknownScopeError

        raise UnknownScopeError(f"There is no scope {state.scope!r}. There are: {', '.join(solution.scopes)}.")
    entries = solution.storer.scan(state.user_id, state.scope)
    return [own_dataset(entries, solution.scopes, SystemClock().now(), given, seed=seed)]


def _write(found: "Report", options: dict[str, Any]) -> None:
    from memory_core.evaluation.report import to_csv, to_json

    if options["json_file"]:
        options["json_file"].write_text(to_json(found), "utf-8")
    if options["csv_file"]:
        options["csv_file"].write_text(to_csv(found), "utf-8")
    if options["html_file"]:
        from memory_core.evaluation.report_html import to_html

        options["html_file"].write_text(to_html(found), "utf-8")


def print_report(found: "Report") -> None:
    """Print a table for each set, the types of questions, and which searchers differ."""
    from memory_core.evaluation.figures import chance, digits, signed, with_interval
    from memory_core.evaluation.study import MAIN

    times = {(result.dataset, result.searcher): result for result in found.results}
    for name, documents in found.documents.items():
        whole = [row for row in found.rows if row.dataset == name and not row.kind]
        others = [measure for measure in whole[0].scores if measure != MAIN]
        say(f"{name}: {documents:,} documents, {whole[0].questions:,} questions")
        table = [["searcher", f"{MAIN} [95 %]", *others, "ms"]]
        for row in whole:
            rest = [digits(row.scores[measure].mean) for measure in others]
            took = f"{times[name, row.searcher].query_ms:.2f}"
            table.append([row.searcher, with_interval(row.scores[MAIN]), *rest, took])
        _table(table)
        kinds = list(dict.fromkeys(row.kind for row in found.rows if row.dataset == name and row.kind))
        if kinds:
            by = {(row.searcher, row.kind): row for row in found.rows if row.dataset == name}
            table = [["type of question", "questions", *(f"{row.searcher}" for row in whole)]]
            for kind in kinds:
                figures = [with_interval(by[row.searcher, kind].scores[MAIN]) for row in whole]
                table.append([kind, f"{by[whole[0].searcher, kind].questions:,}", *figures])
            say(f"  {MAIN} by type of question")
            _table(table)
        pairs = found.comparisons.get(name, [])
        if pairs:
            say(f"  difference in {MAIN}, and how likely chance alone gives as much (corrected for {len(pairs)} pairs)")
            _table([[f"{pair.one} − {pair.other}", signed(pair), f"p {chance(pair.p_holm)}"] for pair in pairs])
        say()
    for note in found.notes:
        say(f"Note: {note}")


def _table(rows: Sequence[Sequence[str]]) -> None:
    """Print rows with each column as wide as its longest cell."""
    cells = [[plain(" ".join(cell.split())) for cell in row] for row in rows]
    widths = [max(_width(row[place]) for row in cells) for place in range(len(cells[0]))]
    for row in cells:
        say("  " + "  ".join(padded(cell, width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _width(text: str) -> int:
    from wcwidth import wcswidth

    return max(wcswidth(text), 0)
