"""Reading lines of a memory file for the model: nothing outside `MEMORY.md` and `memory/` is ever opened."""

import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from memory_core.errors import InvalidKeyError
from memory_core.ledger.blocks import clean_text, lines_of
from memory_core.ledger.disk import Places, read_text

MAX_LINES = 400
MAX_CHARS = 20_000

_WITH_LINE = re.compile(r"(?P<path>.+\.md)#(?P<line>\d{1,9})", re.DOTALL)


class PathRefusedError(InvalidKeyError):
    """The path is not one of the workspace's memory files."""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Lines `start` to `end`, 1-based and inclusive, of a file with `total` lines. `cut` when the limit ended it."""

    path: str
    start: int
    end: int
    total: int
    lines: tuple[str, ...]
    cut: bool = False


def memory_path(places: Places, given: str) -> Path:
    """Return the file that a model's path argument names.

    Allowed are `MEMORY.md` and Markdown files below `memory/`, in plain relative form. Nothing is decoded: `%2e%2e` is
    a name like any other.

    Raises:
        PathRefusedError: Anything else: absolute, `..`, hidden, other folders, links that lead out of the memory.
    """
    allowed = (
        f"{given!r} is not a memory file. Give MEMORY.md, or a path such as memory/2026-06-02.md from a search hit."
    )
    if not given.isprintable() or "\\" in given or ":" in given or len(given) > 500:
        raise PathRefusedError(allowed)
    parts = PurePosixPath(given.strip().removeprefix("./")).parts
    if not parts or any(part.startswith(".") for part in parts) or not parts[-1].endswith(".md") or parts[0] == "/":
        raise PathRefusedError(allowed)
    if parts != ("MEMORY.md",) and (parts[0] != "memory" or len(parts) < 2):
        raise PathRefusedError(allowed)
    path = places.workspace.joinpath(*parts)
    try:
        real = path.resolve()
        root = places.memory_md.resolve() if len(parts) == 1 else places.folder.resolve()
        inside = real == root if len(parts) == 1 else real.is_relative_to(root)
        if not inside or not real.is_relative_to(places.workspace.resolve()) or real.suffix != ".md":
            raise PathRefusedError(allowed)
    except (OSError, RuntimeError) as error:
        raise PathRefusedError(allowed) from error
    return path


def get_lines(places: Places, given: str, start_line: int | None, end_line: int | None) -> Excerpt:
    """Return lines of a memory file; a path as `path#line` begins there.

    Raises:
        PathRefusedError: As `memory_path`, or the file is not there, or the lines are.
        StorageUnavailableError, CorruptEntryError: It cannot be read.
    """
    anchored = _WITH_LINE.fullmatch(given.strip())
    if anchored:
        given = anchored["path"]
        start_line = int(anchored["line"]) if start_line is None else start_line
    path = memory_path(places, given)
    text = read_text(places, path)
    if text is None:
        raise PathRefusedError(f"There is no file {given!r}. Use memory_search to find the right path.")
    lines = lines_of(clean_text(text).removesuffix("\n"))
    start = 1 if start_line is None else start_line
    end = len(lines) if end_line is None else min(end_line, len(lines))
    if start < 1 or start > len(lines) or end < start:
        asked = f"{start} to {end if end_line is None else end_line}"
        raise PathRefusedError(f"{given} has the lines 1 to {len(lines)}; {asked} is not a part of them.")
    shown: list[str] = []
    room = MAX_CHARS
    for line in lines[start - 1 : min(end, start - 1 + MAX_LINES)]:
        if len(line) > room and shown:
            break
        shown.append(line if len(line) <= room else f"{line[:room]}…")
        room -= len(line)
    last = start + len(shown) - 1
    return Excerpt(places.relative(path), start, last, len(lines), tuple(shown), cut=last < end)
