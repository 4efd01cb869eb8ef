"""`ledger`: the daily files and `MEMORY.md`: look, search, flush a conversation, consolidate, take it back."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from memory_core.cli.output import plain, print_json, say, warn
from memory_core.cli.state import TEXT, State, pass_state, read_stdin, shared_options

if TYPE_CHECKING:
    from memory_core.contracts import Problem
    from memory_core.ledger import Ledger
    from memory_core.sessions.messages import Message

F = TypeVar("F", bound=Callable[..., Any])


def _model_options(command: F) -> F:
    command = click.option("--base-url", metavar="URL", help="An OpenAI-compatible endpoint, up to and including /v1.")(
        command
    )
    return click.option(
        "--model", metavar="NAME", help="provider:model, or with --base-url the endpoint's name for it."
    )(command)


@click.group()
def ledger() -> None:
    """Look after the daily ledger and MEMORY.md.

    \b
    memory-core ledger search "which database?"
    memory-core ledger flush chat.jsonl --model openai:gpt-4.1-mini
    memory-core ledger consolidate
    memory-core ledger diff --undo

    flush, consolidate and maintain ask a model: --model, or `model` in the [ledger] table of your own memory.toml.
    """


@ledger.command()
@shared_options("cwd", "json")
@pass_state
def show(state: State) -> int | None:
    """Print MEMORY.md."""
    with _opened(state) as opened:
        return _print_file(state, opened, opened.places.memory_md)


@ledger.command()
@shared_options("cwd", "json")
@pass_state
def today(state: State) -> int | None:
    """Print today's ledger."""
    with _opened(state) as opened:
        return _print_file(state, opened, opened.places.daily(opened.now().date()))


@ledger.command()
@click.argument("text", type=TEXT)
@click.option(
    "-k", "--top-k", type=click.IntRange(1, 30), default=30, show_default=True, help="At most this many lines."
)
@shared_options("cwd", "json")
@pass_state
def search(state: State, text: str, top_k: int) -> int | None:
    """Find lines of MEMORY.md and memory/*.md, best first; exit code 1 when there are none."""
    with _opened(state) as opened:
        hits = opened.search(text, top_k)
    if state.as_json:
        print_json(
            [{"path": hit.path, "line": hit.line, "text": hit.text, "score": round(hit.score, 6)} for hit in hits]
        )
    for hit in [] if state.as_json else hits:
        say(str(hit))
    if not hits:
        warn("Nothing found.")
    return None if hits else 1


@ledger.command()
@click.argument("file", type=click.Path(allow_dash=True))
@click.option("--isolation-key", default="global", show_default=True, help="Whose throttle it is.")
@click.option("--if-due", is_flag=True, help="Obey flush_trigger as at the end of a call.")
@_model_options
@shared_options("cwd", "json")
@pass_state
def flush(state: State, /, file: str, isolation_key: str, *, if_due: bool, **endpoint: str | None) -> int | None:
    """Extract the lasting facts of a conversation into today's ledger.

    FILE is a transcript (*.log.jsonl), a JSON array or JSON lines of chat messages ({"role": …, "content": …}), or
    plain text; - reads standard input.
    """
    messages = read_conversation(read_stdin() if file == "-" else _read(Path(file)), file)
    with _opened(state, **endpoint) as opened:
        done = asyncio.run(opened.flush(messages, isolation_key, reason="call" if if_due else "manual"))
        where = opened.places.relative(done.path) if done.path is not None else None
    if state.as_json:
        print_json(
            {"status": done.status, "path": where, "facts": done.facts, "error": done.error, "notices": done.notices}
        )
        return 1 if done.status == "failed" else None
    for fact in done.facts:
        say(f"- {fact}")
    for notice in done.notices:
        warn(f"Note: {notice}.")
    if done.status == "failed":
        raise click.ClickException(f"The flush failed: {done.error}.")
    said = {
        "written": f"Written to {where}.",
        "nothing": "There is nothing to record.",
        "duplicate": "The ledger has these facts already.",
        "throttled": "The last flush is too short ago.",
        "off": "flush_trigger is never.",
    }
    say(said[done.status])
    return None


@ledger.command()
@click.option("--allow-shrink", is_flag=True, help="Accept an answer that drops more than half of MEMORY.md.")
@_model_options
@shared_options("cwd", "json")
@pass_state
def consolidate(state: State, allow_shrink: bool, model: str | None, base_url: str | None) -> int | None:
    """Merge the ledgers that changed into MEMORY.md; the former version is backed up."""
    with _opened(state, model, base_url) as opened:
        done = asyncio.run(opened.consolidate(allow_shrink=allow_shrink))
        backup = opened.places.relative(done.backup) if done.backup is not None else None
    if state.as_json:
        print_json(
            {"status": done.status, "files": done.files, "backup": backup, "rebuilt": done.rebuilt, "error": done.error}
        )
        return 1 if done.status in ("failed", "conflict", "busy") else None
    if done.status in ("failed", "conflict"):
        raise click.ClickException(f"The consolidation ended with nothing changed: {done.error}.")
    if done.status == "busy":
        raise click.ClickException("Another process is consolidating; try again when it has ended.")
    said = {
        "written": f"Merged {len(done.files)} ledgers into MEMORY.md. See `memory-core ledger diff`; backup: {backup}.",
        "unchanged": f"Looked at {len(done.files)} ledgers; MEMORY.md stays as it is.",
        "nothing": "No ledger has changed since the last consolidation.",
    }
    say(said[done.status])
    if done.error:
        warn(f"Left out: {done.error}")
    return None


