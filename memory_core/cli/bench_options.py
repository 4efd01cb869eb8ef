"""What the benchmarks of speed share on the command line: lists of names and of sizes, and a folder to work in."""

import shutil
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click


class NamesType(click.ParamType[tuple[str, ...]]):
    """Names with commas between them, each once."""

    name = "names"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        """Return the names in their order."""
        if isinstance(value, tuple):
            return tuple(map(str, value))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        names = tuple(dict.fromkeys(part.strip() for part in str(value).split(",") if part.strip()))
        if not names:
            self.fail("give at least one name", param, ctx)
        return names


class SizesType(click.ParamType[tuple[int, ...]]):
    """Whole numbers above 0 with commas between them, ascending."""

    name = "sizes"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """Return the sizes, smallest first."""
        if isinstance(value, tuple):
            return tuple(map(int, value))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        try:
            sizes = tuple(sorted({int(part) for part in str(value).split(",") if part.strip()}))
        except ValueError:
            self.fail(f"{value!r} is not a list of whole numbers such as 1000,10000", param, ctx)
        if not sizes or sizes[0] < 1:
            self.fail("give sizes of at least 1", param, ctx)
        return sizes


NAMES = NamesType()
SIZES = SizesType()


@contextmanager
def bench_folder(parent: Path | None) -> Generator[tuple[Path, Callable[[], None]]]:
    """Give a new folder in `parent`, by default the current one, and a function that keeps it from being deleted.

    Not the system's folder for temporary files: that is often memory, where waiting for the disk costs nothing.
    """
    work = Path(tempfile.mkdtemp(prefix=".bench-", dir=parent or Path.cwd())).absolute()
    kept = False

    def keep() -> None:
        nonlocal kept
        kept = True

    try:
        yield work, keep
    finally:
        if not kept:
            shutil.rmtree(work, ignore_errors=True)
