"""What a comparison of searchers found, as data for programs: JSON and CSV. `report_html` makes the page for people."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from memory_core.evaluation.confidence import LEVEL, RESAMPLES, ROUNDS, Difference, Interval
from memory_core.evaluation.datasets import Dataset
from memory_core.evaluation.runner import Result
from memory_core.evaluation.study import MAIN, Row, comparisons, rows

CSV_HEADING = ("dataset", "searcher", "store", "kind", "questions", "measure", "value", "low", "high")
METHOD = (
    f"Intervals are {LEVEL:.0%} percentile bootstrap intervals over the questions ({RESAMPLES:,} resamples). Two "
    f"searchers are compared on {MAIN} by a paired randomisation test ({ROUNDS:,} rounds, two-sided), corrected by "
    "Holm's method for the number of pairs of a set. Times are medians of this run on this machine."
)


@dataclass(frozen=True, slots=True)
class Report:
    """One run: what was measured, with what, on what, and how sure the figures are.

    `documents` is how many each set holds, `settings` what the run was asked to do, `notes` what a reader must know to
    judge the figures, `machine` what `describe_machine` says.
    """

    results: tuple[Result, ...]
    rows: tuple[Row, ...]
    comparisons: dict[str, list[Difference]]
    documents: dict[str, int]
    notes: tuple[str, ...]
    settings: dict[str, Any]
    machine: dict[str, Any]


def report(
    datasets: Sequence[Dataset],
    results: Sequence[Result],
    settings: Mapping[str, Any],
    machine: Mapping[str, Any],
    notes: Sequence[str] = (),
    *,
    seed: int = 0,
) -> Report:
    """Put a run's results together with their intervals and comparisons; the sets' and results' notes come last."""
    said = [*notes, *(f"{data.name}: {data.note}" for data in datasets if data.note)]
    said += [f"{result.dataset}: {note}." for result in results for note in result.notes]
    return Report(
        tuple(results),
        tuple(rows(results, seed)),
        comparisons(results, seed),
        {data.name: len(data.documents) for data in datasets},
        tuple(said),
        dict(settings),
        dict(machine),
    )


def to_json(found: Report) -> str:
    """Return everything but the scores of single questions; figures are not rounded."""
    return json.dumps(json_data(found), ensure_ascii=False, indent=2) + "\n"


def json_data(found: Report) -> dict[str, Any]:
    """Return what `to_json` writes.

    `results` has an element for each set and searcher, with `scores` (measure → mean, low, high) and `kinds` (type of
    question → the same); `comparisons` one for each pair of searchers on a set.
    """
    return {
        "settings": found.settings,
        "machine": found.machine,
        "method": METHOD,
        "notes": list(found.notes),
        "results": [_result(found, result) for result in found.results],
        "comparisons": [
            {"dataset": dataset, "measure": MAIN, **asdict(pair)}
            for dataset, pairs in found.comparisons.items()
            for pair in pairs
        ],
    }


def _result(found: Report, result: Result) -> dict[str, Any]:
    nothing: dict[str, Any] = {}
    own = [row for row in found.rows if (row.dataset, row.searcher) == (result.dataset, result.searcher)]
    return {
        "dataset": result.dataset,
        "searcher": result.searcher,
        "store": result.store or None,
        "documents": found.documents[result.dataset],
        "questions": result.questions,
        "index_s": result.index_s,
        "query_ms": result.query_ms,
        "scores": next((_scores(row.scores) for row in own if not row.kind), nothing),
        "kinds": {row.kind: {"questions": row.questions, "scores": _scores(row.scores)} for row in own if row.kind},
    }


def _scores(scores: Mapping[str, Interval]) -> dict[str, Any]:
    return {measure: asdict(interval) for measure, interval in scores.items()}


def to_csv(found: Report) -> str:
    """Return a line for each set, searcher, kind of question (empty: all) and measure; times have no interval.

    A name that a spreadsheet would take for a formula gets an apostrophe before it.
    """
    file = io.StringIO()
    out = csv.writer(file, lineterminator="\n")
    out.writerow(CSV_HEADING)
    for result in found.results:
        start = [_plain(result.dataset), _plain(result.searcher), _plain(result.store)]
        for row in found.rows:
            if (row.dataset, row.searcher) == (result.dataset, result.searcher):
                for measure, scores in row.scores.items():
                    figures = [scores.mean, scores.low, scores.high]
                    out.writerow([*start, _plain(row.kind), row.questions, measure, *figures])
        for name in ("index_s", "query_ms"):
            out.writerow([*start, "", result.questions, name, getattr(result, name), "", ""])
    return file.getvalue()


def _plain(text: str) -> str:
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text
