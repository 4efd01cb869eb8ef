"""Messages come back from JSON as they were, and a conversation is cut only where no tool pair is."""

import json
from dataclasses import FrozenInstanceError
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_core.errors import CorruptEntryError
from memory_core.sessions.messages import (
    Message,
    Native,
    OtherPart,
    Part,
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
from memory_core.sessions.pairs import pair_spans, safe_boundary, safe_boundary_after
from memory_core.testing.session import full_message, histories

texts = st.text(st.characters(), max_size=30)  # lone surrogates included
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
extras = st.none() | st.dictionaries(texts, json_values, max_size=3)
parts: st.SearchStrategy[Part] = st.one_of(
    st.builds(TextPart, texts, extras),
    st.builds(ToolCallPart, texts, texts, texts, extras),
    st.builds(ToolResultPart, texts, texts, texts, st.booleans(), st.sampled_from(("", "evicted", "pruned")), extras),
    st.builds(OtherPart, texts, json_values),
)
messages = st.builds(
    Message,
    st.sampled_from(("system", "user", "assistant", "tool")),
    st.lists(parts, max_size=4).map(tuple),
    texts,
    st.datetimes(timezones=st.just(UTC)),
    st.sampled_from(("normal", "summary", "injected")),
    st.none() | st.builds(Native, texts, st.dictionaries(texts, json_values, max_size=3)),
)


class TestJson:
    @settings(max_examples=200, deadline=None)
    @given(message=messages)
    def test_any_message_is_one_line_and_comes_back(self, message: Message) -> None:
        line = message_to_json(message)
        assert "\n" not in line
        assert message_from_json(line.encode()) == message

    def test_the_form_is_stable(self) -> None:
        assert json.loads(message_to_json(full_message())) == {
            "id": "full/1",
            "time": "2024-02-29T23:59:59.123456+00:00",
            "role": "user",
            "kind": "summary",
            "parts": [
                {"type": "text", "text": "text", "extra": {"detail": "high", "nested": {"list": [1, 2.5, None, True]}}},
                {
                    "type": "call",
                    "call_id": "c1",
                    "name": "find",
                    "arguments": '{"broken": ',
                    "extra": {"provider": "x"},
                },
                {
                    "type": "result",
                    "call_id": "c0",
                    "name": "find",
                    "content": "nothing",
                    "is_error": True,
                    "mark": "evicted",
                    "extra": {"outcome": "failed"},
                },
                {"type": "other", "kind": "image", "data": {"url": "data:image/png;base64,AAAA"}},
                {"type": "other", "kind": "empty", "data": None},
            ],
            "native": {"format": "somewhere", "data": {"usage": {"tokens": 3}, "signature": "c2ln"}},
        }

    def test_times_become_utc(self) -> None:
        east = datetime(2024, 1, 1, 8, tzinfo=timezone(timedelta(hours=8)))
        assert message_from_json(message_to_json(Message("user", (), "x", east))).time == datetime(
            2024, 1, 1, tzinfo=UTC
        )

    def test_a_line_that_is_no_message_is_refused(self) -> None:
        for line in (
            "",
            "{}",
            "[]",
            "3",
            '{"id": "x", "time": "9999-12-31T23:59:59-23:59", "role": "user", "parts": []}',
        ):
            with pytest.raises(CorruptEntryError):
                message_from_json(line)

    def test_messages_cannot_be_changed_and_can_be_hashed(self) -> None:
        message = full_message()
        assert len({message, full_message()}) == 1
        with pytest.raises(FrozenInstanceError):
            message.role = "tool"  # type: ignore[misc] # pyright: ignore[reportAttributeAccessIssue] - on purpose


class TestHelpers:
    def test_text_calls_and_results(self) -> None:
        message = full_message()
        assert text_of(message) == "text"
        assert [call.name for call in calls_of(message)] == ["find"]
        assert [result.content for result in results_of(message)] == ["nothing"]
        assert text_of(Message("user", (TextPart("a"), OtherPart("x"), TextPart("b")))) == "a\nb"
        assert assistant_message().parts == ()


def call(*ids: str, name: str = "x") -> Message:
    return assistant_message("", [ToolCallPart(id, name) for id in ids])


def result(id: str, name: str = "x") -> Message:
    return tool_message(ToolResultPart(id, name, "r"))


class TestPairs:
    @pytest.mark.parametrize(
        ("history", "spans"),
        [
            ([], []),
            ([user_message("x")], []),
            ([call("a"), result("a")], [(0, 1)]),
            ([call("a", "b"), result("b"), result("a")], [(0, 1), (0, 2)]),
            ([result("a"), call("a")], [(0, 1)]),
            ([result("a"), call("a"), result("a")], [(0, 1), (1, 2)]),
            ([call("a"), result("a"), user_message("x"), result("a")], [(0, 1), (0, 3)]),
            ([call(""), call(""), result(""), result("")], [(0, 2), (1, 3)]),
            ([call("", name="x"), call("", name="y"), result("", "y")], [(1, 2)]),
            ([call("a"), user_message("aborted")], []),
            ([result("a"), user_message("orphan")], []),
            ([call("a"), result("a"), call("a"), result("a")], [(0, 1), (2, 3)]),
        ],
    )
    def test_spans(self, history: list[Message], spans: list[tuple[int, int]]) -> None:
        assert pair_spans(history) == spans

    @settings(max_examples=200, deadline=None)
    @given(history=histories(), at=st.integers(-2, 60), shuffle=st.randoms(use_true_random=False), mix=st.booleans())
    def test_boundaries(self, history: list[Message], at: int, shuffle: object, mix: bool) -> None:
        if mix:
            shuffle.shuffle(history)  # type: ignore[attr-defined] # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType] - Hypothesis' own type
        spans = pair_spans(history)

        def free(boundary: int) -> bool:
            return not any(first < boundary <= last for first, last in spans)

        inside = min(max(at, 0), len(history))
        assert safe_boundary(history, at) == max(k for k in range(inside + 1) if free(k))
        assert safe_boundary_after(history, at) == min(k for k in range(inside, len(history) + 1) if free(k))
