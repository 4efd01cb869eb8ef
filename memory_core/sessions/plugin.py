"""The built-in session stores, `memory` and `file`, behind the same door as everybody else's."""

from typing import Any

from pydantic import Field

from memory_core.options import INSIDE_WORKSPACE, Options
from memory_core.plugins import hookimpl


class MemorySessionOptions(Options):
    """`[session_stores.memory]`: how many messages a session keeps, and how many sessions; None is no limit."""

    max_messages: int | None = Field(default=None, ge=1)
    max_sessions: int | None = Field(default=None, ge=1)


class FileSessionOptions(Options):
    """`[session_stores.file]`.

    `directory` is `<home>/sessions` unless set. `fsync=False` trades durability for speed. `max_open` bounds how many
    sessions are kept in memory.
    """

    directory: str | None = Field(default=None, min_length=1, json_schema_extra=INSIDE_WORKSPACE)
    fsync: bool = True
    max_open: int = Field(default=64, ge=1)


def build_memory(options: MemorySessionOptions, context: Any) -> Any:  # noqa: ARG001 - a factory's form
    """Build the provider of sessions in memory."""
    from memory_core.sessions.memory import InMemorySessions

    return InMemorySessions(options.max_messages, options.max_sessions)


def build_file(options: FileSessionOptions, context: Any) -> Any:
    """Build the provider of sessions in files."""
    from memory_core.sessions.file import FileSessions

    directory = context.directory if options.directory is None else context.workspace / options.directory
    return FileSessions(directory, fsync=options.fsync, max_open=options.max_open)


@hookimpl
def register_backends(register: Any) -> None:
    """Register the session stores `memory` and `file`."""
    register.session_store("memory", build_memory, MemorySessionOptions)
    register.session_store("file", build_file, FileSessionOptions)
