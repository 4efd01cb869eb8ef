"""Numbers, tables and charts as Markdown."""

import hashlib
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any


def number(value: float | None) -> str:
    """Return three digits that count: `0.0421`, `3.14`, `214`, `12,300`; `–` for None and what is no number."""
    if value is None or not math.isfinite(value):
        return "–"
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:.{min(digits, 6)}f}"


def times(value: float) -> str:
    """Return a factor: `3.1×`, `214×`."""
    return f"{value:,.0f}×" if value >= 10 else f"{value:.1f}×"


def size_of(value: float | None) -> str:
    """Return bytes in the unit that fits."""
    if value is None:
        return "–"
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= size:
            return f"{value / size:.1f} {unit}"
    return f"{value:.0f} B"


def cell(text: Any) -> str:
    """Return text that cannot leave its cell of a table."""
    return " ".join(str(text).split()).replace("|", "\\|").replace("<", "&lt;")


def table(heading: Sequence[str], rows: Sequence[Sequence[Any]], *, left: int = 1) -> list[str]:
    """Return a Markdown table and an empty line; the first `left` columns are text, the others numbers."""
    marks = ["---" if place < left else "---:" for place in range(len(heading))]
    lines = [heading, marks, *([cell(value) for value in row] for row in rows)]
    return [*(f"| {' | '.join(line)} |" for line in lines), ""]


@dataclass(slots=True)
class Page:
    """The page while it is written: its lines, and its charts by file name."""

    lines: list[str] = field(default_factory=list[str])
    charts: dict[str, "Chart"] = field(default_factory=dict[str, "Chart"])

    def add(self, *lines: str) -> None:
        self.lines += lines

    def say(self, *paragraphs: str) -> None:
        """Add paragraphs with an empty line after each."""
        for paragraph in paragraphs:
            self.lines += [paragraph, ""]

    def points(self, sentences: Sequence[str]) -> None:
        """Add a list and an empty line, or nothing."""
        if sentences:
            self.lines += [*(f"- {sentence}" for sentence in sentences), ""]

    def chart(self, folder: str, name: str, chart: "Chart") -> None:
        """Add a picture that lies in `folder`, as seen from the page."""
        self.charts[f"{name}.svg"] = chart
        self.say(f"![{chart.title}]({folder}/{name}.svg)")

    def text(self) -> str:
        """Return the page, with one line break at its end."""
        return "\n".join(self.lines).rstrip("\n") + "\n"


@dataclass(frozen=True, slots=True)
class Chart:
    """What is drawn: `figures` is all that the picture depends on, `draw` makes SVG of it."""

    title: str
    figures: Any
    draw: Callable[[], str]

    @property
    def mark(self) -> str:
        """The first line of the file: which figures were drawn. Another release of the drawing library gives other
        bytes for the same figures; this line tells whether the picture is that of the page.
        """
        known = json.dumps([self.title, self.figures], sort_keys=True, ensure_ascii=False)
        return f"<!-- figures {hashlib.sha256(known.encode()).hexdigest()[:16]} -->"

    def svg(self) -> str:
        """Return the file's text."""
        return f"{self.mark}\n{self.draw()}"


def lines_chart(title: str, x: Sequence[int], series: dict[str, list[float | None]], x_label: str, unit: str) -> Chart:
    """Return a chart of lines with logarithmic axes."""

    def draw() -> str:
        from memory_core.evaluation.plots import line_chart

        return line_chart(title, list(x), series, x_label, unit)

    return Chart(title, [list(x), series, x_label, unit], draw)


def bars_chart(
    title: str,
    groups: Sequence[str],
    series: dict[str, list[float | None]],
    unit: str,
    errors: dict[str, list[tuple[float, float] | None]] | None = None,
) -> Chart:
    """Return a chart of bars, with intervals if there are any."""

    def draw() -> str:
        from memory_core.evaluation.plots import bar_chart

        return bar_chart(title, list(groups), series, unit, errors)

    return Chart(title, [list(groups), series, unit, errors], draw)
