"""The page for people: charts and tables of a comparison of searchers, in one file."""

from collections.abc import Callable, Sequence
from typing import cast

from memory_core.evaluation.figures import chance, signed, with_interval
from memory_core.evaluation.page import Chart, Section, Table, html_page
from memory_core.evaluation.plots import bar_chart
from memory_core.evaluation.report import METHOD, Report
from memory_core.evaluation.runner import Result
from memory_core.evaluation.study import MAIN, Row


def to_html(found: Report) -> str:
    """Return a whole HTML document without script or network.

    Raises:
        MissingExtraError: matplotlib is not installed.

    """
    sets = list(dict.fromkeys(result.dataset for result in found.results))
    sections = [Section("All sets", [_overview(found, sets), _times(found.results, sets)])] if len(sets) > 1 else []
    sections += [_set(found, name) for name in sets]
    sections.append(Section("How it was measured", [METHOD, *found.notes, _facts(found)]))
    return html_page("How well the searchers find", sections)


def _overview(found: Report, sets: Sequence[str]) -> Chart:
    whole = [row for row in found.rows if not row.kind]
    return _bars(f"{MAIN} by set", whole, sets, lambda row: row.dataset)


def _times(results: Sequence[Result], sets: Sequence[str]) -> Chart:
    series: dict[str, list[float | None]] = {}
    for result in results:
        series.setdefault(result.searcher, [None] * len(sets))[sets.index(result.dataset)] = result.query_ms
    return Chart(bar_chart("Median time of one search", sets, series, "ms"))


def _set(found: Report, name: str) -> Section:
    mine = [row for row in found.rows if row.dataset == name]
    whole, kinds = [row for row in mine if not row.kind], [row for row in mine if row.kind]
    times = {result.searcher: result for result in found.results if result.dataset == name}
    questions = whole[0].questions if whole else 0
    parts: list[str | Table | Chart] = [
        f"{found.documents[name]:,} documents, {questions:,} questions.",
        _all_measures(whole),
        Table(
            ["searcher", *(whole[0].scores if whole else ()), "ms a search", "s to fill"],
            [
                [
                    row.searcher,
                    *map(with_interval, row.scores.values()),
                    f"{times[row.searcher].query_ms:.2f}",
                    f"{times[row.searcher].index_s:.2f}",
                ]
                for row in whole
            ],
        ),
    ]
    if kinds:
        names = list(dict.fromkeys(row.kind for row in kinds))
        parts.append(_bars(f"{MAIN} by type of question", kinds, names, lambda row: row.kind))
        parts.append(
            Table(
                ["type of question", "searcher", "questions", *kinds[0].scores],
                [
                    [row.kind, row.searcher, f"{row.questions:,}", *map(with_interval, row.scores.values())]
                    for row in kinds
                ],
            )
        )
    if found.comparisons.get(name):
        parts.append(
            Table(
                ["compared", f"difference in {MAIN}", "p", "p, corrected"],
                [
                    [f"{pair.one} − {pair.other}", signed(pair), chance(pair.p), chance(pair.p_holm)]
                    for pair in found.comparisons[name]
                ],
                "Is the difference more than chance?",
            )
        )
    return Section(name, parts)


def _bars(title: str, rows: Sequence[Row], groups: Sequence[str], group: Callable[[Row], str]) -> Chart:
    """Draw the main measure of each searcher in each group, with its interval."""
    values: dict[str, list[float | None]] = {}
    ends: dict[str, list[tuple[float, float] | None]] = {}
    for row in rows:
        place, score = groups.index(group(row)), row.scores[MAIN]
        values.setdefault(row.searcher, [None] * len(groups))[place] = score.mean
        ends.setdefault(row.searcher, [None] * len(groups))[place] = (score.low, score.high)
    return Chart(bar_chart(title, groups, values, MAIN, ends))


def _all_measures(rows: Sequence[Row]) -> Chart:
    groups = list(rows[0].scores) if rows else []
    values = {row.searcher: [score.mean for score in row.scores.values()] for row in rows}
    ends = {row.searcher: [(score.low, score.high) for score in row.scores.values()] for row in rows}
    return Chart(bar_chart("All measures, with 95 % intervals", groups, values, "0..1", ends))


def _facts(found: Report) -> Table:
    facts = [[name, _said(value)] for name, value in {**found.settings, **found.machine}.items()]
    return Table(["what", "value"], facts, "Settings and machine")


def _said(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {of}" for name, of in cast("dict[str, object]", value).items())
    if isinstance(value, list):
        return ", ".join(map(str, cast("list[object]", value)))
    return "—" if value is None else str(value)
