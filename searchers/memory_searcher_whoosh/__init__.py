"""The searcher `whoosh`: full text in files, in pure Python; starts without reading the store again."""

from typing import Any

from pydantic import Field

from memory_core.options import Options
from memory_core.plugins import hookimpl

NAME = "whoosh"


class WhooshOptions(Options):
    """`[searchers.whoosh]`.

    `max_terms` bounds the terms of one query (the rarest stay). `max_users` bounds how many users' indexes are open at
    once. `lock_timeout_s` is how long a write waits for another process that writes the same index.
    """

    max_terms: int = Field(default=64, ge=4, le=1000)
    max_users: int = Field(default=64, ge=1)
    lock_timeout_s: float = Field(default=30.0, gt=0)


def build(options: WhooshOptions, context: Any) -> Any:
    """Build the searcher; the implementation is imported only now."""
    from memory_searcher_whoosh.searcher import WhooshSearcher

    return WhooshSearcher(
        context.index_dir,
        stemmer=context.stemmer,
        max_terms=options.max_terms,
        max_users=options.max_users,
        lock_timeout_s=options.lock_timeout_s,
    )


@hookimpl
def register_backends(register: Any) -> None:
    """Register the searcher `whoosh`."""
    register.searcher(NAME, build, WhooshOptions, extra="whoosh")


__all__ = ["NAME", "WhooshOptions"]
