"""The files of evicted tool results: written once, read by pages, pruned by age. The only I/O of the context.

Everything lies under one root (`<root>/large_tool_results/<agent>/<id>-<hash>.txt`). What a model asks to read is
untrusted: only plain paths below that directory are opened, and no symbolic link on the way is followed.
"""

import contextlib
import os
import stat
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile

from memory_core.context.config import ToolResultEvictionConfig
from memory_core.context.evict import EvictedResult
from memory_core.errors import BudgetError, InvalidKeyError, StorageUnavailableError

PAGE_LINES = 200
PAGE_BYTES = 32_768
MAX_PAGE_BYTES = 262_144
_DAY_S = 86_400


@dataclass(frozen=True, slots=True)
class Page:
    """A piece of an evicted result.

    `text` are the lines from `start_line` to `end_line`, both 1-based and inclusive; of the first line only what
    follows its first `offset` characters. `next_line` and `next_offset` say where to go on, None and 0 at the end.
    `total_lines` counts the whole file.
    """

    text: str
    start_line: int
    end_line: int
    total_lines: int
    next_line: int | None = None
    next_offset: int = 0


class LargeResults:
    """Evicted results under `root`. Safe to use from several threads and processes."""

    def __init__(self, root: Path | str, config: ToolResultEvictionConfig | None = None) -> None:
        self.root = Path(root)
        self.config = config or ToolResultEvictionConfig()

    def write(self, files: Iterable[EvictedResult]) -> None:
        """Write `files` durably; one that is there already, whole, stays as it is.

        Raises:
            StorageUnavailableError: One could not be written; go on with the messages as they were.
        """
        for file in files:
            place = self._place(file.path)
            data = file.content.encode("utf-8", "surrogatepass")
            try:
                if place.is_file() and place.stat().st_size == len(data):
                    os.utime(place)  # in use again: its age counts from now
                    continue
                if self._link_on_the_way(place):
                    raise OSError("a symbolic link lies on the way")
                place.parent.mkdir(parents=True, exist_ok=True)
                self._replace(place, data)
            except OSError as error:
                raise StorageUnavailableError(
                    f"The tool result could not be written to {file.path}: {error.strerror or error}. "
                    "It stays in the context; free or unlock that place."
                ) from error

    @staticmethod
    def _replace(place: Path, data: bytes) -> None:
        with NamedTemporaryFile(dir=place.parent, prefix=".", suffix=".tmp", delete=False) as temporary:
            try:
                temporary.write(data)
                temporary.flush()
                os.fsync(temporary.fileno())
                Path(temporary.name).replace(place)
            except BaseException:
                with contextlib.suppress(OSError):
                    Path(temporary.name).unlink()
                raise

    def read(
        self,
        path: str,
        start_line: int = 1,
        end_line: int | None = None,
        *,
        offset: int = 0,
        max_bytes: int = PAGE_BYTES,
    ) -> Page | None:
        """Return a page of an evicted result, or None when there is no such file.

        Lines end at a line feed alone. Without `end_line` the page has up to 200 lines; in any case at most `max_bytes`
        bytes of UTF-8, never half a character, at least one character. A line that is longer is continued by `offset`.

        Raises:
            InvalidKeyError: The path is not a plain relative path inside the directory of evicted results.
            BudgetError: A number is out of its range.
            StorageUnavailableError: The file could not be read.
        """
        if start_line < 1 or offset < 0 or not 1 <= max_bytes <= MAX_PAGE_BYTES:
            raise BudgetError(f"start_line counts from 1, offset from 0, max_bytes from 1 to {MAX_PAGE_BYTES}.")
        if end_line is not None and end_line < start_line:
            raise BudgetError(f"end_line is {end_line}, before start_line {start_line}.")
        content = self._content(path)
        if content is None:
            return None
        lines = content.split("\n")
        if lines and not lines[-1]:
            lines.pop()
        last = min(end_line or start_line + PAGE_LINES - 1, len(lines))
        return _page(lines, start_line, last, offset, max_bytes)

    def prune(self, now_s: float | None = None) -> int:
        """Delete files that are older than `retention_days`, and directories left empty; return how many files.

        Raises:
            StorageUnavailableError: The directory could not be read or written.
        """
        before = (time.time() if now_s is None else now_s) - self.config.retention_days * _DAY_S
        base = self.root / self.config.directory
        removed = 0
        try:
            for folder in (
                [place for place in base.iterdir() if not place.is_symlink() and place.is_dir()]
                if base.is_dir()
                else []
            ):
                for place in folder.iterdir():
                    found = place.lstat()
                    if stat.S_ISREG(found.st_mode) and found.st_mtime < before:
                        place.unlink(missing_ok=True)
                        removed += 1
                with contextlib.suppress(OSError):
                    folder.rmdir()  # only when it is empty
        except OSError as error:
            raise StorageUnavailableError(
                f"Old tool results in {base} could not be removed: {error.strerror}."
            ) from error
        return removed

    def _content(self, path: str) -> str | None:
        place = self._place(path)
        link = self._link_on_the_way(place)
        if link is not None:
            raise InvalidKeyError(f"{link.name!r} in the path is a symbolic link, which is not followed.")
        try:
            descriptor = os.open(place, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
            with open(descriptor, "rb") as file:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    return None
                return file.read().decode("utf-8", "replace")
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None
        except OSError as error:
            raise StorageUnavailableError(f"{path} could not be read: {error.strerror or error}.") from error

    def _place(self, path: str) -> Path:
        parts = path.split("/")
        inside = len(parts) > 1 and "/".join(parts[: len(self.config.directory.split("/"))]) == self.config.directory
        plain = all(part and part.strip(". ") and part == part.strip() for part in parts)
        if not inside or not plain or any(char in path for char in "\\:%") or not path.isprintable():
            raise InvalidKeyError(
                f"{path[:200]!r} is not the path of an evicted result; give it as the notice in the result has it, "
                f"starting with {self.config.directory}/."
            )
        return self.root.joinpath(*parts)

    def _link_on_the_way(self, place: Path) -> Path | None:
        """Return the first symbolic link between the root and `place`: it may lead anywhere."""
        for step in [place, *place.parents]:
            if step == self.root:
                return None
            if step.is_symlink():
                return step
        return None


def _page(lines: list[str], start: int, last: int, offset: int, max_bytes: int) -> Page:
    taken: list[str] = []
    room = max_bytes
    for number in range(start, last + 1):
        line = lines[number - 1]
        rest = line[offset:] if number == start else line
        size = len(rest.encode("utf-8", "replace")) + 1
        if size <= room:
            taken.append(rest)
            room -= size
            continue
        if taken:
            return Page("\n".join(taken), start, number - 1, len(lines), number)
        shown = rest.encode("utf-8", "replace")[:max_bytes].decode("utf-8", "ignore") or rest[:1]
        following = offset + len(shown)
        if following >= len(line):
            return Page(shown, start, number, len(lines), number + 1 if number < len(lines) else None)
        return Page(shown, start, number, len(lines), number, following)
    end = max(start - 1, last)
    return Page("\n".join(taken), start, end, len(lines), end + 1 if start <= end < len(lines) else None)


def read_tool_text(
    results: LargeResults, path: str, start_line: int = 1, end_line: int | None = None, offset: int = 0
) -> str:
    """Return a page as text for the model: what it is, the lines, how to go on. Never raises for what a model asks."""
    try:
        page = results.read(path, start_line, end_line, offset=offset)
    except (InvalidKeyError, BudgetError, StorageUnavailableError) as error:
        return f"Nothing was read: {error}"
    if page is None:
        return (
            f"Nothing was read: there is no {path}. It may have been removed because of its age; call the tool again."
        )
    if page.end_line < page.start_line:
        return f"{path} has {page.total_lines} lines; there is no line {page.start_line}."
    head = f"{path}, lines {page.start_line}-{page.end_line} of {page.total_lines}"
    head += f", from character {offset} of line {page.start_line}" if offset else ""
    if page.next_line is None:
        return f"{head}:\n{page.text}"
    go_on = f"start_line={page.next_line}" + (f", offset={page.next_offset}" if page.next_offset else "")
    return f"{head}:\n{page.text}\n[continues: {go_on}]"
