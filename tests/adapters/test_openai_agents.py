"""The OpenAI Agents SDK over our sessions, driven by its own runner against a local server."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

import pytest
from agents import Agent, OpenAIChatCompletionsModel, RunConfig, Runner, function_tool
from agents.memory import Session, SessionSettings
from openai import AsyncOpenAI

from memory_core.adapters.openai_agents import AgentsSession
from memory_core.errors import InvalidEntryError
from memory_core.sessions import FileSessions, InMemorySessions, assistant_message, user_message
from memory_core.sessions.messages import Message, ToolCallPart, ToolResultPart

ITEMS: list[Any] = [
    {"role": "user", "content": "What is the weather?"},
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"},
    {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": '{"city": "Ulm"}', "id": "__fake_id__"},
    {"type": "function_call_output", "call_id": "c1", "output": "rain"},
    {
        "type": "message",
        "id": "__fake_id__",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "It rains.", "annotations": []}],
    },
    {"role": "developer", "content": "Be brief."},
    {"role": "user", "content": [{"type": "input_text", "text": "See"}, {"type": "input_image", "image_url": "x"}]},
    {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "sun"}]},
]


class Handler(BaseHTTPRequestHandler):
    asked: list[Any] = []  # noqa: RUF012 - one list for all requests, emptied by the fixture

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.asked.append(body["messages"])
        last = body["messages"][-1]
        message: dict[str, Any] = {"role": "assistant", "content": f"You said: {last['content']}"}
        if last["content"] == "weather?":
            call = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
            message = {"role": "assistant", "content": None, "tool_calls": [call]}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        reply = {
            "id": "1",
            "object": "chat.completion",
            "created": 1,
            "model": "m",
            "choices": [choice],
            "usage": usage,
        }
        data = json.dumps(reply).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    Handler.asked.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    server.shutdown()
    thread.join()
    server.server_close()


@function_tool
def weather() -> str:
    """Say the weather."""
    return "rain"


async def test_a_run_goes_on_after_a_restart(url: str, tmp_path: Path) -> None:
    async with AsyncOpenAI(base_url=url, api_key="none") as client:
        agent = Agent(name="a", model=OpenAIChatCompletionsModel("m", client), tools=[weather])
        quiet = RunConfig(tracing_disabled=True)
        first = AgentsSession(FileSessions(tmp_path)("s1"))
        assert (await Runner.run(agent, "weather?", session=first, run_config=quiet)).final_output == "You said: rain"
        again = AgentsSession(FileSessions(tmp_path)("s1"))
        await Runner.run(agent, "and tomorrow?", session=again, run_config=quiet)
    assert [message["role"] for message in Handler.asked[-1]] == ["user", "assistant", "tool", "assistant", "user"]
    kinds = [type(part) for message in again.session.messages() for part in message.parts]
    assert kinds.count(ToolCallPart) == kinds.count(ToolResultPart) == 1


async def test_items_come_back_exactly_as_they_were(tmp_path: Path) -> None:
    session = AgentsSession(FileSessions(tmp_path)("s1"))
    assert isinstance(session, Session)
    assert session.session_id == "s1"
    await session.add_items(ITEMS[:3])
    await session.add_items(ITEMS[3:])
    again = AgentsSession(FileSessions(tmp_path)("s1"))
    assert await again.get_items() == ITEMS
    for limit in (0, 1, 3, 100):
        assert await again.get_items(limit) == ITEMS[max(0, len(ITEMS) - limit) :]
    limited = AgentsSession(again.session, SessionSettings(limit=2))
    assert await limited.get_items() == ITEMS[-2:]
    assert await limited.get_items(3) == ITEMS[-3:]
    for item in reversed(ITEMS):
        assert await again.pop_item() == item
    assert await again.pop_item() is None
    await again.add_items(ITEMS)
    await again.clear_session()
    assert await session.get_items() == []


async def test_the_conversation_is_readable_to_the_rest() -> None:
    session = InMemorySessions()("s")
    await AgentsSession(session).add_items(ITEMS)
    parts = [part for message in session.messages() for part in message.parts]
    assert ToolCallPart("c1", "weather", '{"city": "Ulm"}') in parts
    assert ToolResultPart("c1", "", "rain") in parts
    assert ToolResultPart("c2", "", "sun") in parts


async def test_messages_of_others_and_shortened_ones_are_items_that_say_the_same() -> None:
    session = InMemorySessions()("s")
    agents = AgentsSession(session)
    session.append([user_message("hello"), assistant_message("hi")])
    session.append(
        [Message("assistant", (ToolCallPart("c", "f", "{}"),)), Message("tool", (ToolResultPart("c", "f", "x"),))]
    )
    await agents.add_items(ITEMS[:4])

    def shortened(messages: list[Message]) -> list[Message]:
        changed = Message("tool", (ToolResultPart("c1", "", "r…"),), id=messages[-1].id, native=messages[-1].native)
        return [*messages[:-1], changed]

    session.rewrite(shortened)
    items = cast("list[Any]", await agents.get_items())
    assert items[:2] == [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}]
    assert items[2]["arguments"] == "{}"
    assert items[3] == {"type": "function_call_output", "call_id": "c", "output": "x"}
    assert items[4:7] == ITEMS[:3]
    assert items[7]["output"] == "r…"


async def test_an_item_that_is_no_json_is_refused_whole() -> None:
    session = AgentsSession(InMemorySessions()("s"))
    with pytest.raises(InvalidEntryError):
        await session.add_items([ITEMS[0], cast("Any", {"role": "user", "content": "x", "extra": object()})])
    assert await session.get_items() == []
