"""The parts about what the smaller benchmarks say: `benchmarks/*.py`, each with its own JSON."""

from collections.abc import Iterator

from benchmarks.reporting.bounds import figure_of
from benchmarks.reporting.results import Json, Results
from benchmarks.reporting.writing import Page, number, table

WITH_ROWS = {
    "core": "The core",
    "stores": "The stores",
    "search": "The searchers",
    "sessions": "Sessions",
    "context": "The context",
}


def section(page: Page, results: Results) -> None:
    """Write the part; a benchmark without a file is said in one line."""
    page.say("## The other promises")
    missing: list[str] = []
    for name, title in WITH_ROWS.items():
        rows = results.rows(name)
        if not rows:
            missing.append(name)
            continue
        page.say(f"### {title}")
        shown = [[row.get("name"), _figure(row), _mark(row), row.get("detail", "")] for row in rows]
        page.add(*table(["", "figure", "holds", "in detail"], shown, left=4))
    for name, write in (("engine", _engine), ("ledger", _ledger), ("token_error", _tokens)):
        lines = list(write(results))
        if lines:
            page.add(*lines)
        else:
            missing.append(name)
    if missing:
        page.say(f"Not measured: {', '.join(f'`{name}.json`' for name in missing)}.")


def _figure(row: Json) -> str:
    if row.get("bound") is not None:
        return figure_of(row)
    return f"{number(row.get('value'))} {row.get('unit', '')}".strip()


def _mark(row: Json) -> str:
    return "" if row.get("bound") is None else "yes" if row.get("holds") else "**no**"


def _engine(results: Results) -> Iterator[str]:
    report = results.one("engine")
    if not report:
        return
    yield from ("### The engine", "")
    rows = [[part, name, number(value)] for part, values in report.items() for name, value in values.items()]
    yield from table(["", "figure", "value"], rows, left=2)


def _ledger(results: Results) -> Iterator[str]:
    report = results.one("ledger")
    figures: dict[str, Json] = report.get("figures", {}) if report else {}
    if not figures:
        return
    from benchmarks.ledger import LIMITS_MS

    yield from ("### The ledger", "")
    rows = [
        [name, number(found.get("wall_ms")), number(found.get("own_ms")), number(LIMITS_MS.get(name))]
        for name, found in figures.items()
    ]
    yield from table(["", "wall ms", "processor ms", "limit ms"], rows)


def _tokens(results: Results) -> Iterator[str]:
    rows = [row for row in results.rows("token_error") if "kind" in row]
    if not rows:
        return
    yield from ("### The token estimate", "")
    shown = [
        [row["kind"], f"{row['texts']:,}", *(f"{row[name]:+.1%}" for name in ("total", "p5", "p50", "p95"))]
        for row in rows
    ]
    yield from table(["kind of text", "texts", "error in all", "p5", "p50", "p95"], shown)
