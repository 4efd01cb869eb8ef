"""The parts of the page about speed over the number of memories, and about the long run."""

from typing import Any

from benchmarks.reporting.results import Json, Results
from benchmarks.reporting.writing import Page, lines_chart, number, size_of, table

SHOWN = (
    ("write_ms_p50", "write"),
    ("visible_ms_p50", "write to found"),
    ("search_ms_p50", "search"),
    ("search_ms_p95", "search p95"),
    ("search_ms_p99", "search p99"),
    ("hot_ms_p50", "same query"),
    ("injection_ms_p50", "injection"),
    ("cold_start_s", "cold start, s"),
    ("warm_start_s", "warm start, s"),
    ("memory_mb", "memory, MB"),
    ("store_bytes", "store"),
    ("index_bytes", "index"),
    ("before_ms_p50", "search before"),
    ("after_ms_p50", "and after 1,000 upserts"),
)
PLOTTED = (
    ("search_ms_p50", "Search, median", "ms"),
    ("write_ms_p50", "Durable write, median", "ms"),
    ("visible_ms_p50", "From write to found, median", "ms"),
    ("injection_ms_p50", "Injection, median", "ms"),
    ("warm_start_s", "Warm start", "s"),
    ("memory_mb", "Memory of a process", "MB"),
)


def section(page: Page, results: Results, folder: str) -> None:
    """Write the part about speed."""
    page.say("## How fast, over the number of memories")
    report = results.one("speed")
    cells: list[Json] = report.get("cells", []) if report else []
    if report is None or not cells:
        page.say("Not measured: there is no `speed.json`.")
        return
    page.say("Milliseconds (medians) where nothing else is said.")
    note = report.get("parameters", {}).get("note")
    if note:
        page.say(f"**{note}**")
    for storer in dict.fromkeys(cell["storer"] for cell in cells):
        mine = [cell for cell in cells if cell["storer"] == storer]
        page.say(f"### The store {storer}")
        rows = [
            [cell["searcher"], f"{cell['size']:,}", *(_shown(name, cell["figures"].get(name)) for name, _ in SHOWN)]
            for cell in mine
            if cell.get("figures")
        ]
        page.add(*table(["searcher", "memories", *(label for _, label in SHOWN)], rows))
        why = [
            f"{c['searcher']} at {c['size']:,}: not measured: {c['not_measured']}"
            for c in mine
            if c.get("not_measured")
        ]
        page.points(why)
        _charts(page, storer, mine, folder)
    page.say("### Where each stops being usable")
    if report.get("criterion"):
        page.say(f"The criterion: {report['criterion']}.")
    limits: list[Json] = report.get("limits", [])
    page.points([f"{limit['storer']} × {limit['searcher']}: {limit['sentence']}." for limit in limits])
    _growth(page, report)


def _shown(name: str, value: float | None) -> str:
    return size_of(value) if name.endswith("_bytes") else number(value)


def _charts(page: Page, storer: str, cells: list[Json], folder: str) -> None:
    known = {(cell["searcher"], cell["size"]): cell.get("figures", {}) for cell in cells}
    searchers = list(dict.fromkeys(searcher for searcher, _ in known))
    sizes = sorted({size for _, size in known})
    if len(sizes) < 2:
        return
    for name, title, unit in PLOTTED:
        series: dict[str, list[float | None]] = {
            searcher: [known.get((searcher, size), {}).get(name) for size in sizes] for searcher in searchers
        }
        if any(value is not None for values in series.values() for value in values):
            chart = lines_chart(f"{title} ({storer})", sizes, series, "memories", unit)
            page.chart(folder, f"speed-{storer}-{name.replace('_', '-')}", chart)


def _growth(page: Page, report: Json) -> None:
    fitted: list[Json] = report.get("exponents", [])
    names = list(dict.fromkeys(name for one in fitted for name in one if name not in {"storer", "searcher"}))
    if not names:
        return
    page.say("Growth, as b in value ≈ a · size^b: 0 is constant, 1 linear, above 1 worse than linear.")
    rows = [[f"{one['storer']} × {one['searcher']}", *(_exponent(one.get(name)) for name in names)] for one in fitted]
    page.add(*table(["", *(name.replace("_", " ") for name in names)], rows))


def _exponent(value: Any) -> str:
    return "–" if value is None else f"{value:.2f}"


def long_run(page: Page, results: Results) -> None:
    """Write the part about a day in the life."""
    page.say("## The long run")
    report = results.one("long_run") or results.one("long-run")
    outcomes: list[Json] = report.get("outcomes", []) if report else []
    if report is None or not outcomes:
        page.say("Not measured: there is no `long_run.json`.")
        return
    parameters: Json = report.get("parameters", {})
    page.say(
        f"{number(parameters.get('operations'))} operations (remember, change, forget, merge, search, list) from "
        f"{number(parameters.get('processes'))} processes at once on each pair; one is killed midway and comes back. "
        "All that they see, and what a new process finds at the end, is compared with a model in memory."
    )
    rows = [
        [
            f"{one['storer']} × {one['searcher']}",
            *(["not run", one["not_run"], "", "", "", ""] if one.get("not_run") else _outcome(one)),
        ]
        for one in outcomes
    ]
    page.add(*table(["", "operations", "a second", "checks", "errors", "lost", "ghosts"], rows))
    faults = [
        f"{one['storer']} × {one['searcher']}: {fault['kind']}: {fault['what']}"
        for one in outcomes
        for fault in one.get("faults", [])
    ]
    page.points(faults)


def _outcome(one: Json) -> list[str]:
    names = ("operations", "per_second", "checked", "errors", "lost", "ghosts")
    return [f"{one[name]:,.0f}" for name in names]
