"""The commands on single memories: remember, recall, search, list, forget, consolidate, inject."""

import sys
from typing import Any

import click

from memory_core.cli.output import (
    date,
    explained,
    headline,
    hit_fields,
    indented,
    one_line,
    print_json,
    say,
    shorten,
    warn,
)
from memory_core.cli.state import TEXT, State, pass_state, read_stdin, shared_options
from memory_core.policy import (
    DEFAULT_SUMMARY_CHARS,
    DEFAULT_TOP_K,
    MAX_LISTED,
    MAX_TOP_K,
)
from memory_core.serial import to_fields

EVERYTHING = 1_000_000_000
NEAR_KEYS = 3


@click.command()
@click.argument("key", type=TEXT)
@click.argument("text", type=TEXT)
@click.option(
    "-i", "--importance", type=click.IntRange(1, 10), default=5, show_default=True,
    help="1-3 trivia, 4-6 preferences, 7-9 core rules, 10 identity. It decides how long the memory lives.",
)  # fmt: skip
@click.option("--ttl", "ttl_s", type=click.IntRange(min=-1), help="Seconds until it expires, -1 for never.")
@click.option("--meta", type=TEXT, multiple=True, metavar="NAME=VALUE", help="Metadata; may be repeated.")
@shared_options("cwd", "user", "scope", "storer", "searcher", "json")
@pass_state
def remember(state: State, *, key: str, text: str, importance: int, ttl_s: int | None, meta: tuple[str, ...]) -> None:
    """Store TEXT under KEY, or overwrite what is there.

    A TEXT of - is read from standard input.

    \b
    memory-core remember editor "Prefers vim" -i 6
    memory-core remember 框架 "项目使用Solon框架" -i 8 --scope user
    git log -1 | memory-core remember last-commit -
    """
    solution = state.open()
    done = solution.remember(
        key,
        read_stdin().rstrip("\n") if text == "-" else text,
        importance,
        user_id=state.user_id,
        scope=state.scope,
        source="cli",
        metadata=_metadata(meta),
        ttl_s=ttl_s,
    )
    if state.as_json:
        previous = to_fields(done.previous) if done.previous is not None else None
        print_json({"stored": to_fields(done.entry), "previous": previous})
        return
    say(f"Stored: {headline(done.entry)}")
    if done.previous is not None and done.previous.content != done.entry.content:
        say(f"It replaces what was stored on {date(done.previous.updated_at)}: {shorten(done.previous.content, 200)}")


def _metadata(pairs: tuple[str, ...]) -> dict[str, Any]:
    metadata: dict[str, Any] = {}
    for pair in pairs:
        name, separator, value = pair.partition("=")
        if not separator or not name.strip():
            raise click.BadParameter(f"{pair!r} is not NAME=VALUE.", param_hint="--meta")
        metadata[name.strip()] = value
    return metadata


@click.command()
@click.argument("key", type=TEXT)
@click.option("--raw", is_flag=True, help="Print the content alone, to the byte.")
@shared_options("cwd", "user", "scope", "storer", "searcher", "json")
@pass_state
def recall(state: State, key: str, raw: bool) -> int | None:
    """Print the memory with exactly this KEY.

    Exit code 1 when there is none.

    \b
    memory-core recall editor
    memory-core recall editor --raw > editor.txt
    """
    solution = state.open()
    entry = solution.recall(key, user_id=state.user_id, scope=state.scope)
    if entry is None:
        near = [hit.entry.id.key for hit in solution.search(key, user_id=state.user_id, top_k=NEAR_KEYS)]
        hint = f" Similar keys: {', '.join(near)}." if near else ""
        warn(f"memory-core: {one_line(f'There is no memory {key!r}.{hint}')}")
        return 1
    if raw:
        sys.stdout.buffer.write(entry.content.encode())
    elif state.as_json:
        print_json(to_fields(entry))
    else:
        say(headline(entry))
        say(entry.content)
    return None


@click.command()
@click.argument("text", type=TEXT)
@click.option(
    "-k",
    "--top-k",
    type=click.IntRange(1, MAX_TOP_K),
    default=DEFAULT_TOP_K,
    show_default=True,
    help="At most so many.",
)
@click.option("--min-importance", type=click.IntRange(1, 10), help="Only memories of at least this importance.")
@click.option("--explain", is_flag=True, help="Say what each part of the searcher gave.")
@shared_options("cwd", "user", "scope", "storer", "searcher", "json")
@pass_state
def search(state: State, text: str, top_k: int, min_importance: int | None, explain: bool) -> None:
    """Find memories by TEXT: a word, a key, or a whole question.

    \b
    memory-core search "which web framework?"
    memory-core search 框架 -k 3 --explain
    """
    hits = state.open_following().search(
        text,
        user_id=state.user_id,
        top_k=top_k,
        scopes=None if state.scope is None else [state.scope],
        min_importance=min_importance,
    )
    if state.as_json:
        print_json([hit_fields(hit) for hit in hits])
        return
    if not hits:
        say("Nothing fits.")
    for number, hit in enumerate(hits, start=1):
        say(f"{number}. {hit.score:.2f}  {headline(hit.entry)}")
        say(indented(hit.entry.content))
        if explain:
            say(
                indented("because: " + ", ".join(f"{name} {value:g}" for name, value in explained(hit.explain).items()))
            )