@ledger.command()
@click.option("--if-due", is_flag=True, help="Only when consolidation_min_gap has passed.")
@_model_options
@shared_options("cwd", "json")
@pass_state
def maintain(state: State, if_due: bool, model: str | None, base_url: str | None) -> int | None:
    """Archive old ledgers, consolidate, prune old transcripts."""
    with _opened(state, model, base_url) as opened:
        done = asyncio.run(opened.maintain(force=not if_due))
    merged = done.consolidation.status if done.consolidation is not None else None
    if state.as_json:
        fields = {"ran": done.ran, "archived": done.archived, "consolidation": merged, "pruned": done.pruned}
        print_json({**fields, "errors": done.errors})
    elif done.ran:
        say(f"Archived {len(done.archived)} ledgers; consolidation: {merged}; pruned {len(done.pruned)} transcripts.")
    elif not done.errors:
        say("The last round is too short ago.")
    for error in done.errors:
        warn(f"Failed: {error}")
    return 1 if done.errors else None


@ledger.command()
@click.option("--undo", is_flag=True, help="Bring back MEMORY.md as it was before the last consolidation.")
@click.option("--force", is_flag=True, help="Undo even when MEMORY.md was edited since; the edited file is backed up.")
@shared_options("cwd", "json")
@pass_state
def diff(state: State, undo: bool, force: bool) -> None:
    """Show what the last consolidation changed in MEMORY.md; --undo takes it back."""
    with _opened(state) as opened:
        changed = opened.diff()
        restored = opened.places.relative(opened.undo(force=force).path) if undo else None
    if state.as_json:
        print_json({"diff": changed, "restored": restored})
        return
    if restored is None:
        say(changed or "MEMORY.md is as it was before the last consolidation.")
    else:
        say(f"MEMORY.md is as it was ({restored}). The next consolidation merges those ledgers again.")


def ledger_problems(state: State) -> "list[Problem]":
    """Return what is wrong with the workspace's ledger, for `doctor`; nothing where there is none."""
    from memory_core.contracts import Problem
    from memory_core.errors import MemoryCoreError

    try:
        workspace = state.workspace
        if not (workspace / "MEMORY.md").exists() and not (workspace / "memory").is_dir():
            return []
        with _opened(state) as opened:
            return opened.problems()
    except (MemoryCoreError, OSError) as error:
        return [Problem("error", type(error).__name__, str(error))]


def read_conversation(text: str, name: str) -> "list[Message]":
    """Return the messages of a JSON array, of JSON lines, or of plain text as one user message.

    Raises:
        InvalidEntryError, CorruptEntryError: It is JSON, but no conversation.
    """
    from memory_core.sessions.messages import user_message

    stripped = text.strip()
    if not stripped:
        return []
    rows: list[Any]
    try:
        whole: Any = json.loads(stripped)
        rows = [*whole] if isinstance(whole, list) else [whole]
    except (ValueError, RecursionError):
        try:
            rows = [json.loads(line) for line in stripped.split("\n") if line.strip()]
        except (ValueError, RecursionError):
            rows = []
    if not rows or not all(isinstance(row, dict) for row in rows):
        if stripped[0] in "[{" and name.endswith((".json", ".jsonl", ".ndjson")):
            from memory_core.errors import InvalidEntryError

            raise InvalidEntryError(f"{name} is no conversation: give a JSON array or JSON lines of messages.")
        return [user_message(text)]
    return _messages(rows)


def _messages(rows: list[dict[str, Any]]) -> "list[Message]":
    from memory_core.sessions.converters.openai import from_openai
    from memory_core.sessions.messages import message_from_fields

    if all("parts" in row and "id" in row for row in rows):
        return [message_from_fields(row) for row in rows]
    return from_openai(rows)


def _read(path: Path) -> str:
    from memory_core.errors import ConfigError

    try:
        return path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 text (byte {error.start}).") from error


def _print_file(state: State, opened: "Ledger", path: Path) -> int | None:
    from memory_core.ledger.disk import read_text

    text = read_text(opened.places, path)
    name = opened.places.relative(path)
    if state.as_json:
        print_json({"path": name, "text": text})
    elif text is not None:
        click.echo(plain(text), nl=not text.endswith("\n"))
    if text is None:
        warn(f"There is no {name} yet.")
    return 1 if text is None else None


class _opened:  # noqa: N801 - used like a function
    """Opens the workspace's ledger with the command line's options, and closes it."""

    def __init__(self, state: State, model: str | None = None, base_url: str | None = None) -> None:
        from memory_core.ledger import open_ledger
        from memory_core.ledger.opening import configured_model

        loaded = state.load()
        name = model or (loaded.settings.ledger.model if base_url else None)
        if base_url and not name:
            raise click.UsageError("--base-url needs --model: the name that the endpoint has for it.")
        chosen = configured_model(name, base_url or loaded.settings.ledger.base_url) if name else None
        self._ledger = open_ledger(state.workspace, model=chosen, loaded=loaded)

    def __enter__(self) -> "Ledger":
        return self._ledger

    def __exit__(self, *_: object) -> None:
        self._ledger.close()
