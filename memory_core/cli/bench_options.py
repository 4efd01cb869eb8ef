"""What the benchmarks over stores and searchers share on the command line: options, a folder, and how they report."""

import json
import shutil
import tempfile
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import click

from memory_core.cli.output import print_json, say, warn
from memory_core.cli.state import State

Command: TypeAlias = Callable[..., Any]


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
FILE = click.Path(path_type=Path, dir_okay=False)

_PAIRS: tuple[Callable[[Command], Command], ...] = (
    click.option("--stores", type=NAMES, default="markdown,kv,redis", show_default=True, help="Stores, with commas."),
    click.option(
        "--searchers",
        type=NAMES,
        default="fulltext,whoosh,numpy,lancedb,hybrid",
        show_default=True,
        help="Searchers, with commas.",
    ),
    click.option(
        "--embedder", metavar="NAME", default="static", show_default=True, help="For searchers that need one."
    ),
    click.option("--redis-url", metavar="URL", help="Use this server; by default one is started."),
    click.option("--folder", type=click.Path(path_type=Path, file_okay=False), help="Where to work; by default here."),
    click.option("--json", "json_file", type=FILE, help="Write the report there as JSON."),
)


def pair_options(command: Command) -> Command:
    """Give a command the options of every benchmark that goes through stores and searchers."""
    for option in reversed(_PAIRS):
        command = option(command)
    return command


def write_report(report: dict[str, Any], file: Path) -> None:
    """Write a report as JSON."""
    file.write_text(json.dumps(report, ensure_ascii=False, indent=1) + "\n", "utf-8")


def tell(
    state: State, report: dict[str, Any], json_file: Path | None, lines: Sequence[str], load: float | None
) -> None:
    """Write a report where it was asked for, print it or its lines, and say when the machine was busy."""
    from memory_core.evaluation.bench_stores import busy

    if json_file is not None:
        write_report(report, json_file)
    if state.as_json:
        print_json(report)
    else:
        for line in lines:
            say(line)
    if (sentence := busy(load, report["machine"]["cores"])) is not None:
        warn(sentence)


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
