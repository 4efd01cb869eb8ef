import math
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_core.errors import MissingExtraError
from memory_core.evaluation import machine
from memory_core.evaluation.machine import PACKAGES, describe_machine
from memory_core.evaluation.page import Chart, Section, Table, html_page
from memory_core.evaluation.plots import bar_chart, clean_text, line_chart

NASTY = [
    "中文 猫",
    "<script>alert(1)</script>",
    "a & b",
    "$x_1^{2}$",
    "_hidden",
    "\x00\x1b[31m",
    "\ud800",
    "",
    "x" * 200,
    '"',
]
SVG = "{http://www.w3.org/2000/svg}"


def texts(svg: str) -> str:
    return "\n".join("".join(node.itertext()) for node in ElementTree.fromstring(svg).iter(f"{SVG}text"))


def test_bars_show_what_they_were_given() -> None:
    svg = bar_chart("nDCG@10", ["locomo", "cmrc"], {"fulltext": [0.4, None], "猫": [0.3, 0.9]}, "0..1")
    for text in ("nDCG@10", "locomo", "cmrc", "fulltext", "猫", "0..1"):
        assert text in texts(svg)
    assert svg.startswith("<svg ")


BLUE, BLACK = "#0072b2", "#222222"
Ends = dict[str, list[tuple[float, float] | None]]


def drawn(svg: str, colour: str) -> int:
    """Count the shapes of a colour, without the legend's."""
    return sum(colour in (node.get("style") or "") for node in ElementTree.fromstring(svg).iter()) - (colour == BLUE)


def test_each_value_has_a_bar_and_each_interval_a_line() -> None:
    def chart(values: list[float | None], errors: Ends | None = None) -> tuple[int, int]:
        svg = bar_chart("t", ["a", "b"], {"x": values}, "u", errors)
        return drawn(svg, BLUE), drawn(svg, BLACK)

    assert chart([0.4, 0.5]) == (2, 0)
    assert chart([0.4, None]) == chart([0.4, math.nan]) == chart([math.inf, 0.4]) == (1, 0)
    assert chart([0.4, 0.5], {"x": [(0.3, 0.5), (0.4, 0.6)]}) == (2, 2)
    assert chart([0.4, None], {"x": [None, (0.3, 0.5)]}) == (1, 0), "an interval without a bar is a gap"
    assert chart([0.4, 0.5], {"x": [(math.nan, 0.5), (0.4, 0.6)]}) == (2, 1)


def test_lines_leave_gaps() -> None:
    def markers(values: list[float | None], *, log: bool = True) -> int:
        svg = line_chart("t", [1_000, 10_000, 100_000], {"x": values}, "entries", "ms", log_x=log, log_y=log)
        assert "entries" in texts(svg)
        uses = ElementTree.fromstring(svg).iter(f"{SVG}use")
        return sum(BLUE in (node.get("style") or "") for node in uses) - 1

    assert markers([1, 2, 3]) == 3
    assert markers([1, None, 3]) == 2
    assert markers([1, 0, -3]) == 1, "a logarithm has no place for them"
    assert markers([1, 0, -3], log=False) == 3


def test_a_logarithmic_axis_has_plain_numbers() -> None:
    wide = texts(line_chart("t", [1_000, 10_000, 100_000], {"x": [0.01, 1, 300]}, "entries", "ms")).splitlines()
    assert {"1,000", "10,000", "100,000", "0.01", "1", "100"} <= set(wide)
    narrow = texts(line_chart("t", [1_000, 2_000], {"x": [3, 9]}, "entries", "ms")).splitlines()
    assert {"1,000", "2,000", "5"} <= set(narrow)
    assert not any("$" in text for text in wide + narrow)


def test_the_same_numbers_give_the_same_bytes() -> None:
    def draw() -> str:
        bars = bar_chart("t", ["a"], {"x": [0.1], "y": [0.2]}, "u", {"x": [(0.0, 0.2)]})
        return bars + line_chart("t", [1, 10], {"x": [1, 2], "y": [2, None]}, "a", "b")

    assert draw() == draw()
    assert "<dc:date>" not in draw()


@pytest.mark.parametrize("text", NASTY)
def test_any_text_is_text(text: str) -> None:
    for svg in (
        bar_chart(text, [text], {text: [0.5]}, text),
        line_chart(text, [1.0], {text: [0.5]}, text, text),
    ):
        ElementTree.fromstring(svg)
        svg.encode()
        assert "<script" not in svg
        assert clean_text(text) in texts(svg)


