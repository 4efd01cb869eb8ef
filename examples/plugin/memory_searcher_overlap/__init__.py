"""The searcher `overlap`: how many of the query's words a memory holds."""

from typing import Any

from pydantic import Field

from memory_core.options import Options
from memory_core.plugins import hookimpl

NAME = "overlap"


class OverlapOptions(Options):
    """`[searchers.overlap]`: `max_terms` caps the words of a query; the rare ones stay."""

    max_terms: int = Field(default=64, ge=1)


def build(options: OverlapOptions, context: Any) -> Any:
    """Build the searcher; the implementation is imported only now."""
    from memory_searcher_overlap.searcher import OverlapSearcher

    return OverlapSearcher(stemmer=context.stemmer, max_terms=options.max_terms)


@hookimpl
def register_backends(register: Any) -> None:
    """Register the searcher `overlap`."""
    register.searcher(NAME, build, OverlapOptions)
