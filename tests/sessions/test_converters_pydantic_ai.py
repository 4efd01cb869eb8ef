"""Histories of pydantic-ai, there and back."""

import json
from dataclasses import replace

import pytest
from pydantic_ai.messages import (
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextContent,
    ThinkingPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.messages import ToolCallPart as NativeCall

from memory_core.errors import InvalidEntryError
from memory_core.sessions.converters import (
    from_pydantic_ai,
    to_pydantic_ai,
)
from memory_core.sessions.messages import (
    OtherPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    assistant_message,
    calls_of,
    results_of,
    text_of,
    user_message,
)

from ._histories import rich_pydantic_ai, stored


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
