"""The provider `workspace`: every project has its own memories, and the user's are shared by all projects."""

from typing import Any

from pydantic import Field

from memory_core.caching import MAX_OPEN_SOLUTIONS
from memory_core.options import INSIDE_WORKSPACE, Options
from memory_core.plugins import hookimpl

NAME = "workspace"


class WorkspaceOptions(Options):
    """`[providers.workspace]`: where memories lie.

    `folder` is relative to the working directory. `max_open` bounds how many directories are served at once.
    """

    folder: str = Field(default=".memory-core", min_length=1, json_schema_extra=INSIDE_WORKSPACE)
    max_open: int = Field(default=MAX_OPEN_SOLUTIONS, ge=1)


def build(options: WorkspaceOptions, context: Any) -> Any:
    """Build the provider; the implementation is imported only now."""
    from memory_provider_workspace.provider import WorkspaceProvider

    return WorkspaceProvider(options, context)


@hookimpl
def register_backends(register: Any) -> None:
    """Register the provider `workspace`."""
    register.provider(NAME, build, WorkspaceOptions)


__all__ = ["NAME", "WorkspaceOptions"]
