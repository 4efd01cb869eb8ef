"""The structure of the ledger's Markdown: entries, units, flush blocks. Lines end at newlines only, never at U+2028."""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from hashlib import blake2b

_BULLET = re.compile(r"[ \t]*(?:[-*+•]|\d{1,3}[.)])[ \t]+")
_HEADING = re.compile(r"#{1,6}(?:[ \t]|$)")
_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})")
_STAMP = re.compile(r"##? (?:\d{4}-\d{2}-\d{2}|\d{2}:\d{2}:\d{2} [+-]\d{2}:\d{2}.*)$")
_LEDGER_NAME = re.compile(r"(\d{4}-\d{2}-\d{2})\.md")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Entry:
    """A whole entry of a Markdown file: a heading, a top-level bullet with all below it, or a paragraph.

    `line` and `end` are 1-based and inclusive.
    """

    line: int
    end: int
    text: str
    heading: bool


@dataclass(frozen=True, slots=True)
class Unit:
    """What the search ranks: one bullet with its continuation lines, or one line of a paragraph."""

    line: int
    text: str


def lines_of(text: str) -> list[str]:
    """Return the lines without their ends; CRLF counts as one end."""
    return [line.removesuffix("\r") for line in text.split("\n")]


def clean_text(text: str) -> str:
    """Return `text` with plain newlines and without control characters and lone surrogates, which no file may hold."""
    return _CONTROL.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


def entries(text: str) -> list[Entry]:
    """Split Markdown into whole entries, in order. Blank lines between them belong to none."""
    found: list[Entry] = []
    lines = lines_of(text)
    start, end, heading, fence = 0, 0, False, ""
    after_blank, inside = True, False

    def close() -> None:
        nonlocal start
        if start:
            found.append(Entry(start, end, "\n".join(lines[start - 1 : end]), heading))
        start = 0

    for number, line in enumerate(lines, 1):
        mark = _FENCE.match(line)
        if fence and inside and line.strip() and line[0] not in " \t":
            fence = ""  # a fence inside a bullet ends with the bullet at the latest
        if fence:
            end = number
            if mark and mark[1].startswith(fence) and not line[mark.end() :].strip():
                fence = ""
            continue
        if not line.strip():
            after_blank = True
            continue
        indented = line[0] in " \t"
        is_heading = _HEADING.match(line) is not None
        is_new = (
            is_heading or heading or not start or (not indented and (after_blank or _BULLET.match(line) is not None))
        )
        if is_new:
            close()
            start, heading = number, is_heading
        end, after_blank = number, False
        if mark:
            fence, inside = mark[1], indented
    close()
    return found


def units(text: str) -> list[Unit]:
    """Return what the search ranks, in order. The headings that carry only our dates and times are left out."""
    found: list[Unit] = []
    for entry in entries(text):
        if entry.heading:
            if not _STAMP.match(entry.text):
                found.append(Unit(entry.line, entry.text.lstrip("# \t")))
            continue
        in_bullet = False
        for number, line in enumerate(entry.text.split("\n"), entry.line):
            bullet = _BULLET.match(line)
            body = line[bullet.end() :].strip() if bullet else line.strip()
            if not body:
                continue
            if bullet or not in_bullet:
                found.append(Unit(number, body))
                in_bullet = bullet is not None
            else:
                found[-1] = Unit(found[-1].line, f"{found[-1].text} {body}")
    return [unit for unit in found if unit.text.strip("-*+_ ")]  # rules and empty bullets say nothing


def bullet_text(line: str) -> str | None:
    """Return what stands behind a bullet or number, or None when the line has none."""
    mark = _BULLET.match(line)
    return line[mark.end() :].strip() if mark else None


def as_bullet(content: str) -> str:
    """Return `content` as one bullet: further lines are indented, so that no line of it can become structure."""
    first, *rest = [line.rstrip() for line in clean_text(content).strip().split("\n")]
    return "\n".join([f"- {first}", *(f"  {line}" if line else "" for line in rest)])


def normalised(text: str) -> str:
    """Return `text` as it is compared for sameness: case, width, spacing and final punctuation do not count."""
    plain = " ".join(unicodedata.normalize("NFKC", text).casefold().split())
    return plain.rstrip(".。!！;； ")


def block_hash(facts: Iterable[str]) -> str:
    """Return the hash that identifies a block of facts."""
    return blake2b("\n".join(map(normalised, facts)).encode(errors="replace"), digest_size=16).hexdigest()


def block_hashes(text: str) -> set[str]:
    """Return the hashes of all blocks of a ledger file; a block ends at the next heading."""
    blocks: list[list[str]] = [[]]
    for entry in entries(text):
        if entry.heading:
            blocks.append([])
        else:
            blocks[-1].extend(unit.text for unit in units(entry.text))
    return {block_hash(block) for block in blocks if block}


def format_block(facts: Sequence[str], moment: datetime, label: str = "") -> str:
    """Return a block as it is appended: a heading with the local time, a blank line, the bullets."""
    offset = moment.strftime("%z")
    heading = f"## {moment:%H:%M:%S} {offset[:3]}:{offset[3:5]}{f' · {label}' if label else ''}"
    return f"{heading}\n\n" + "\n".join(map(as_bullet, facts)) + "\n"


def ledger_date(name: str) -> date | None:
    """Return the day of a ledger's file name (`2026-06-02.md`), or None when it is another file."""
    match = _LEDGER_NAME.fullmatch(name)
    try:
        return date.fromisoformat(match[1]) if match else None
    except ValueError:
        return None
