"""`POST /embeddings`, as OpenAI and most model servers answer it."""

import logging
import os
import random
import time
from collections.abc import Sequence
from threading import RLock
from typing import Any, cast
from urllib.parse import urlsplit

import httpx

from memory_core.errors import IndexUnavailableError
from memory_core.naming import short_hash
from memory_core.text import estimate_tokens
from memory_core.vectors import TextEmbedder
from memory_embedder_openai import OpenAIOptions

log = logging.getLogger(__name__)

_KNOWN_DIMS = {"text-embedding-3-small": 1_536, "text-embedding-3-large": 3_072, "text-embedding-ada-002": 1_536}
_FOR_THE_MOMENT = frozenset((408, 409, 425, 429, 500, 502, 503, 504, 529))
_MAX_WAIT_S = 60.0


class OpenAIEmbedder(TextEmbedder):
    """Asks a server. Its name and the model's are the identity; the key never appears in a message or a log."""

    def __init__(self, options: OpenAIOptions) -> None:
        self._options = options
        self.batch_size = options.batch_size
        self._lock = RLock()
        self._client: httpx.Client | None = None
        self._dim = options.dim or (_KNOWN_DIMS.get(options.model) if _is_openai(options.base_url) else None)
        server = urlsplit(options.base_url).netloc.rpartition("@")[2]
        prompt = short_hash(options.document_prompt)
        self._model_id = f"openai/{server}/{options.model}?dim={options.dim or 'full'}&prompt={prompt}"

    @property
    def model_id(self) -> str:  # noqa: D102 - the contract says it
        return self._model_id

    @property
    def dim(self) -> int:
        """The length of each vector; asks the server once when neither options nor the model's name say it.

        Raises:
            IndexUnavailableError: The server cannot be asked.
        """
        if self._dim is None:
            self._dim = len(self._ask(["dimension"])[0])
        return self._dim

    def encode(self, texts: list[str], *, query: bool) -> list[list[float]]:  # noqa: D102 - the contract says it
        prompt = self._options.query_prompt if query else self._options.document_prompt
        return self._ask([_cut(prompt + text, self._options.max_tokens) for text in texts])

    def close(self) -> None:
        """Close the connections; a later call opens them again."""
        with self._lock:
            if self._client is not None:
                self._client.close()
                self._client = None

    # --- inside ----------------------------------------------------------------------------------------------------

    def _ask(self, texts: Sequence[str]) -> list[list[float]]:
        body: dict[str, Any] = {"model": self._options.model, "input": list(texts), "encoding_format": "float"}
        if self._options.dim is not None:
            body["dimensions"] = self._options.dim
        return self._vectors(self._post(body), len(texts))

    def _post(self, body: dict[str, Any]) -> httpx.Response:
        url = self._options.base_url.rstrip("/") + "/embeddings"
        wait_s = self._options.backoff_s
        for attempt in range(self._options.retries + 1):
            asked_s: float | None = None
            cause: Exception | None = None
            try:
                response = self._connected().post(url, json=body)
            except httpx.TransportError as error:
                reason, cause = f"{type(error).__name__}: {error}", error
            else:
                if response.status_code == 200:
                    return response
                reason = _reason(response)
                if response.status_code not in _FOR_THE_MOMENT:
                    raise self._failed(reason, None)
                asked_s = _retry_after(response)
            if attempt == self._options.retries:
                raise self._failed(f"{reason} (after {attempt + 1} attempts)", cause)
            pause_s = min(_MAX_WAIT_S, asked_s if asked_s is not None else wait_s * random.uniform(0.75, 1.25))
            log.info("The embedding server answered %s; asking again in %.1f s", reason, pause_s)
            time.sleep(pause_s)
            wait_s *= 2
        raise AssertionError("the loop returns or raises")

    def _connected(self) -> httpx.Client:
        with self._lock:
            if self._client is None:
                key = self._options.api_key.get_secret_value() if self._options.api_key else None
                key = key or os.environ.get(self._options.api_key_env, "")
                headers = {"Authorization": f"Bearer {key}"} if key else {}
                self._client = httpx.Client(headers=headers, timeout=self._options.timeout_s)
            return self._client

    def _vectors(self, response: httpx.Response, count: int) -> list[list[float]]:
        try:
            items = cast("list[dict[str, Any]]", response.json()["data"])
            ordered = sorted(items, key=lambda item: int(item.get("index", 0)))
            vectors = [[float(number) for number in item["embedding"]] for item in ordered]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise self._failed(f"an answer without embeddings ({type(error).__name__})", error) from error
        if len(vectors) != count:
            raise self._failed(f"{len(vectors)} embeddings for {count} texts", None)
        return vectors

    def _failed(self, reason: str, cause: Exception | None) -> IndexUnavailableError:
        error = IndexUnavailableError(
            f"The embedding server at {urlsplit(self._options.base_url).netloc.rpartition('@')[2]} gave {reason}. "
            "Check `base_url`, `model` and the key of [embedders.openai]; the memories themselves are not affected."
        )
        error.__cause__ = cause
        return error


def _is_openai(base_url: str) -> bool:
    return urlsplit(base_url).hostname == "api.openai.com"


def _cut(text: str, max_tokens: int) -> str:
    """Return the beginning of `text` that the server will take."""
    while (count := estimate_tokens(text)) > max_tokens:
        text = text[: max(1, min(len(text) - 1, len(text) * max_tokens // count))]
    return text


def _reason(response: httpx.Response) -> str:
    try:
        error = response.json()["error"]
        detail = str(error["message"] if isinstance(error, dict) else error)  # pyright: ignore[reportUnknownArgumentType]
    except (ValueError, KeyError, TypeError):
        detail = ""
    return f"status {response.status_code}" + (f": {' '.join(detail.split())[:200]}" if detail else "")


def _retry_after(response: httpx.Response) -> float | None:
    try:
        return max(0.0, float(response.headers["retry-after"]))
    except (KeyError, ValueError):
        return None