VALUES = st.none() | st.floats() | st.floats(0, 1)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(st.floats(), VALUES, VALUES), max_size=4))
def test_any_numbers_can_be_drawn(rows: list[tuple[float, float | None, float | None]]) -> None:
    columns: dict[str, list[float | None]] = {"x": [row[1] for row in rows], "y": [row[2] for row in rows]}
    if all(value is None or not math.isfinite(value) or abs(value) < 1e100 for row in rows for value in row):
        ElementTree.fromstring(bar_chart("t", ["g"] * len(rows), columns, "u"))
        ElementTree.fromstring(line_chart("t", [row[0] for row in rows], columns, "a", "b"))


def test_nothing_is_a_chart_too() -> None:
    assert bar_chart("t", [], {}, "u").startswith("<svg ")
    assert line_chart("t", [], {}, "a", "b").startswith("<svg ")
    assert line_chart("t", [0], {"x": [None]}, "a", "b").startswith("<svg ")


def test_a_series_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="'x' has 1 values where 2 are needed"):
        bar_chart("t", ["a", "b"], {"x": [0.1]}, "u")
    with pytest.raises(ValueError, match="'x' has 1 values"):
        bar_chart("t", ["a", "b"], {"x": [0.1, 0.2]}, "u", {"x": [None]})
    with pytest.raises(ValueError, match="'y' has 2 values"):
        line_chart("t", [1], {"y": [1, 2]}, "a", "b")


def test_no_global_state_of_matplotlib_is_touched() -> None:
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    bar_chart("t", ["a"], {"x": [0.1]}, "u")
    assert dict(mpl.rcParams) == before
    script = (
        "import sys; from memory_core.evaluation.plots import line_chart as draw; draw('t', [1], {'x': [1]}, '', '')"
    )
    check = "assert 'matplotlib' in sys.modules and 'matplotlib.pyplot' not in sys.modules"
    subprocess.run([sys.executable, "-W", "error", "-c", f"{script}; {check}"], check=True)


def test_without_matplotlib_there_is_an_instruction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"matplotlib.*memory-talent\[bench\]"):
        bar_chart("t", [], {}, "u")


def test_a_page_needs_nothing_else() -> None:
    svg = bar_chart("t", ["a"], {"x": [0.1]}, "u")
    page = html_page("Title", [Section("One", ["Text.", Table(["a", "b"], [["1", "2"]], "Caption"), Chart(svg)])])
    assert page.startswith("<!DOCTYPE html>")
    assert page.endswith("</html>\n")
    for part in (
        "<h1>Title</h1>",
        "<h2>One</h2>",
        "<p>Text.</p>",
        "<td>2</td>",
        "<caption>Caption</caption>",
        svg.strip(),
    ):
        assert part in page
    for outside in ("<script", "src=", "@import", "url(http", "<link", 'href="http'):
        assert outside not in page


@pytest.mark.parametrize("text", NASTY)
def test_nothing_in_a_page_becomes_markup(text: str) -> None:
    page = html_page(text, [Section(text, [text, Table([text], [[text]], text)])])
    assert "<script" not in page
    page.encode()
    plain = html_page("", [Section("", ["", Table([""], [[""]], "x")])])
    assert page.count("<") in (plain.count("<"), plain.count("<") - 2), "the caption is left out where there is none"


def test_the_machine_is_described_without_its_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    import getpass
    import json
    import platform

    found = describe_machine()
    assert list(found) == ["processor", "cores", "memory_gib", "system", "python", "sqlite", "packages", "date"]
    assert found["cores"] >= 1
    assert found["packages"]["numpy"]
    assert set(found["packages"]) <= set(PACKAGES)
    for earlier, later in pairwise([*found["packages"]]):
        assert PACKAGES.index(earlier) < PACKAGES.index(later)
    text = json.dumps(found)
    assert str(Path.home()) not in text
    assert getpass.getuser() not in text.split('"')
    assert platform.node() not in text.split('"')

    def refuse() -> dict[str, str]:
        raise OSError

    monkeypatch.setattr(machine, "CPUINFO", Path("/absent"))
    monkeypatch.setattr(platform, "freedesktop_os_release", refuse)
    assert describe_machine()["processor"]
    assert platform.system() in describe_machine()["system"]
