"""`embed`: what is known of the memories' vectors."""

import dataclasses
from typing import TYPE_CHECKING, Any

import click

from memory_core.cli.output import print_json, say
from memory_core.cli.state import State, pass_state, shared_options

if TYPE_CHECKING:
    from memory_core.embedding_status import EmbeddingStatus


@click.group()
def embed() -> None:
    """Vectors of memories: see `embed status`."""


@embed.command()
@shared_options("cwd", "user", "storer", "searcher", "json")
@pass_state
def status(state: State) -> None:
    """Say which embedding models are in use, how many memories are embedded, and what the cache holds.

    Nothing is embedded by asking; what waits is embedded by the next search.

    \b
    memory-core embed status
    memory-core embed status --searcher hybrid --json
    """
    from memory_core.embedding_status import embedding_status

    statuses = embedding_status(state.open(), state.user)
    if state.as_json:
        print_json([_fields(found) for found in statuses])
        return
    if not statuses:
        say("This searcher uses no embedding model: set `searcher` to numpy, lancedb or hybrid, and `embedder`.")
    for found in statuses:
        waiting = f", {found.waiting} wait for the next search" if found.waiting else ""
        say(found.model_id)
        say(f"  {found.embedded} of {found.texts} different texts are embedded{waiting}")
        if found.cache is not None:
            say(f"  cache: {found.cache.size_bytes / 2**20:.1f} MiB in {found.cache.path}")
            for model in found.cache.models:
                say(f"    {model.vectors} vectors of {model.dim} numbers: {model.model_id}")


def _fields(found: "EmbeddingStatus") -> dict[str, Any]:
    fields = dataclasses.asdict(found) | {"waiting": found.waiting}
    if found.cache is not None:
        fields["cache"] = dataclasses.asdict(found.cache) | {"path": str(found.cache.path)}
    return fields
