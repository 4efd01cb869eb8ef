"""Models for the ledger's calls: an async function, an OpenAI-compatible endpoint, or any model of pydantic-ai.

`as_chat_model` takes whatever the caller has. httpx and pydantic-ai are imported at the first call only.
"""

import inspect
import os
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from memory_core.contracts import ChatModel, ModelReply
from memory_core.errors import ConfigError, MissingExtraError, StorageUnavailableError

if TYPE_CHECKING:
    import httpx

AsyncReply: TypeAlias = Callable[[str, str, int], Awaitable[str | ModelReply]]
"""`async def reply(system, user, max_output_tokens) -> str | ModelReply`."""

_MAX_RESPONSE_BYTES = 8 << 20


class ModelUnavailableError(StorageUnavailableError):
    """The model's endpoint cannot be reached, refused the call, or gave no answer."""


class FunctionModel:
    """A `ChatModel` made of an async function."""

    def __init__(self, function: AsyncReply) -> None:
        self._function = function

    async def complete(self, system: str, user: str, max_output_tokens: int) -> ModelReply:
        """Call the function; plain text counts as complete."""
        answer = await self._function(system, user, max_output_tokens)
        return answer if isinstance(answer, ModelReply) else ModelReply(answer)


class OpenAICompatibleModel:
    """A `ChatModel` over the chat-completions API of OpenAI and of the many servers that speak it.

    Args:
        model: The model's name at that endpoint.
        base_url: Up to and including `/v1`; by default `OPENAI_BASE_URL`, else OpenAI itself.
        api_key: By default `OPENAI_API_KEY`; servers on your own machine often need none.
        timeout_s: For the whole answer.
        token_field: `max_completion_tokens` for OpenAI's newer models, `max_tokens` for most other servers.
        transport: An httpx transport, for proxies and tests.

    Redirects are not followed: a conversation goes to the named host or nowhere.
    """

    def __init__(
        self,
        model: str,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        timeout_s: float = 120.0,
        token_field: str = "max_tokens",  # noqa: S107 - the name of a JSON field, no secret
        transport: "httpx.AsyncBaseTransport | None" = None,
    ) -> None:
        self.model = model
        self.base_url = (base_url or os.environ.get("OPENAI_BASE_URL") or "https://api.openai.com/v1").rstrip("/")
        self._api_key = api_key if api_key is not None else os.environ.get("OPENAI_API_KEY")
        self._timeout_s = timeout_s
        self._token_field = token_field
        self._transport = transport

    def __repr__(self) -> str:
        return f"OpenAICompatibleModel({self.model!r}, {self.base_url!r})"

    async def complete(self, system: str, user: str, max_output_tokens: int) -> ModelReply:
        """Ask the endpoint once.

        Raises:
            MissingExtraError: httpx is not installed.
            ModelUnavailableError: The endpoint cannot be reached, answers with an error status, or with no text.
        """
        try:
            import httpx
        except ModuleNotFoundError as error:
            raise MissingExtraError(
                "An OpenAI-compatible model needs the package 'httpx', which is not installed: "
                "pip install 'memory-talent[harness]'."
            ) from error
        body = {
            "model": self.model,
            "messages": [{"role": "system", "content": system}, {"role": "user", "content": user}],
            self._token_field: max_output_tokens,
        }
        headers = {"Authorization": f"Bearer {self._api_key}"} if self._api_key else {}
        url = f"{self.base_url}/chat/completions"
        try:
            async with httpx.AsyncClient(timeout=self._timeout_s, transport=self._transport) as client:
                response = await client.post(url, json=body, headers=headers)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ModelUnavailableError(
                f"The model at {self.base_url} cannot be reached: {type(error).__name__} {error}. "
                "Check the address and the network."
            ) from error
        if response.status_code != 200:
            raise ModelUnavailableError(
                f"The model at {self.base_url} answered with status {response.status_code}: {_reason(response.text)}"
            )
        return _read_completion(response.content, self.base_url)


def _reason(text: str) -> str:
    return " ".join(text.split())[:300] or "no explanation."


def _read_completion(content: bytes, where: str) -> ModelReply:
    import json

    try:
        if len(content) > _MAX_RESPONSE_BYTES:
            raise ValueError(f"it has {len(content) >> 20} MB")
        choice = json.loads(content)["choices"][0]
        message: dict[str, Any] = choice["message"]
        if message.get("refusal"):
            return ModelReply(str(message["refusal"]), "refusal")
        text = message.get("content")
        if isinstance(text, list):  # some servers answer in parts
            text = "".join(str(part.get("text", "")) for part in cast("list[dict[str, Any]]", text))
        return ModelReply(str(text or ""), str(choice.get("finish_reason") or "stop"))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise ModelUnavailableError(
            f"The model at {where} gave an answer that is no chat completion: {error}."
        ) from error


class PydanticAIModel:
    """A `ChatModel` over any model of pydantic-ai, given as instance or as `"provider:model"`."""

    def __init__(self, model: Any) -> None:
        self._model = model

    async def complete(self, system: str, user: str, max_output_tokens: int) -> ModelReply:
        """Ask the model once, without tools.

        Raises:
            MissingExtraError: pydantic-ai, or the provider's own package, is not installed.
        """
        try:
            from pydantic_ai.direct import model_request
            from pydantic_ai.messages import ModelRequest, TextPart, UserPromptPart
            from pydantic_ai.models import infer_model

            model = infer_model(self._model) if isinstance(self._model, str) else self._model
        except ImportError as error:
            raise MissingExtraError(
                f"The model {self._model!r} needs pydantic-ai with its provider ({error}): "
                "pip install 'memory-talent[harness]'."
            ) from error
        self._model = model
        request = ModelRequest(parts=[UserPromptPart(user)], instructions=system)
        response = await model_request(model, [request], model_settings={"max_tokens": max_output_tokens})
        text = "".join(part.content for part in response.parts if isinstance(part, TextPart))
        return ModelReply(text, str(response.finish_reason or "stop"))


def as_chat_model(model: Any) -> ChatModel:
    """Return `model` as a `ChatModel`.

    Taken are: a `ChatModel`; `"provider:model"`, `"test"`, or a model of pydantic-ai; an async function
    `(system, user, max_output_tokens) -> str | ModelReply`.

    Raises:
        ConfigError: It is none of them; the sentence says what is taken.
    """
    if isinstance(model, type):
        raise ConfigError(f"The model is the class {model.__name__}; give an instance of it.")
    if inspect.iscoroutinefunction(getattr(model, "complete", None)):
        chat: ChatModel = model
        return chat
    if isinstance(model, str):
        if ":" not in model and model != "test":
            raise ConfigError(
                f"The model {model!r} names no provider; write 'provider:model', such as 'openai:gpt-4.1-mini'."
            )
        return PydanticAIModel(model)
    if inspect.iscoroutinefunction(getattr(model, "request", None)):  # a pydantic-ai model, without importing it
        return PydanticAIModel(model)
    if callable(model):
        return FunctionModel(cast("AsyncReply", model))
    raise ConfigError(
        f"{type(model).__name__} is no model. Give 'provider:model', a pydantic-ai model, an object with "
        "`async complete(system, user, max_output_tokens)`, or an async function of these three."
    )
