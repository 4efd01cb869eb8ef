"""The part of the page about how well searchers find, from `memory-core bench quality --json`."""

from typing import Any

from benchmarks.reporting.results import Json, Results
from benchmarks.reporting.writing import Page, bars_chart, number, table

MAIN = "nDCG@10"


def section(page: Page, results: Results, folder: str) -> None:
    """Write the part, one chapter a file."""
    page.say("## How well they find")
    reports = {name: found for name, found in results.family("quality").items() if found.get("results")}
    if not reports:
        page.say("Not measured: there is no `quality.json`.")
    for name, report in reports.items():
        _report(page, name, report, folder)


def _report(page: Page, name: str, report: Json, folder: str) -> None:
    settings: Json = report.get("settings", {})
    found: list[Json] = report["results"]
    page.say(f"### With the embedder `{settings.get('embedder')}`")
    if method := report.get("method"):
        page.say(str(method))
    measures = list(dict.fromkeys(measure for result in found for measure in result.get("scores", {})))
    rows = [
        [
            result["dataset"],
            f"{result.get('documents', 0):,}",
            f"{result['questions']:,}",
            result["searcher"],
            *(_score(result, measure) for measure in measures),
            number(result.get("query_ms")),
        ]
        for result in found
    ]
    page.add(*table(["set", "texts", "questions", "searcher", *measures, "ms a query"], rows))
    sets = list(dict.fromkeys(result["dataset"] for result in found))
    searchers = list(dict.fromkeys(result["searcher"] for result in found))
    known = {(result["dataset"], result["searcher"]): result for result in found}
    values = {searcher: [_part(known.get((data, searcher)), "mean") for data in sets] for searcher in searchers}
    errors = {searcher: [_ends(known.get((data, searcher))) for data in sets] for searcher in searchers}
    title = f"{MAIN} with {settings.get('embedder')}"
    page.chart(folder, name.replace("_", "-"), bars_chart(title, sets, values, MAIN, errors))
    page.points([_best(data, found, report.get("comparisons", [])) for data in sets])
    page.points([str(note) for note in report.get("notes", [])])


def _score(result: Json, measure: str) -> str:
    found = result.get("scores", {}).get(measure)
    if found is None:
        return "–"
    return (
        f"{found['mean']:.3f} [{found['low']:.3f}, {found['high']:.3f}]" if measure == MAIN else f"{found['mean']:.3f}"
    )


def _part(result: Json | None, name: str) -> float | None:
    value: Any = None if result is None else result.get("scores", {}).get(MAIN, {}).get(name)
    return None if value is None else float(value)


def _ends(result: Json | None) -> tuple[float, float] | None:
    low, high = _part(result, "low"), _part(result, "high")
    return None if low is None or high is None else (low, high)


def _best(data: str, found: list[Json], comparisons: list[Json]) -> str:
    """Return which searcher is best on a set, and from which others it does not differ by more than chance."""
    ranked = sorted(
        (
            (value, result["searcher"])
            for result in found
            if result["dataset"] == data and (value := _part(result, "mean")) is not None
        ),
        reverse=True,
    )
    if not ranked:
        return f"On {data} nothing was measured."
    value, best = ranked[0]
    beside: list[str] = []
    for pair in comparisons:
        names = {pair["one"], pair["other"]}
        if pair["dataset"] == data and best in names and pair["p_holm"] >= 0.05:
            beside += sorted(names - {best})
    sentence = f"On {data}, {best} is best ({value:.3f})"
    return f"{sentence}; the difference to {', '.join(beside)} may be chance." if beside else f"{sentence}."
