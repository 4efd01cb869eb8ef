"""The embedder `openai`: any HTTP endpoint that speaks OpenAI's embeddings interface."""

from typing import Any

from pydantic import Field, SecretStr

from memory_core.options import USER_ONLY, Options
from memory_core.plugins import hookimpl

NAME = "openai"


class OpenAIOptions(Options):
    """`[embedders.openai]`.

    The texts of memories are sent to `base_url`; so it, the key and the model are taken from the user's own settings
    only. The key is `api_key`, else the environment variable `api_key_env`; a local server needs none. `dim` is sent as
    `dimensions`. `batch_size` texts go into one request; a request that fails for the moment (429, 5xx, no connection)
    is repeated `retries` times, after `backoff_s`, twice that, and so on, or when the server says.
    """

    base_url: str = Field(default="https://api.openai.com/v1", pattern=r"^https?://", json_schema_extra=USER_ONLY)
    model: str = Field(default="text-embedding-3-small", min_length=1, json_schema_extra=USER_ONLY)
    api_key: SecretStr | None = Field(default=None, json_schema_extra=USER_ONLY)
    api_key_env: str = Field(default="OPENAI_API_KEY", json_schema_extra=USER_ONLY)
    dim: int | None = Field(default=None, ge=1)
    query_prompt: str = ""
    document_prompt: str = ""
    max_tokens: int = Field(default=8_000, ge=8)
    batch_size: int = Field(default=96, ge=1, le=2_048)
    timeout_s: float = Field(default=30.0, gt=0)
    retries: int = Field(default=4, ge=0, le=20)
    backoff_s: float = Field(default=0.5, ge=0)


def build(options: OpenAIOptions, context: Any) -> Any:
    """Build the embedder; the implementation is imported only now."""
    del context
    from memory_embedder_openai.embedder import OpenAIEmbedder

    return OpenAIEmbedder(options)


@hookimpl
def register_backends(register: Any) -> None:
    """Register the embedder `openai`."""
    register.embedder(NAME, build, OpenAIOptions, extra="openai-embeddings")


__all__ = ["NAME", "OpenAIOptions"]
