"""What is printed: memories for people, JSON for programs, and nothing that could steer a terminal."""

import json
import re
import unicodedata
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import click

from memory_core.model import MemoryEntry, SearchHit
from memory_core.serial import to_fields

# Everything that a terminal may obey, and the characters that reverse the direction of text: stored text is
# somebody else's. Tab and newline stay.
_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def plain(text: str) -> str:
    """Return `text` with steering characters made visible, such as `x1b` behind a backslash."""
    return _STEERING.sub(lambda match: match.group().encode("unicode_escape", "surrogatepass").decode(), text)


def one_line(text: str) -> str:
    """Return `text` on one line, without steering characters."""
    return plain(" ".join(text.split()))


def shorten(text: str, chars: int) -> str:
    """Return at most `chars` characters of `text` on one line, with `…` where it was cut."""
    line = one_line(text)
    return line if len(line) <= chars else line[: chars - 1].rstrip() + "…"


def say(text: str = "") -> None:
    """Print a line for people; steering characters are made visible."""
    click.echo(plain(text))


def warn(text: str) -> None:
    """Print a line on stderr."""
    click.echo(plain(text), err=True)


def print_json(data: Any) -> None:
    """Print indented JSON; characters that could steer a terminal are escaped in it."""
    text = json.dumps(data, ensure_ascii=False, indent=2)
    click.echo(re.sub("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]", _json_escape, text))


def _json_escape(match: re.Match[str]) -> str:
    return f"\\u{ord(match.group()):04x}"


def date(moment: datetime | None) -> str:
    """Return a day for people, `never` for None."""
    return "never" if moment is None else f"{moment:%Y-%m-%d}"


def headline(entry: MemoryEntry) -> str:
    """Return the line that stands above a memory: key, scope, importance, date, expiry."""
    ends = f", expires {date(entry.expires_at)}" if entry.expires_at is not None else ""
    return f"{entry.id.key}  [{entry.id.scope}, importance {entry.importance}, {date(entry.updated_at)}{ends}]"


def hit_fields(hit: SearchHit) -> dict[str, Any]:
    """Return a hit as JSON data."""
    return {"score": round(hit.score, 6), "explain": explained(hit.explain), **to_fields(hit.entry)}


def explained(explain: Mapping[str, float]) -> dict[str, float]:
    """Return what each arm gave, rounded."""
    return {name: round(value, 6) for name, value in explain.items()}


def indented(text: str, by: str = "   ") -> str:
    """Return `text` with every line moved to the right."""
    return "\n".join(by + line for line in text.split("\n"))


def padded(text: str, columns: int) -> str:
    """Return `text` with blanks up to that many columns of a terminal, where Han characters take two."""
    width = sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)
    return text + " " * (columns - width)
