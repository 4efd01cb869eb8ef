"""The figures as a table, as JSON, as CSV, and as one HTML page with plots over the number of memories."""

import csv
import io
from collections.abc import Sequence
from typing import Any

from memory_core.evaluation.machine import heading
from memory_core.evaluation.page import Chart, Section, Table, html_page
from memory_core.evaluation.plots import line_chart
from memory_core.evaluation.speed.growth import CRITERION, exponents, limits
from memory_core.evaluation.speed.plan import FIGURES, Cell

SCHEMA = 1
SHOWN = (
    ("write_ms_p50", "write"),
    ("write_ms_p95", "p95"),
    ("visible_ms_p50", "visible"),
    ("search_ms_p50", "search"),
    ("search_ms_p95", "p95"),
    ("search_ms_p99", "p99"),
    ("hot_ms_p50", "hot"),
    ("injection_ms_p50", "inject"),
    ("cold_start_s", "cold s"),
    ("warm_start_s", "warm s"),
    ("memory_mb", "MB"),
    ("store_bytes", "store"),
    ("index_bytes", "index"),
    ("after_ms_p50", "after"),
)
"""What the table on a terminal shows; milliseconds where nothing else is said."""
PLOTTED = (
    ("search_ms_p50", "Search, median", "ms"),
    ("search_ms_p95", "Search, 95th percentile", "ms"),
    ("write_ms_p50", "Durable write, median", "ms"),
    ("visible_ms_p50", "From write to found, median", "ms"),
    ("injection_ms_p50", "Injection, median", "ms"),
    ("cold_start_s", "Cold start", "s"),
    ("warm_start_s", "Warm start", "s"),
    ("memory_mb", "Memory of a process", "MB"),
    ("index_bytes", "Index on disk", "bytes"),
)


def shown(name: str, value: float | None) -> str:
    """Return a figure for people: three digits that count, bytes as KB, MB or GB."""
    if value is None:
        return "–"
    if name.endswith("_bytes"):
        for unit, size in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
            if abs(value) >= size:
                return f"{value / size:.1f} {unit}"
        return f"{value:.0f} B"
    if abs(value) >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def table(cells: Sequence[Cell]) -> list[str]:
    """Return the figures as lines of text: a table, how they grow, and from where a pair is no longer usable."""
    lines = [f"{'store':9} {'searcher':9} {'size':>8} " + " ".join(f"{label:>8}" for _, label in SHOWN)]
    for cell in cells:
        values = " ".join(f"{shown(name, cell.figures.get(name)):>8}" for name, _ in SHOWN)
        start = f"{cell.storer:9} {cell.searcher:9} {cell.size:>8,}"
        lines += [f"{start} {values}"] if cell.figures else []
        lines += [f"{start} not measured: {cell.not_measured}"] if cell.not_measured is not None else []
    grown = exponents(cells)
    if any(grown.values()):
        lines += ["", "Growth: value ≈ a · size^b; b = 0 is constant, 1 linear, above 1 worse than linear."]
        lines += [
            f"{storer:9} {searcher:9} " + "  ".join(f"{figure} {value:.2f}" for figure, value in fitted.items())
            for (storer, searcher), fitted in grown.items()
            if fitted
        ]
    found = limits(cells)
    if found:
        lines += ["", f"Criterion: {CRITERION}."]
        lines += [f"{limit.storer:9} {limit.searcher:9} {limit.sentence()}" for limit in found]
    return lines


def report_json(cells: Sequence[Cell], parameters: dict[str, Any], machine: dict[str, Any]) -> dict[str, Any]:
    """Return the run as JSON data: schema version, date, machine, parameters, what each figure is, and the figures."""
    return {
        **heading("speed", SCHEMA, parameters, machine),
        "figures": {figure.name: {"unit": figure.unit, "what": figure.what} for figure in FIGURES},
        "cells": [cell.to_json() for cell in cells],
        "exponents": [
            {"storer": storer, "searcher": searcher, **fitted}
            for (storer, searcher), fitted in exponents(cells).items()
        ],
        "criterion": CRITERION,
        "limits": [{**limit.to_json(), "sentence": limit.sentence()} for limit in limits(cells)],
    }


