"""The storer `markdown`: one Markdown file per memory, for people to read and edit."""

from typing import Any

from pydantic import Field

from memory_core.contracts import BackendContext
from memory_core.options import INSIDE_WORKSPACE, Options, placed_scopes
from memory_core.plugins import hookimpl

NAME = "markdown"


class MarkdownOptions(Options):
    """`[storers.markdown]`.

    `directories` puts scopes elsewhere than the provider would (scope → directory; relative ones start at the
    workspace). `fsync=False` trades durability
    for speed. `max_file_mb` bounds what is read as one memory.
    """

    directories: dict[str, str] = Field(default={}, json_schema_extra=INSIDE_WORKSPACE)
    fsync: bool = True
    max_file_mb: int = Field(default=16, ge=1, le=1024)


def build(options: MarkdownOptions, context: BackendContext) -> Any:
    """Build the storer; the implementation is imported only now."""
    from memory_storer_markdown.storer import MarkdownStorer

    scopes = placed_scopes(options.directories, context)
    return MarkdownStorer(scopes, clock=context.clock, fsync=options.fsync, max_file_bytes=options.max_file_mb << 20)


@hookimpl
def register_backends(register: Any) -> None:
    """Register the storer `markdown`."""
    register.storer(NAME, build, MarkdownOptions)


__all__ = ["NAME", "MarkdownOptions"]
