"""Puts text, tables and charts into one HTML file that needs nothing else: no script, no network."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from memory_core.evaluation.plots import clean_text

_CSS = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.25rem; margin-top: 2rem; }
table { border-collapse: collapse; margin: 1rem 0; display: block; overflow-x: auto; }
caption { text-align: left; font-weight: 600; padding: .3rem 0; }
th, td { padding: .25rem .7rem; border-bottom: 1px solid #8884; text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
figure { margin: 1rem 0; background: #fff; } figure svg { max-width: 100%; height: auto; }
"""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells under a heading; what a cell holds is shown as text."""

    heading: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""


@dataclass(frozen=True, slots=True)
class Chart:
    """An `<svg>` element as `plots` returns it: the only part of a page that is taken over as it is."""

    svg: str


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and what stands below it, in order: paragraphs of plain text, tables, charts."""

    title: str
    parts: Sequence[str | Table | Chart]


def html_page(title: str, sections: Sequence[Section]) -> str:
    """Return a whole HTML document; every text in it is escaped, so that data cannot become markup."""
    body = "\n".join(_section(section) for section in sections)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_text(title)}</title>\n<style>{_CSS}</style>\n</head>\n<body>\n<h1>{_text(title)}</h1>\n"
        f"{body}\n</body>\n</html>\n"
    )


def _section(section: Section) -> str:
    return "\n".join(["<section>", f"<h2>{_text(section.title)}</h2>", *map(_part, section.parts), "</section>"])


def _part(part: str | Table | Chart) -> str:
    if isinstance(part, Chart):
        return f"<figure>{part.svg.strip()}</figure>"
    if isinstance(part, Table):
        caption = f"<caption>{_text(part.caption)}</caption>" if part.caption else ""
        head = "".join(f'<th scope="col">{_text(cell)}</th>' for cell in part.heading)
        rows = "\n".join("<tr>" + "".join(f"<td>{_text(cell)}</td>" for cell in row) + "</tr>" for row in part.rows)
        return f"<table>{caption}<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody></table>"
    return f"<p>{_text(part)}</p>"


def _text(text: str) -> str:
    return escape(clean_text(text))
