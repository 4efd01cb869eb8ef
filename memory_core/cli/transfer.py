"""The commands that move many memories: export, import, migrate, reindex."""

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from errno import EISDIR, ENOENT
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, BinaryIO

import click

from memory_core.cli.output import one_line, print_json, say, warn
from memory_core.cli.progress import progress_bar
from memory_core.cli.state import State, pass_state, shared_options
from memory_core.transfer.report import ImportReport

SHOWN_PROBLEMS = 20


@click.command()
@click.argument("file", type=click.Path(path_type=Path, allow_dash=True))
@shared_options("cwd", "user", "scope", "storer", "searcher", "json")
@pass_state
def export(state: State, file: Path) -> None:
    """Write the live memories to FILE as JSON Lines.

    Those of every user; FILE may be -. --user and --scope narrow it down. An existing file is replaced when the new
    one is complete.

    \b
    memory-core export memories.jsonl
    memory-core export - --scope user | gzip > user.jsonl.gz
    """
    from memory_core.transfer import export_jsonl

    storer = state.open().storer
    with _sink(file) as sink, progress_bar("Exporting") as progress:
        report = export_jsonl(storer, sink, user_id=state.user, scope=state.scope, progress=progress)
    if str(file) == "-":
        return
    if state.as_json:
        print_json({"file": str(file), **report.to_json()})
    else:
        say(f"Exported {report.written} memories to {file}.")


@contextmanager
def _sink(file: Path) -> Generator[BinaryIO]:
    if str(file) == "-":
        yield sys.stdout.buffer
        return
    if file.exists() and not file.is_file() and not file.is_dir():
        with file.open("wb") as device:  # a pipe or device is written to, never replaced by a file
            yield device
        return
    if file.is_dir() or not file.name:
        raise IsADirectoryError(EISDIR, "This is a directory, not a file", str(file))
    if not file.parent.is_dir():
        raise FileNotFoundError(ENOENT, "There is no such folder", str(file.parent))
    with NamedTemporaryFile(dir=file.parent, prefix=f".{file.name[:100]}.", suffix=".tmp", delete=False) as temporary:
        try:
            yield temporary  # type: ignore[misc] # pyright: ignore[reportReturnType] - a wrapper that acts as the file
            temporary.flush()
            os.fsync(temporary.fileno())
            os.replace(temporary.name, file)
        except BaseException:
            Path(temporary.name).unlink(missing_ok=True)
            raise


@click.command("import")
@click.argument("source", type=click.Path(path_type=Path, allow_dash=True))
@click.option(
    "--from", "kind", type=click.Choice(["jsonl", "solon", "mem0"]), default="jsonl", show_default=True,
    help="What SOURCE is: our export, a directory of the Java original, or mem0's get_all() result as JSON.",
)  # fmt: skip
@click.option(
    "--on-conflict", "conflict", type=click.Choice(["newer", "replace", "skip"]), default="newer", show_default=True,
    help="What stays when a memory is there already: the newer one, the imported one, or the present one.",
)  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Only say what would happen.")
@shared_options("cwd", "user", "scope", "storer", "searcher", "json")
@pass_state
def import_memories(state: State, source: Path, kind: str, conflict: Any, dry_run: bool) -> int | None:
    """Store the memories of an export, or of another system.

    They keep their own times. What cannot be read is reported and the others go on. --user and --scope put
    everything there, whatever SOURCE says. Exit code 1 when something was skipped.

    \b
    memory-core import memories.jsonl --dry-run
    memory-core import ~/.demo/memory --from solon --scope user
    memory-core import mem0.json --from mem0
    """
    from memory_core.transfer import import_jsonl, import_mem0, import_solon

    options: dict[str, Any] = {"conflict": conflict, "dry_run": dry_run, "scope": state.scope, "user_id": state.user}
    solution = state.open()
    with progress_bar("Importing") as progress:
        if kind == "solon":
            report = import_solon(solution, source, progress=progress, **options)
        elif kind == "mem0":
            report = import_mem0(solution, source, progress=progress, **options)
        elif str(source) == "-":
            report = import_jsonl(solution, sys.stdin.buffer, progress=progress, **options)
        else:
            with source.open("rb") as lines:
                report = import_jsonl(solution, lines, progress=progress, expected=_lines(source), **options)
    _tell(state, report)
    return 1 if report.skipped else None


