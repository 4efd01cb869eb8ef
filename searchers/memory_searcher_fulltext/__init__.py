"""The searcher `fulltext`: in-memory full text (SQLite FTS5), the default; needs nothing but Python."""

from typing import Any

from pydantic import Field

from memory_core.options import Options
from memory_core.plugins import hookimpl

NAME = "fulltext"


class FulltextOptions(Options):
    """`[searchers.fulltext]`.

    `max_terms` bounds the terms of one query (the rarest stay). `max_users` bounds how many users' indexes are held in
    memory at once. `snapshot=False` keeps no copy of larger indexes on disk, so that each start builds them anew.
    """

    max_terms: int = Field(default=64, ge=4, le=1000)
    max_users: int = Field(default=64, ge=1)
    snapshot: bool = True


def build(options: FulltextOptions, context: Any) -> Any:
    """Build the searcher; the implementation is imported only now."""
    from memory_searcher_fulltext.searcher import FulltextSearcher

    return FulltextSearcher(
        stemmer=context.stemmer,
        snapshot_dir=context.index_dir if options.snapshot else None,
        max_terms=options.max_terms,
        max_users=options.max_users,
    )


@hookimpl
def register_backends(register: Any) -> None:
    """Register the searcher `fulltext`."""
    register.searcher(NAME, build, FulltextOptions)


__all__ = ["NAME", "FulltextOptions"]