@click.command("list")
@click.option(
    "-n", "--limit", type=click.IntRange(min=1), default=MAX_LISTED, show_default=True, help="At most so many."
)
@click.option("--all", "everything", is_flag=True, help="List all of them.")
@shared_options("cwd", "user", "scope", "storer", "searcher", "json")
@pass_state
def list_memories(state: State, limit: int, everything: bool) -> None:
    """List the memories by importance, then newest.

    \b
    memory-core list
    memory-core list --all --json | jq -r '.[].key'
    """
    limit = EVERYTHING if everything else limit
    scopes = None if state.scope is None else [state.scope]
    entries = state.open_following().list_all(user_id=state.user_id, limit=limit + 1, scopes=scopes)
    listed = entries[:limit]
    if state.as_json:
        print_json([to_fields(entry) for entry in listed])
        return
    if not listed:
        say("There are no memories yet. Store one: memory-core remember KEY TEXT")
    for entry in listed:
        say(headline(entry))
        say(indented(shorten(entry.content, DEFAULT_SUMMARY_CHARS)))
    if len(entries) > len(listed):
        say(f"These are the first {len(listed)}; --all lists all of them.")


@click.command()
@click.argument("keys", type=TEXT, nargs=-1, required=True, metavar="KEY...")
@shared_options("cwd", "user", "scope", "storer", "searcher", "json")
@pass_state
def forget(state: State, keys: tuple[str, ...]) -> int | None:
    """Remove memories.

    From every scope, unless --scope names one. Exit code 1 when one was not there.

    \b
    memory-core forget editor
    memory-core forget old-plan older-plan --scope workspace
    """
    solution = state.open()
    gone = {key: solution.forget(key, user_id=state.user_id, scope=state.scope) for key in keys}
    missing = [key for key, scopes in gone.items() if not scopes]
    if state.as_json:
        print_json({key: list(scopes) for key, scopes in gone.items()})
    else:
        for key, scopes in gone.items():
            if scopes:
                say(f"Forgotten: {one_line(key)} (from {', '.join(scopes)})")
    for key in missing:
        warn(f"memory-core: {one_line(f'There is no memory {key!r}.')}")
    return 1 if missing else None


@click.command()
@click.argument("new_key", type=TEXT)
@click.argument("insight", type=TEXT)
@click.option(
    "--merge", "keys", type=TEXT, multiple=True, required=True, metavar="KEY", help="A memory to merge; repeat it."
)
@shared_options("cwd", "user", "scope", "storer", "searcher", "json")
@pass_state
def consolidate(state: State, new_key: str, insight: str, keys: tuple[str, ...]) -> int | None:
    """Merge memories into one INSIGHT that is kept for ever.

    It is written and verified before the merged memories are removed. NEW_KEY may be one of them; it is then
    overwritten in place.

    \b
    memory-core consolidate stack "Python 3.12 with Solon" --merge python --merge framework
    """
    done = state.open().consolidate(keys, new_key, insight, user_id=state.user_id, scope=state.scope, source="cli")
    if state.as_json:
        print_json(
            {
                "stored": to_fields(done.entry),
                "removed": [{"scope": id.scope, "user": id.user_id, "key": id.key} for id in done.removed],
                "missing": list(done.missing),
                "left": [
                    {"scope": id.scope, "user": id.user_id, "key": id.key, "reason": why} for id, why in done.left
                ],
            }
        )
    else:
        say(f"Stored: {headline(done.entry)}")
        for id in done.removed:
            say(f"Merged and removed: {one_line(id.key)} ({id.scope})")
        for key in done.missing:
            say(f"Was not there: {one_line(key)}")
    for id, why in done.left:
        warn(f"memory-core: {one_line(f'{id.key!r} in {id.scope} could not be removed: {why}')}")
    return 1 if done.left else None


@click.command()
@click.argument("text", type=TEXT, default="")
@click.option("--session", metavar="ID", help="The session, where memories are isolated by session.")
@click.option(
    "--locale", type=click.Choice(["en", "zh"]), help="Language of the wording; by default the configured one."
)
@shared_options("cwd", "user", "storer", "searcher", "json")
@pass_state
def inject(state: State, text: str, session: str | None, locale: str | None) -> None:
    """Print what an agent would be told for the user input TEXT.

    \b
    memory-core inject "Which framework do I use?"
    """
    from memory_core.talent import MemoryTalent

    settings = state.load().settings
    options = settings.talent.model_dump()
    if state.user is not None:  # as for an agent that serves this user
        options["session_isolation"], session = True, state.user
    talent = MemoryTalent(state.open_provider(), locale=locale or settings.locale, **options)
    block = talent.instruction(text, cwd=state.workspace, session_id=session)
    if state.as_json:
        print_json({"instruction": block})
    elif block:
        say(block)
    else:
        warn("memory-core: There is nothing to inject.")
