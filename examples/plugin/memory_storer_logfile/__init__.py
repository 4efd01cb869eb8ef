"""The storer `logfile`: every change is one line at the end of a file."""

from typing import Any

from memory_core.options import Options
from memory_core.plugins import hookimpl

NAME = "logfile"


class LogfileOptions(Options):
    """`[storers.logfile]`: `fsync = false` trades durability for speed."""

    fsync: bool = True


def build(options: LogfileOptions, context: Any) -> Any:
    """Build the storer; the implementation is imported only now."""
    from memory_storer_logfile.storer import LogfileStorer

    files = {place.name: place.directory / f"{NAME}.jsonl" for place in context.scopes}
    return LogfileStorer(files, clock=context.clock, fsync=options.fsync)


@hookimpl
def register_backends(register: Any) -> None:
    """Register the storer `logfile`."""
    register.storer(NAME, build, LogfileOptions)
