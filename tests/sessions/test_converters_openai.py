"""Histories of the OpenAI chat API, there and back."""

from dataclasses import replace
from typing import Any

import pytest

from memory_core.errors import InvalidEntryError
from memory_core.sessions.converters import (
    from_openai,
    to_openai,
)
from memory_core.sessions.messages import (
    calls_of,
    results_of,
    text_of,
)

from ._histories import RICH_OPENAI, stored

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
