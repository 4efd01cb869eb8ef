"""An engine against the local chat server."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from openai import AsyncOpenAI
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from memory_core.harness import HarnessEngine
from tests.harness.chat_server import ChatServer, Script


def chat_model(server: ChatServer, *, retries: int = 0, timeout_s: float = 10.0) -> OpenAIChatModel:
    # No connection outlives its request: tests end their event loops without closing clients.
    http = httpx2.AsyncClient(limits=httpx2.Limits(max_keepalive_connections=0), timeout=timeout_s)
    client = AsyncOpenAI(base_url=server.base_url, api_key="k", max_retries=retries, http_client=http)
    return OpenAIChatModel("scripted", provider=OpenAIProvider(openai_client=client))


@pytest.fixture
def serve() -> Iterator[Callable[[Script], ChatServer]]:
    servers: list[ChatServer] = []

    def start(script: Script) -> ChatServer:
        servers.append(ChatServer(script))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


@pytest.fixture
def engine_at(tmp_path: Path) -> Callable[..., HarnessEngine]:
    def make(server: ChatServer, **settings: Any) -> HarnessEngine:
        settings.setdefault("model", chat_model(server))
        return HarnessEngine(tmp_path / "work", tmp_path / "home", **settings)

    (tmp_path / "work").mkdir()
    return make
