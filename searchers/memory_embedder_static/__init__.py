"""The embedder `static`: averaged word vectors; no torch, a fraction of a millisecond a text."""

from typing import Any

from pydantic import Field

from memory_core.options import USER_ONLY, Options, placed_model
from memory_core.plugins import hookimpl

NAME = "static"
WORDLLAMA = "wordllama"


class StaticOptions(Options):
    """`[embedders.static]`.

    `model` is `"wordllama"` (English, the weights are inside its package, nothing is downloaded), or a model2vec
    model: a local directory or a name on the Hugging Face hub (`minishlab/potion-multilingual-128M` knows Chinese).
    `dim` cuts the vectors; wordllama has 64, 128 and 256.
    """

    model: str = Field(default=WORDLLAMA, min_length=1, json_schema_extra=USER_ONLY)
    dim: int | None = Field(default=None, ge=1)


def build(options: StaticOptions, context: Any) -> Any:
    """Build the embedder; the implementation is imported only now."""
    from memory_embedder_static.embedder import open_model2vec, open_wordllama

    if options.model == WORDLLAMA:
        return open_wordllama(options.dim)
    return open_model2vec(placed_model(options.model, context.workspace), options.dim)


@hookimpl
def register_backends(register: Any) -> None:
    """Register the embedder `static`."""
    register.embedder(NAME, build, StaticOptions, extra="static")


__all__ = ["NAME", "StaticOptions"]