def csv_text(cells: Sequence[Cell]) -> str:
    """Return one row a cell under a heading; what is not measured is empty, and the last column says why."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["storer", "searcher", "size", *(figure.name for figure in FIGURES), "not_measured"])
    for cell in cells:
        values = [cell.figures.get(figure.name, "") for figure in FIGURES]
        writer.writerow([cell.storer, cell.searcher, cell.size, *values, cell.not_measured or ""])
    return out.getvalue()


def html_report(report: dict[str, Any], cells: Sequence[Cell]) -> str:
    """Return the page: where and how it was measured, the plots of each store, all figures, growth and limits.

    Raises:
        MissingExtraError: matplotlib is not installed.

    """
    about = [f"Measured {report['date']}."]
    about += [f"{name}: {_plain(value)}" for name, value in report["machine"].items()]
    about += [f"{name}: {_plain(value)}" for name, value in report["parameters"].items()]
    sections = [Section("Where and how", about)]
    sections += [
        Section(f"The store {storer}", [*_charts(storer, cells), *_tables(storer, cells)])
        for storer in dict.fromkeys(cell.storer for cell in cells)
    ]
    sections.append(Section("Growth and limits", [_growth(cells), f"Criterion: {CRITERION}.", *_limits(cells)]))
    sections.append(Section("The figures", [f"{f.name} ({f.unit or 'number'}): {f.what}." for f in FIGURES]))
    return html_page("How fast each store is with each searcher", sections)


def _plain(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {inner}" for name, inner in value.items())  # pyright: ignore[reportUnknownVariableType]
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


def _charts(storer: str, cells: Sequence[Cell]) -> list[Chart]:
    known = {(cell.searcher, cell.size): cell.figures for cell in cells if cell.storer == storer}
    searchers = list(dict.fromkeys(searcher for searcher, _ in known))
    sizes = sorted({size for _, size in known})
    charts: list[Chart] = []
    for name, title, unit in PLOTTED:
        series = {searcher: [known.get((searcher, size), {}).get(name) for size in sizes] for searcher in searchers}
        if any(value is not None for values in series.values() for value in values):
            charts.append(Chart(line_chart(f"{title} ({storer})", sizes, series, "memories", unit)))
    return charts


def _tables(storer: str, cells: Sequence[Cell]) -> list[Table | str]:
    mine = [cell for cell in cells if cell.storer == storer]
    parts: list[Table | str] = []
    for size in sorted({cell.size for cell in mine}):
        here = [cell for cell in mine if cell.size == size]
        rows = [
            [figure.name, *(shown(figure.name, cell.figures.get(figure.name)) for cell in here), figure.unit]
            for figure in FIGURES
        ]
        parts.append(Table(["figure", *(cell.searcher for cell in here), "unit"], rows, f"{size:,} memories"))
        parts += [f"{cell.searcher}: not measured: {cell.not_measured}" for cell in here if cell.not_measured]
    return parts


def _growth(cells: Sequence[Cell]) -> Table:
    fitted = exponents(cells)
    names = list(dict.fromkeys(name for found in fitted.values() for name in found))
    rows = [
        [f"{storer} × {searcher}", *(f"{found[name]:.2f}" if name in found else "–" for name in names)]
        for (storer, searcher), found in fitted.items()
    ]
    return Table(["pair", *names], rows, "Exponent b of value ≈ a · size^b: 0 constant, 1 linear")


def _limits(cells: Sequence[Cell]) -> list[str]:
    return [f"{limit.storer} × {limit.searcher}: {limit.sentence()}." for limit in limits(cells)]
