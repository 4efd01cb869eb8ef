"""The embedder `onnx`: transformer models without torch, on onnxruntime."""

from typing import Any, Literal

from pydantic import Field

from memory_core.options import USER_ONLY, Options, placed_model
from memory_core.plugins import hookimpl

NAME = "onnx"


class OnnxOptions(Options):
    """`[embedders.onnx]`.

    `model` is a directory with `tokenizer.json` and `model.onnx` (or `onnx/model.onnx`; `file` names another one), as
    most models on the Hugging Face hub have it: `hf download intfloat/multilingual-e5-small --local-dir …`.
    `pooling` and `max_tokens` come from the directory's own configuration when they are None. The prompts go before
    each text; None takes the model's own, and for the E5 family `query: ` and `passage: `. `threads` are onnxruntime's.
    """

    model: str = Field(min_length=1, json_schema_extra=USER_ONLY)
    file: str | None = Field(default=None, json_schema_extra=USER_ONLY)
    pooling: Literal["mean", "cls", "last"] | None = None
    max_tokens: int | None = Field(default=None, ge=8)
    query_prompt: str | None = None
    document_prompt: str | None = None
    threads: int = Field(default=1, ge=1)
    batch_size: int = Field(default=16, ge=1, le=1_024)


def build(options: OnnxOptions, context: Any) -> Any:
    """Build the embedder; the implementation is imported only now."""
    from memory_embedder_onnx.embedder import OnnxEmbedder

    return OnnxEmbedder(options.model_copy(update={"model": placed_model(options.model, context.workspace)}))


@hookimpl
def register_backends(register: Any) -> None:
    """Register the embedder `onnx`."""
    register.embedder(NAME, build, OnnxOptions, extra="onnx")


__all__ = ["NAME", "OnnxOptions"]
