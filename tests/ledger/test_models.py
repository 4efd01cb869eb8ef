import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from memory_core.contracts import ModelReply
from memory_core.errors import ConfigError, MissingExtraError
from memory_core.ledger import (
    FunctionModel,
    Ledger,
    MemoryConfig,
    OpenAICompatibleModel,
    PydanticAIModel,
    as_chat_model,
)
from memory_core.ledger.models import ModelUnavailableError
from memory_core.sessions.messages import user_message
from memory_core.testing.model import FakeModel

Make = Callable[..., Ledger]
TALK = [user_message("I drink tea")]


class Endpoint:
    """A local server that speaks as much of the chat-completions API as the tests need."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, str], dict[str, Any]]] = []
        self.status, self.body, self.location = 200, "", ""
        self.answers("- The user drinks tea.")
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                endpoint.requests.append((self.path, dict(self.headers), body))
                self.send_response(endpoint.status)
                if endpoint.location:
                    self.send_header("Location", endpoint.location)
                self.send_header("Content-Type", "application/json")
                self.end_headers()
                self.wfile.write(endpoint.body.encode())

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/v1"

    def answers(self, content: Any, finish: str = "stop", **more: Any) -> None:
        message = {"role": "assistant", "content": content, **more}
        self.body = json.dumps(
            {
                "id": "x",
                "object": "chat.completion",
                "created": 1,
                "model": "m",
                "choices": [{"index": 0, "message": message, "finish_reason": finish}],
                "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
            }
        )


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    served = Endpoint()
    thread = threading.Thread(target=served.server.serve_forever, daemon=True)
    thread.start()
    yield served
    served.server.shutdown()
    served.server.server_close()
    thread.join()


async def test_an_openai_compatible_endpoint(endpoint: Endpoint, make: Make, tmp_path: Path) -> None:
    model = OpenAICompatibleModel("tiny", endpoint.url + "/", "key-1")
    assert (await make(model).flush(TALK)).facts == ("The user drinks tea.",)
    path, headers, body = endpoint.requests[0]
    assert path == "/v1/chat/completions"
    assert headers["Authorization"] == "Bearer key-1"
    assert body["model"] == "tiny"
    assert [message["role"] for message in body["messages"]] == ["system", "user"]
    assert body["max_tokens"] > 0
    assert "key-1" not in repr(model)


async def test_what_endpoints_answer(endpoint: Endpoint) -> None:
    model = OpenAICompatibleModel("tiny", endpoint.url, "", token_field="max_completion_tokens")
    endpoint.answers("half", "length")
    assert await model.complete("s", "u", 7) == ModelReply("half", "length")
    assert endpoint.requests[0][2]["max_completion_tokens"] == 7
    assert "Authorization" not in endpoint.requests[0][1]
    endpoint.answers([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])
    assert (await model.complete("s", "u", 7)).text == "ab"
    endpoint.answers(None)
    assert (await model.complete("s", "u", 7)).text == ""
    endpoint.answers(None, refusal="I will not")
    assert await model.complete("s", "u", 7) == ModelReply("I will not", "refusal")


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (500, "boom", "status 500: boom"),
        (429, '{"error": {"message": "slow down"}}', "status 429"),
        (401, "", "no explanation"),
        (302, "", "status 302"),
        (200, "not json", "no chat completion"),
        (200, "[]", "no chat completion"),
        (200, '{"choices": []}', "no chat completion"),
        (200, '{"choices": [{"message": null}]}', "no chat completion"),
        (200, "[" * 100_000, "no chat completion"),
    ],
)
async def test_failures_are_one_sentence(endpoint: Endpoint, make: Make, status: int, body: str, words: str) -> None:
    endpoint.status, endpoint.body, endpoint.location = (
        status,
        body,
        "http://127.0.0.1:9/elsewhere" if status == 302 else "",
    )
    model = OpenAICompatibleModel("tiny", endpoint.url)
    with pytest.raises(ModelUnavailableError, match=words):
        await model.complete("s", "u", 7)
    result = await make(model).flush(TALK)
    assert result.status == "failed"
    assert words in result.error


async def test_an_endpoint_that_is_not_there() -> None:
    for url in ("http://127.0.0.1:9/v1", "nonsense", "http://[::bad/v1"):
        with pytest.raises(ModelUnavailableError, match="cannot be reached"):
            await OpenAICompatibleModel("tiny", url, timeout_s=5).complete("s", "u", 7)


async def test_the_environment_names_the_endpoint(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", endpoint.url)
    monkeypatch.setenv("OPENAI_API_KEY", "from-env")
    await OpenAICompatibleModel("tiny").complete("s", "u", 7)
    assert endpoint.requests[0][1]["Authorization"] == "Bearer from-env"


async def test_an_async_function_is_a_model(make: Make) -> None:
    async def reply(system: str, user: str, max_output_tokens: int) -> str:
        assert "NO_REPLY" in system
        assert "tea" in user
        assert max_output_tokens > 0
        return "- The user drinks tea."

    assert (await make(reply).flush(TALK)).status == "written"

    async def whole(*_: Any) -> ModelReply:
        return ModelReply("x", "length")

    assert await FunctionModel(whole).complete("s", "u", 1) == ModelReply("x", "length")


async def test_the_configs_model_wins(make: Make) -> None:
    own, config = FakeModel("- own"), FakeModel("- configured")
    result = await make(own, MemoryConfig(model=config)).flush(TALK)
    assert result.facts == ("configured",)
    assert not own.calls


@pytest.mark.parametrize("model", [3, "gpt-4.1-mini", FakeModel, object(), []])
def test_what_is_no_model(model: Any) -> None:
    with pytest.raises(ConfigError, match="model"):
        as_chat_model(model)


async def test_pydantic_ai_instances_and_names(make: Make) -> None:
    pytest.importorskip("pydantic_ai")
    from pydantic_ai.messages import ModelResponse, TextPart
    from pydantic_ai.models.function import FunctionModel as PydanticFunctionModel
    from pydantic_ai.models.test import TestModel

    seen: list[Any] = []

    def answer(messages: Any, info: Any) -> ModelResponse:
        seen.append((messages, info))
        return ModelResponse(parts=[TextPart("- The user drinks tea.")], finish_reason="stop")

    assert (await make(PydanticFunctionModel(answer)).flush(TALK)).facts == ("The user drinks tea.",)
    messages, info = seen[0]
    assert "NO_REPLY" in messages[0].instructions
    assert info.model_settings["max_tokens"] > 0
    assert (await make(TestModel(custom_output_text="- from the test model")).flush(TALK)).facts == (
        "from the test model",
    )
    assert isinstance(as_chat_model("test"), PydanticAIModel)
    assert (await PydanticAIModel("test").complete("s", "u", 9)).text


async def test_a_provider_and_model_by_name(endpoint: Endpoint, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pydantic_ai")
    monkeypatch.setenv("OPENAI_BASE_URL", endpoint.url)
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    endpoint.answers("- The user drinks tea.")
    assert (await make("openai-chat:tiny").flush(TALK)).facts == ("The user drinks tea.",)
    result = await make("nobody:tiny").flush([user_message("something else")])
    assert result.status == "failed"
    assert "nobody" in result.error


async def test_missing_packages_become_an_instruction(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "httpx", None)
    monkeypatch.setitem(sys.modules, "pydantic_ai.direct", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'memory-talent\[harness\]'"):
        await OpenAICompatibleModel("m").complete("s", "u", 1)
    with pytest.raises(MissingExtraError, match=r"pip install 'memory-talent\[harness\]'"):
        await PydanticAIModel("openai-chat:m").complete("s", "u", 1)


def test_nothing_heavy_is_imported() -> None:
    import subprocess
    import sys

    code = (
        "import sys, memory_core.ledger as l; l.Ledger('.', 'openai:x');"
        "print([m for m in ('httpx', 'pydantic_ai', 'openai', 'numpy', 'redis', 'pytest') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
