"""Messages go to each framework and back without a loss, and keep what we know about them."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
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
    SystemPromptPart,
    TextContent,
    ThinkingPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.messages import TextPart as NativeText
from pydantic_ai.messages import ToolCallPart as NativeCall
from pydantic_ai.usage import RequestUsage

from memory_core.errors import InvalidEntryError
from memory_core.sessions.converters import (
    from_langchain,
    from_openai,
    from_pydantic_ai,
    to_langchain,
    to_openai,
    to_pydantic_ai,
)
from memory_core.sessions.memory import InMemoryAgentSession
from memory_core.sessions.messages import (
    Message,
    OtherPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    assistant_message,
    calls_of,
    message_from_json,
    message_to_json,
    results_of,
    text_of,
    tool_message,
    user_message,
)
from memory_core.testing.session import histories

PNG = bytes.fromhex("89504e470d0a1a0a")


def stored(messages: list[Message]) -> list[Message]:
    """Return the messages as a session gives them back."""
    session = InMemoryAgentSession("s")
    session.append(messages)
    return session.messages()


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


class TestPydanticAI:
    def test_there_and_back(self) -> None:
        messages = rich_pydantic_ai()
        neutral = from_pydantic_ai(messages)
        assert to_pydantic_ai(neutral) == messages
        assert to_pydantic_ai(stored(neutral)) == messages
        again = from_pydantic_ai(to_pydantic_ai(stored(neutral)))
        assert again == neutral

    def test_what_is_neutral(self) -> None:
        prompt, answer, results, feedback, done, nothing = from_pydantic_ai(rich_pydantic_ai())
        assert [m.role for m in (prompt, answer, results, feedback, done)] == [
            "user",
            "assistant",
            "tool",
            "user",
            "assistant",
        ]
        assert text_of(prompt) == "look at this\nand this\nand at that"
        assert [part.kind for part in prompt.parts if isinstance(part, OtherPart)][:2] == ["image-url", "binary"]
        assert text_of(answer) == "I will look."
        assert isinstance(answer.parts[0], OtherPart)
        assert answer.parts[0].kind == "thinking"
        assert [(c.call_id, c.name) for c in calls_of(answer)] == [
            ("c1", "find"),
            ("c2", "find"),
            ("c3", "now"),
            ("c4", "none"),
            ("c5", "empty"),
        ]
        assert json.loads(calls_of(answer)[0].arguments) == {"q": "框架", "n": 3}
        assert [c.arguments for c in calls_of(answer)[1:]] == ['{"q": "broken', "", "", "{}"]
        assert [r.content for r in results_of(results)] == [
            '{"hits": ["Solon", 1, null]}',
            "wrong arguments",
            "",
            "see\n[image-url]",
            "",
        ]
        assert [r.is_error for r in results_of(results)] == [False, True, False, False, False]
        assert nothing.parts == ()

    def test_ids_are_the_same_each_time_and_differ(self) -> None:
        messages = rich_pydantic_ai()
        ids = [message.id for message in from_pydantic_ai(messages)]
        assert ids == [message.id for message in from_pydantic_ai(messages)]
        reloaded = ModelMessagesTypeAdapter.validate_json(ModelMessagesTypeAdapter.dump_json(messages))
        assert ids == [message.id for message in from_pydantic_ai(reloaded)]
        same_words = [ModelRequest.user_text_prompt("ok") for _ in range(3)]
        assert len({message.id for message in from_pydantic_ai([*messages, *same_words])}) == len(messages) + 3

    def test_changed_messages_keep_their_id_and_the_rest(self) -> None:
        messages = from_pydantic_ai(rich_pydantic_ai())
        answer, results = messages[1], messages[2]
        shorter = replace(
            answer,
            parts=tuple(replace(p, arguments='{"q": "x"}') if isinstance(p, ToolCallPart) else p for p in answer.parts),
        )
        evicted = replace(
            results,
            parts=tuple(
                replace(p, content="in a file", mark="evicted") if isinstance(p, ToolResultPart) else p
                for p in results.parts
            ),
        )
        native = to_pydantic_ai([shorter, evicted])
        response, request = native
        assert isinstance(response, ModelResponse)
        assert [part.args for part in response.parts if isinstance(part, NativeCall)] == ['{"q": "x"}'] * 5
        thinking = response.parts[0]
        assert isinstance(thinking, ThinkingPart)
        assert thinking.signature == "c2lnbmVk"
        assert response.usage.input_tokens == 10
        returned = [part for part in request.parts if isinstance(part, ToolReturnPart)]
        assert [part.content for part in returned] == ["in a file"] * 5
        assert returned[0].metadata == {"secret": 1}
        again = from_pydantic_ai(native)
        assert [message.id for message in again] == [answer.id, results.id]
        assert [part.mark for part in results_of(again[1])] == ["evicted"] * 5
        assert calls_of(again[0])[0].arguments == '{"q": "x"}'

    def test_our_kinds_come_back(self) -> None:
        said = [
            user_message("what happened", kind="summary"),
            user_message("facts", kind="injected"),
            assistant_message("x"),
        ]
        native = to_pydantic_ai(said)
        assert [(m.kind, m.id, text_of(m)) for m in from_pydantic_ai(native)] == [
            (m.kind, m.id, text_of(m)) for m in said
        ]
        metadata = [message.metadata for message in native]
        assert metadata[0] == {"memory_core": {"kind": "summary", "id": said[0].id}}

    def test_dropping_a_part_drops_its_native(self) -> None:
        (prompt, *_) = from_pydantic_ai(rich_pydantic_ai())
        without_files = replace(prompt, parts=tuple(p for p in prompt.parts if isinstance(p, TextPart)))
        (request,) = to_pydantic_ai([without_files])
        first, second = request.parts
        assert isinstance(first, UserPromptPart)
        assert isinstance(second, UserPromptPart)
        assert first.content == ["look at this", TextContent("and this", metadata={"source": "clipboard"})]
        assert second.content == "and at that"

    def test_prompts_and_instructions_stay_out_of_sessions(self) -> None:
        request = ModelRequest(parts=[SystemPromptPart("be kind"), UserPromptPart("hi")], instructions="be brief")
        neutral = from_pydantic_ai([request, ModelRequest(parts=[SystemPromptPart("only")])])
        assert to_pydantic_ai(neutral)[0] == request
        assert [message.role for message in neutral] == ["user", "system"]
        (kept,) = to_pydantic_ai(stored(neutral))
        assert isinstance(kept, ModelRequest)
        assert kept.instructions is None
        assert [part.part_kind for part in kept.parts] == ["user-prompt"]
        assert from_pydantic_ai([kept])[0].id == neutral[0].id

    def test_old_retry_prompts_become_what_they_meant(self) -> None:
        raw = [
            {
                "kind": "request",
                "parts": [
                    {"part_kind": "retry-prompt", "content": "again", "tool_name": "find", "tool_call_id": "c1"},
                    {"part_kind": "retry-prompt", "content": "say it differently"},
                ],
            }
        ]
        messages = ModelMessagesTypeAdapter.validate_python(raw)
        (neutral,) = from_pydantic_ai(messages)
        assert [(r.call_id, r.is_error) for r in results_of(neutral)] == [("c1", True)]
        assert to_pydantic_ai([neutral]) == messages

    def test_what_pydantic_ai_refuses_is_one_sentence(self) -> None:
        (neutral,) = from_pydantic_ai([ModelRequest.user_text_prompt("x")])
        broken = replace(neutral, parts=(OtherPart("x", {"part_kind": "from the future"}),))
        with pytest.raises(InvalidEntryError, match="not what pydantic-ai accepts"):
            to_pydantic_ai([broken])


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


NO_CHAT_MESSAGES: list[dict[str, Any]] = [
    {},
    {"role": "god", "content": "x"},
    {"role": "user", "content": 3},
    {"role": "user", "content": [3]},
    {"role": "user", "content": [{"no": "type"}]},
    {"role": "assistant", "tool_calls": [{}]},
    {"role": "assistant", "tool_calls": 3},
]


class TestOpenAI:
    def test_there_and_back(self) -> None:
        neutral = from_openai(RICH_OPENAI)
        assert to_openai(neutral) == RICH_OPENAI
        assert to_openai(stored(neutral)) == RICH_OPENAI[2:]

    @pytest.mark.parametrize("number", range(len(RICH_OPENAI)))
    def test_each_alone(self, number: int) -> None:
        assert to_openai(from_openai([RICH_OPENAI[number]])) == [RICH_OPENAI[number]]

    def test_what_is_neutral(self) -> None:
        neutral = from_openai(RICH_OPENAI)
        assert [m.role for m in neutral[:3]] == ["system", "system", "user"]
        assert text_of(neutral[4]) == "look\nthere"
        assert [(c.call_id, c.name, c.arguments) for c in calls_of(neutral[7])] == [
            ("c1", "find", '{"q": "框架"}'),
            ("c2", "find", '{"broken'),
            ("c3", "shell", "ls"),
        ]
        assert [(r.name, r.content) for m in neutral[8:11] for r in results_of(m)] == [
            ("find", "Solon"),
            ("find", "a\nb"),
            ("shell", ""),
        ]

    def test_changed_messages(self) -> None:
        calling, result = from_openai(RICH_OPENAI)[7:9]
        one_call = replace(calling, parts=(replace(calls_of(calling)[0], arguments="{}"),))
        cut = replace(result, parts=(replace(results_of(result)[0], content="cut", mark="pruned"),))
        assert to_openai([one_call, cut]) == [
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "find", "arguments": "{}"}}],
                "reasoning_content": "hm",
            },
            {"role": "tool", "tool_call_id": "c1", "content": "cut"},
        ]
        blocks = from_openai(RICH_OPENAI)[9]
        changed = replace(blocks, parts=(replace(results_of(blocks)[0], content="cut"),))
        assert to_openai([changed]) == [{"role": "tool", "tool_call_id": "c2", "content": "cut"}]

    @pytest.mark.parametrize("wrong", NO_CHAT_MESSAGES)
    def test_what_is_no_chat_message_is_refused(self, wrong: dict[str, Any]) -> None:
        with pytest.raises(InvalidEntryError):
            from_openai([wrong])


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


class TestLangChain:
    def test_there_and_back(self) -> None:
        messages = rich_langchain()
        neutral = from_langchain(messages)
        assert to_langchain(neutral) == messages
        assert to_langchain(stored(neutral)) == messages[1:]
        again = from_langchain(to_langchain(neutral))
        assert [replace(m, time=n.time) for m, n in zip(again, neutral, strict=True)] == neutral  # it has no times

    def test_what_is_neutral(self) -> None:
        neutral = from_langchain(rich_langchain())
        roles = "system user user assistant tool tool assistant assistant user assistant tool"
        assert [m.role for m in neutral] == roles.split()
        assert [m.id for m in neutral[:3]] == ["s", "h", "i"]
        assert [(c.call_id, c.name) for c in calls_of(neutral[3])] == [("c1", "find"), ("", "now"), ("c2", "bad")]
        assert [(r.name, r.content, r.is_error) for m in neutral[4:6] for r in results_of(m)] == [
            ("find", "Solon", False),
            ("bad", "wrong", True),
        ]

    def test_a_message_without_id_gets_one(self) -> None:
        (neutral,) = from_langchain([HumanMessage("x")])
        (native,) = to_langchain([neutral])
        assert native.id == neutral.id
        assert len(neutral.id) == 32

    def test_chunks_count_as_messages(self) -> None:
        chunk = AIMessageChunk(content="hel", id="1") + AIMessageChunk(content="lo", id="1")
        (neutral,) = from_langchain([chunk])
        assert (neutral.role, text_of(neutral)) == ("assistant", "hello")
        assert isinstance(to_langchain([neutral])[0], AIMessage)

    def test_kinds_and_marks_come_back(self) -> None:
        said = [
            user_message("sum", kind="summary"),
            tool_message(ToolResultPart("c", "x", "cut", mark="evicted")),
        ]
        again = from_langchain(to_langchain(said))
        assert again[0].kind == "summary"
        assert results_of(again[1])[0].mark == "evicted"
        assert [m.id for m in again] == [m.id for m in said]

    def test_a_dropped_call_takes_its_block_along(self) -> None:
        calling = from_langchain(rich_langchain())[3]
        without_calls = replace(calling, parts=tuple(p for p in calling.parts if not isinstance(p, ToolCallPart)))
        (native,) = to_langchain([without_calls])
        assert isinstance(native, AIMessage)
        assert native.tool_calls == []
        assert native.invalid_tool_calls == []
        assert [block["type"] for block in native.content if isinstance(block, dict)] == ["thinking", "text"]

    def test_changed_arguments_arrive(self) -> None:
        calling = from_langchain(rich_langchain())[3]
        changed = replace(calling, parts=(replace(calls_of(calling)[0], arguments='{"q": "cut"}'),))
        (native,) = to_langchain([changed])
        assert isinstance(native, AIMessage)
        assert native.tool_calls == [ToolCall(name="find", args={"q": "cut"}, id="c1", type="tool_call")]

    def test_an_artifact_that_is_not_json_does_not_stop_the_rest(self) -> None:
        (neutral,) = from_langchain([ToolMessage("x", tool_call_id="c", artifact=object())])
        assert results_of(neutral)[0].content == "x"
        assert message_from_json(message_to_json(neutral)) == neutral

    def test_what_is_no_conversation_is_refused(self) -> None:
        with pytest.raises(InvalidEntryError, match="remove"):
            from_langchain([RemoveMessage(id="x")])


@settings(max_examples=50, deadline=None)
@given(history=histories())
def test_any_history_goes_everywhere(history: list[Message]) -> None:
    """Calls, results, their ids and the text arrive in every framework and come back from it."""

    def facts(messages: list[Message]) -> list[tuple[str, str, str]]:
        found: list[tuple[str, str, str]] = []
        for message in messages:
            for part in message.parts:
                if isinstance(part, TextPart) and part.text:
                    found.append(("text", message.role, part.text))
                elif isinstance(part, ToolCallPart):
                    found.append(("call", part.call_id, part.name))
                elif isinstance(part, ToolResultPart):
                    found.append(("result", part.call_id, part.content))
        return found

    assert facts(from_pydantic_ai(to_pydantic_ai(history))) == facts(history)
    assert facts(from_langchain(to_langchain(history))) == facts(history)
    assert facts(from_openai(to_openai(history))) == facts(history)


def test_from_one_framework_to_another() -> None:
    """What has no neutral form is named or left out; calls and results arrive."""
    chat = to_openai(from_pydantic_ai(rich_pydantic_ai()))
    assert chat[0]["content"].startswith("look at this\n[image-url]\n[binary]\nand this\nand at that")
    assert [call["id"] for call in chat[1]["tool_calls"]] == ["c1", "c2", "c3", "c4", "c5"]
    assert chat[1]["content"] == "I will look."
    assert [message["tool_call_id"] for message in chat[2:7]] == ["c1", "c2", "c3", "c4", "c5"]
    native = to_pydantic_ai(from_openai(RICH_OPENAI))
    assert isinstance(native[0], ModelRequest)
    assert [part.part_kind for part in native[0].parts] == ["system-prompt"]
    lang = to_langchain(from_openai(RICH_OPENAI))
    calling = next(message for message in lang if isinstance(message, AIMessage))
    assert [call["name"] for call in calling.tool_calls] == ["find"]
    assert [call["name"] for call in calling.invalid_tool_calls] == ["find", "shell"]
    back = to_openai(from_langchain(rich_langchain()))
    assert back[4]["role"] == "tool"
    assert to_openai([Message("assistant", (OtherPart("thinking", {}),))]) == []
    assert to_langchain([Message("assistant", (OtherPart("thinking", {}),))]) == []
    assert to_pydantic_ai([Message("assistant", (OtherPart("thinking", {}),))]) == []
    assert to_langchain([Message("user", (OtherPart("thinking", {}),))]) == []
    mixed = Message("user", (ToolResultPart("c", "x", "r"), TextPart("and")), time=datetime(2024, 1, 1, tzinfo=UTC))
    assert [m["role"] for m in to_openai([mixed])] == ["tool", "user"]
    assert [m.type for m in to_langchain([mixed])] == ["tool", "human"]
