"""The storer `kv`: one embedded SQLite file per scope, for many memories on one machine."""

from typing import Any, Literal

from pydantic import Field

from memory_core.options import INSIDE_WORKSPACE, Options, placed_scopes
from memory_core.plugins import hookimpl

NAME = "kv"
FILE_NAME = "memory.kv.sqlite3"


class KvOptions(Options):
    """`[storers.kv]`.

    `directories` puts scopes elsewhere than the provider would (scope → directory; relative ones start at the
    workspace). `durability="normal"` is several times faster and may lose the last writes when the power fails (not
    when a process dies). `busy_timeout_s` is how long a write waits for other processes. `tombstones` is how many
    removals of one user a follower may miss before it has to read that user anew.
    """

    directories: dict[str, str] = Field(default={}, json_schema_extra=INSIDE_WORKSPACE)
    durability: Literal["full", "normal"] = "full"
    busy_timeout_s: float = Field(default=30.0, ge=0.1, le=600)
    tombstones: int = Field(default=10_000, ge=1)


def build(options: KvOptions, context: Any) -> Any:
    """Build the storer; the implementation is imported only now."""
    from memory_storer_kv.storer import KvStorer

    scopes = placed_scopes(options.directories, context)
    return KvStorer(
        scopes,
        clock=context.clock,
        durability=options.durability,
        busy_timeout_s=options.busy_timeout_s,
        tombstones=options.tombstones,
    )


@hookimpl
def register_backends(register: Any) -> None:
    """Register the storer `kv`."""
    register.storer(NAME, build, KvOptions)


__all__ = ["FILE_NAME", "NAME", "KvOptions"]