def _lines(path: Path) -> int | None:
    """Count the lines that hold something, for the progress bar; None for a pipe, which can be read only once."""
    if not path.is_file():
        return None
    with path.open("rb") as lines:
        return sum(1 for line in lines if line.strip())


def _tell(state: State, report: ImportReport) -> None:
    if state.as_json:
        print_json(report.to_json())
        return
    would = "Would store" if report.dry_run else "Stored"
    others = {
        "unchanged": report.unchanged,
        "kept as they were": report.kept,
        "expired": report.expired,
        "skipped": report.skipped,
    }
    rest = "".join(f", {count} {what}" for what, count in others.items() if count)
    say(f"{would} {report.stored} of {report.total} memories{rest}.")
    for problem in report.problems[:SHOWN_PROBLEMS]:
        warn(f"skipped {one_line(f'{problem.where}: {problem.reason}')}")
    if report.skipped > SHOWN_PROBLEMS:
        warn(f"… and {report.skipped - SHOWN_PROBLEMS} more; --json lists them.")


@click.command()
@click.option("--from", "source", required=True, metavar="STORER", help="The store that holds the memories.")
@click.option("--to", "target", required=True, metavar="STORER", help="The store that shall hold them.")
@click.option("--dry-run", is_flag=True, help="Only say what would be copied.")
@click.option("--replace-newer", is_flag=True, help="Overwrite memories that are newer in the target.")
@shared_options("cwd", "json")
@pass_state
def migrate(state: State, source: str, target: str, dry_run: bool, replace_newer: bool) -> int | None:
    """Copy every memory from one store to another and verify it.

    Those of every user and scope. The source stays as it is. Interrupted? Run it again: what is equal already is
    not copied twice. Both stores take their options from the configuration, in [storers.NAME].

    \b
    memory-core migrate --from markdown --to kv --dry-run
    memory-core migrate --from markdown --to redis
    """
    from memory_core.errors import ConfigError
    from memory_core.transfer import migrate as move

    if source == target:
        raise ConfigError(f"Both stores are {source!r}: name two different ones with --from and --to.")
    # The index of neither store is needed, so the lightest searcher stands in.
    old = state.open(storer=source, searcher="fulltext").storer
    new = state.open(storer=target, searcher="fulltext").storer
    with progress_bar("Migrating") as progress:
        report = move(old, new, replace_newer=replace_newer, dry_run=dry_run, progress=progress)
    if state.as_json:
        print_json({"from": source, "to": target, **report.to_json()})
    elif dry_run:
        say(f"Would copy {report.copied} of {report.source} memories; {report.unchanged} are there already.")
    else:
        say(f"Copied {report.copied} memories from {source} to {target}; {report.unchanged} were there already.")
        say(f"Verified {report.verified} of {report.source} by content hash; {target} now holds {report.target}.")
        if report.complete:
            say(f"To use it, set storer = {target!r} in your memory.toml. Nothing was deleted from {source}.")
    if report.kept:
        warn(f"{report.kept} memories are newer in {target} and stayed as they are.")
    if report.mismatched:
        names = ", ".join(one_line(id.key) for id in report.mismatched[:SHOWN_PROBLEMS])
        warn(f"memory-core: {len(report.mismatched)} memories differ or are missing in {target}; run it again: {names}")
    return 1 if report.mismatched else None


@click.command()
@shared_options("cwd", "user", "storer", "searcher", "json")
@pass_state
def reindex(state: State) -> None:
    """Build the index anew from the store.

    For every user, or for the one that --user names.

    \b
    memory-core reindex
    memory-core reindex --searcher lancedb --user alice
    """
    from memory_core.feed import after

    solution = state.open()
    users = [state.user] if state.user is not None else solution.storer.users()
    if state.user is None:
        solution.searcher.clear()
    count = 0
    with progress_bar("Indexing") as progress:
        for user in users:
            count += solution.reindex(user, after(count, progress))
    if state.as_json:
        print_json({"indexed": count, "users": len(users)})
    else:
        say(f"Indexed {count} memories of {len(users)} {'user' if len(users) == 1 else 'users'}.")
