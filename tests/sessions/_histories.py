"""Rich histories, one for each framework: every kind of message that it knows."""

from typing import Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.messages.content import InvalidToolCall
from langchain_core.messages.tool import ToolCall
from pydantic_ai.messages import (
    BinaryContent,
    ImageUrl,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    RetryFeedbackPart,
    RetryInfo,
    TextContent,
    ThinkingPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.messages import TextPart as NativeText
from pydantic_ai.messages import ToolCallPart as NativeCall
from pydantic_ai.usage import RequestUsage

from memory_core.sessions.memory import InMemoryAgentSession
from memory_core.sessions.messages import (
    Message,
)

PNG = bytes.fromhex("89504e470d0a1a0a")


def rich_pydantic_ai() -> list[ModelMessage]:
    messages: list[ModelMessage] = [
        ModelRequest(
            parts=[
                UserPromptPart(
                    [
                        "look at this",
                        ImageUrl("https://example.org/a.png", force_download=True),
                        BinaryContent(PNG, media_type="image/png"),
                        TextContent("and this", metadata={"source": "clipboard"}),
                    ]
                ),
                UserPromptPart("and at that"),
                UserPromptPart([]),
            ],
            run_id="run-1",
        ),
        ModelResponse(
            parts=[
                ThinkingPart("hm", id="rs_1", signature="c2lnbmVk", provider_name="anthropic"),
                NativeText("I will look.", id="msg_1", provider_details={"x": [1]}),
                NativeCall("find", {"q": "框架", "n": 3}, tool_call_id="c1", id="fc_1"),
                NativeCall("find", '{"q": "broken', tool_call_id="c2"),
                NativeCall("now", None, tool_call_id="c3"),
                NativeCall("none", "", tool_call_id="c4"),
                NativeCall("empty", {}, tool_call_id="c5"),
            ],
            usage=RequestUsage(input_tokens=10, output_tokens=3, details={"reasoning": 2}),
            model_name="m",
            provider_name="p",
            provider_details={"finish": "x"},
            finish_reason="tool_call",
        ),
        ModelRequest(
            parts=[
                ToolReturnPart("find", {"hits": ["Solon", 1, None]}, tool_call_id="c1", metadata={"secret": 1}),
                ToolReturnPart("find", "wrong arguments", tool_call_id="c2", outcome="failed"),
                ToolReturnPart("now", None, tool_call_id="c3"),
                ToolReturnPart("none", ["see", ImageUrl("https://example.org/b.png")], tool_call_id="c4"),
                ToolReturnPart("empty", "", tool_call_id="c5", outcome="denied"),
            ]
        ),
        ModelRequest(parts=[RetryFeedbackPart("no", retry=RetryInfo(cause="model_retry"))]),
        ModelResponse(parts=[NativeText("done")]),
        ModelResponse(parts=[]),
    ]
    # pydantic-ai's own JSON form narrows some types, such as `BinaryContent` to `BinaryImage`: as loaded from there
    return ModelMessagesTypeAdapter.validate_json(ModelMessagesTypeAdapter.dump_json(messages))


RICH_OPENAI: list[dict[str, Any]] = [
    {"role": "developer", "content": "be kind"},
    {"role": "system", "content": "be brief", "name": "boss"},
    {"role": "user", "content": "hello", "name": "alice"},
    {"role": "user", "content": ""},
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "look"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA", "detail": "high"}},
            {"type": "text", "text": "there", "cache_control": {"type": "ephemeral"}},
        ],
    },
    {"role": "user", "content": [{"type": "text", "text": "alone in a list"}]},
    {"role": "user", "content": []},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"q": "框架"}'}},
            {"id": "c2", "type": "function", "function": {"name": "find", "arguments": '{"broken'}},
            {"id": "c3", "type": "custom", "custom": {"name": "shell", "input": "ls"}},
        ],
        "reasoning_content": "hm",
    },
    {"role": "tool", "tool_call_id": "c1", "content": "Solon"},
    {"role": "tool", "tool_call_id": "c2", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
    {"role": "tool", "tool_call_id": "c3", "content": ""},
    {"role": "assistant", "content": "done", "refusal": None, "annotations": []},
    {
        "role": "assistant",
        "content": "both",
        "tool_calls": [{"id": "c4", "type": "function", "function": {"name": "x", "arguments": ""}}],
    },
    {"role": "tool", "tool_call_id": "c4", "content": "y"},
    {"role": "assistant", "content": None, "function_call": {"name": "old", "arguments": "{}"}},
    {"role": "function", "name": "old", "content": "result"},
    {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]},
    {"role": "assistant", "audio": {"id": "audio_1"}},
    {"role": "assistant", "content": "x", "tool_calls": []},
]


def rich_langchain() -> list[BaseMessage]:
    messages: list[BaseMessage] = [
        SystemMessage("be kind", id="s"),
        HumanMessage("hello", id="h", name="alice", additional_kwargs={"x": 1}),
        HumanMessage(
            [
                {"type": "text", "text": "look"},
                {"type": "image", "base64": "AAAA", "mime_type": "image/png"},
                "plain",
            ],
            id="i",
        ),
        AIMessage(
            [
                {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
                {"type": "text", "text": "I look", "index": 0},
                {"type": "tool_use", "id": "c1", "name": "find", "input": {"q": "框架"}},
            ],
            id="a",
            tool_calls=[ToolCall(name="find", args={"q": "框架"}, id="c1"), ToolCall(name="now", args={}, id=None)],
            invalid_tool_calls=[
                InvalidToolCall(type="invalid_tool_call", name="bad", args='{"x', id="c2", error="no JSON")
            ],
            usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
            response_metadata={"model": "m"},
        ),
        ToolMessage("Solon", tool_call_id="c1", id="t1", artifact={"rows": [1]}),
        ToolMessage([{"type": "text", "text": "wrong"}], tool_call_id="c2", id="t2", status="error"),
        AIMessage("", id="e"),
        AIMessage("done", id="d"),
        ChatMessage(content="as critic", role="critic", id="c"),
        ChatMessage(content="as assistant", role="assistant", id="ca"),
        FunctionMessage(content="old", name="old", id="f"),
    ]
    return messages


def stored(messages: list[Message]) -> list[Message]:
    """Return the messages as a session gives them back."""
    session = InMemoryAgentSession("s")
    session.append(messages)
    return session.messages()
