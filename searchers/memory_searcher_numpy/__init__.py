"""The searcher `numpy`: exact search by meaning, in memory; the light second arm of a hybrid."""

from typing import Any

from pydantic import Field

from memory_core.options import Options
from memory_core.plugins import hookimpl

NAME = "numpy"


class NumpyOptions(Options):
    """`[searchers.numpy]`.

    `embedder` names the embedder to use instead of the configured one. `max_users` bounds how many users' vectors are
    in memory at once (a thousand entries of 256 numbers are 1 MB).
    """

    embedder: str | None = None
    max_users: int = Field(default=64, ge=1)


def build(options: NumpyOptions, context: Any) -> Any:
    """Build the searcher; the implementation is imported only now."""
    from memory_core.cached_embedder import cached
    from memory_searcher_numpy.searcher import NumpySearcher

    return NumpySearcher(cached(context.build_embedder(options.embedder), context), max_users=options.max_users)


@hookimpl
def register_backends(register: Any) -> None:
    """Register the searcher `numpy`."""
    register.searcher(NAME, build, NumpyOptions, extra="numpy")


__all__ = ["NAME", "NumpyOptions"]
