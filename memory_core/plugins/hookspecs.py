"""The whole surface for plugins: five hooks. A plugin is a module (or object) behind an entry point of the group
`memory_core` whose functions carry `@hookimpl`.
"""

from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:
    import click

    from memory_core.model import MemoryEntry, SearchHit, SearchQuery
    from memory_core.plugins.registry import Registrar

PROJECT = "memory_core"
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def register_backends(register: "Registrar") -> None:
    """Called once, when the plugin is loaded. Call `register.storer(name, factory, options=Model)`, `.searcher`,
    `.provider`, `.embedder`, `.session_store` or `.filter`, any number of times. An error disables this plugin only.
    """


@hookspec
def before_store(entry: "MemoryEntry") -> "MemoryEntry | None":
    """Called before each write. Return the entry, changed or not, or None to refuse it; its id must stay the same.
    Each plugin sees what the one before returned. An error refuses the write, and so does an entry that cannot be
    stored (blank content, an importance outside 1..10, NaN in the metadata).
    """


@hookspec
def after_search(query: "SearchQuery", hits: "list[SearchHit]") -> "list[SearchHit]":  # type: ignore[empty-body]  # a specification
    """Called after each search. Return the hits, reordered, rescored (0..1) or fewer. Each plugin sees what the one
    before returned. An error is logged and the hits stay as they were.
    """


@hookspec(firstresult=True)
def compute_ttl(importance: int) -> int | None:
    """Called for each write without a TTL of its own. Return seconds, −1 for ever, or None to leave the decision to
    the next plugin and at last to the `[ttl]` table. An error refuses the write.
    """


@hookspec
def register_commands(cli: "click.Group") -> None:
    """Called when the command line starts. Add commands to `cli`. An error is reported on stderr and skips only this
    plugin's commands.
    """
