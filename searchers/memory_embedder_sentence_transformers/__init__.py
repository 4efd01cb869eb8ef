"""The embedder `sentence-transformers`: any model of that library, on torch."""

from typing import Any

from pydantic import Field

from memory_core.options import USER_ONLY, Options, placed_model
from memory_core.plugins import hookimpl

NAME = "sentence-transformers"
DEFAULT_MODEL = "intfloat/multilingual-e5-small"


class SentenceTransformersOptions(Options):
    """`[embedders.sentence-transformers]`.

    `model` is a name on the Hugging Face hub or a local directory; the default is small (384 numbers, 470 MB) and
    knows about a hundred languages, Chinese among them. `revision` pins a version of it. The prompts go before each
    text; None takes the model's own, and for the E5 family the `query: ` and `passage: ` that it was trained with.
    `device` is `cpu`, `cuda`, `mps`, …; None lets torch choose. `threads` is torch's for the whole process; None means
    one on machines of up to four cores, where more are slower, and torch's own choice above. `dim` cuts the vectors of
    models that were trained for it.
    """

    model: str = Field(default=DEFAULT_MODEL, min_length=1, json_schema_extra=USER_ONLY)
    revision: str | None = Field(default=None, json_schema_extra=USER_ONLY)
    query_prompt: str | None = None
    document_prompt: str | None = None
    device: str | None = None
    threads: int | None = Field(default=None, ge=1)
    batch_size: int = Field(default=32, ge=1, le=4_096)
    dim: int | None = Field(default=None, ge=1)


def build(options: SentenceTransformersOptions, context: Any) -> Any:
    """Build the embedder; torch itself is imported at its first use, because that takes seconds."""
    from importlib.util import find_spec

    if find_spec("sentence_transformers") is None:
        raise ModuleNotFoundError("No module named 'sentence_transformers'", name="sentence_transformers")
    from memory_embedder_sentence_transformers.embedder import SentenceTransformersEmbedder

    model = placed_model(options.model, context.workspace)
    return SentenceTransformersEmbedder(options.model_copy(update={"model": model}))


@hookimpl
def register_backends(register: Any) -> None:
    """Register the embedder `sentence-transformers`."""
    register.embedder(NAME, build, SentenceTransformersOptions, extra="sentence-transformers")


__all__ = ["NAME", "SentenceTransformersOptions"]
