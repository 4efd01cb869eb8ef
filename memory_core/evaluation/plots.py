"""Charts as SVG text, drawn by matplotlib without its global state: the same numbers give the same bytes.

Text stays text in the SVG, so that the reader's own fonts show what the drawing font lacks, such as Chinese names.
"""

import io
import math
import re
import warnings
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from memory_core.evaluation.extras import require

Values = Sequence[float | None]
Interval = tuple[float, float]

_COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#555555")
"""Told apart by colour-blind readers too (Okabe & Ito 2008); a ninth series starts anew with another marker."""
_MARKERS = "osD^v*PX"
_STYLE = {
    "svg.hashsalt": "memory-core",
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.family": "sans-serif",
    "font.size": 10,
}
_UNREADABLE = re.compile("[^\x09\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]+")


def bar_chart(
    title: str,
    groups: Sequence[str],
    series: Mapping[str, Values],
    unit: str,
    errors: Mapping[str, Sequence[Interval | None]] | None = None,
) -> str:
    """Return groups of bars as one `<svg>` element, a bar in each group for each series.

    Args:
        title: Stands above the chart.
        groups: What stands below each group of bars.
        series: Name → one value a group; None, infinities and NaN are gaps.
        unit: What the values are, beside the axis.
        errors: Name → one (lowest, highest) a group, in the values' unit: the ends of an interval drawn over the bar.

    Raises:
        MissingExtraError: matplotlib is not installed.
        ValueError: A series has not one value a group.

    """
    _same_length(len(groups), series)
    _same_length(len(groups), errors or {})

    def draw(axes: Any) -> None:
        width = 0.8 / max(1, len(series))
        for place, (name, values) in enumerate(series.items()):
            shown = _finite(values)
            at = [group - 0.4 + width * (place + 0.5) for group in range(len(groups))]
            bars = [(x, value) for x, value in zip(at, shown, strict=True) if value is not None]
            axes.bar(
                [x for x, _ in bars],
                [value for _, value in bars],
                width * 0.92,
                color=_colour(place),
                label=_label(name),
            )
            for x, value, ends in zip(at, shown, (errors or {}).get(name, [None] * len(at)), strict=True):
                if value is not None and ends is not None and all(map(math.isfinite, ends)):
                    axes.plot([x, x], ends, color="#222222", linewidth=1)
        axes.set_xticks(range(len(groups)), [clean_text(group) for group in groups])
        if any(len(group) > 10 for group in groups) and len(groups) > 4:
            for label in axes.get_xticklabels():
                label.set(rotation=30, ha="right", rotation_mode="anchor")
        axes.set_xlim(-0.6, max(1, len(groups)) - 0.4)
        axes.set_ylabel(clean_text(unit))
        axes.grid(axis="y", color="#dddddd", linewidth=0.6)

    return _chart(title, draw, min(14.0, max(6.4, 0.32 * len(groups) * max(1, len(series)) + 2)))


def line_chart(
    title: str,
    x: Sequence[float],
    series: Mapping[str, Values],
    x_label: str,
    y_label: str,
    *,
    log_x: bool = True,
    log_y: bool = True,
) -> str:
    """Return lines over `x` as one `<svg>` element, with a marker at each value.

    Args:
        title: Stands above the chart.
        x: Where the values stand, ascending.
        series: Name → one value for each of `x`; None, infinities and NaN are gaps, on a logarithmic axis also what is
            not above 0.
        x_label: What `x` is, with its unit.
        y_label: What the values are, with their unit.
        log_x: Whether equal distances on the x axis are equal factors.
        log_y: The same for the values.

    Raises:
        MissingExtraError: matplotlib is not installed.
        ValueError: A series has not one value for each of `x`.

    """
    _same_length(len(x), series)
    places = _finite(x, above_zero=log_x)
    lines = {name: _finite(values, above_zero=log_y) for name, values in series.items()}
    drawn = [
        v for values in lines.values() for at, v in zip(places, values, strict=True) if at is not None and v is not None
    ]

    def draw(axes: Any) -> None:
        if log_x and drawn:
            axes.set_xscale("log")
            _plain_numbers(axes.xaxis, [at for at in places if at is not None])
        if log_y and drawn:
            axes.set_yscale("log")
            _plain_numbers(axes.yaxis, drawn)
        shown = [math.nan if at is None else at for at in places]
        for place, (name, values) in enumerate(lines.items()):
            axes.plot(
                shown,
                [math.nan if value is None else value for value in values],
                color=_colour(place),
                marker=_MARKERS[place // len(_COLOURS) % len(_MARKERS)],
                markersize=5,
                linewidth=1.5,
                label=_label(name),
            )
        axes.set_xlabel(clean_text(x_label))
        axes.set_ylabel(clean_text(y_label))
        axes.grid(color="#dddddd", linewidth=0.6)

    return _chart(title, draw, 7.2)


def _chart(title: str, draw: Any, width_in: float) -> str:
    require("matplotlib")
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    mpl: Any = matplotlib
    with warnings.catch_warnings(), mpl.rc_context(_STYLE):
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # the reader's fonts draw it
        figure: Any = Figure(figsize=(width_in, 4.0))
        FigureCanvasSVG(figure)
        axes = figure.add_subplot()
        draw(axes)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_title(clean_text(title), loc="left")
        handles, labels = axes.get_legend_handles_labels()
        if handles:
            axes.legend(handles, labels, loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False)
        file = io.StringIO()
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(file, format="svg", bbox_inches="tight", metadata=nothing)
    svg = file.getvalue()
    svg = svg[svg.index("<svg") :].strip()
    # Several charts stand in one page: ids that nothing refers to would be there twice.
    svg = re.sub(r' id="[A-Za-z0-9.]+_\d+"', "", svg)
    return svg.replace("<svg ", f'<svg role="img" aria-label="{escape(clean_text(title))}" ', 1) + "\n"


def _plain_numbers(axis: Any, values: Sequence[float]) -> None:
    """Put plain numbers at a logarithmic axis' ticks, more of them where the values span few powers of ten."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if max(values) / min(values) < 100 else (1.0,)))
    axis.set_major_formatter(FuncFormatter(_number))
    axis.set_minor_formatter(NullFormatter())


def _number(value: float, _: object = None) -> str:
    return f"{value:,.10g}"


def _finite(values: Values, *, above_zero: bool = False) -> list[float | None]:
    return [
        None if value is None or not math.isfinite(value) or (above_zero and value <= 0) else float(value)
        for value in values
    ]


def _same_length(length: int, series: Mapping[str, Sequence[Any]]) -> None:
    for name, values in series.items():
        if len(values) != length:
            raise ValueError(f"The series {name!r} has {len(values)} values where {length} are needed.")


def _colour(place: int) -> str:
    return _COLOURS[place % len(_COLOURS)]


def clean_text(text: str) -> str:
    """Return `text` on one line, without what XML cannot hold."""
    return _UNREADABLE.sub("�", " ".join(text.split()))


def _label(name: str) -> str:
    text = clean_text(name)
    return f" {text}" if text.startswith("_") or not text else text  # matplotlib hides labels that start with `_`
