"""Histories of LangChain, there and back."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    HumanMessage,
    RemoveMessage,
    ToolMessage,
)
from langchain_core.messages.tool import ToolCall

from memory_core.errors import InvalidEntryError
from memory_core.sessions.converters import (
    from_langchain,
    from_openai,
    from_pydantic_ai,
    to_langchain,
    to_openai,
    to_pydantic_ai,
)
from memory_core.sessions.messages import (
    Message,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    calls_of,
    message_from_json,
    message_to_json,
    results_of,
    text_of,
    tool_message,
    user_message,
)
from memory_core.testing.session import histories

from ._histories import rich_langchain, stored


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
