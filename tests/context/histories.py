"""Histories as they really come: broken, parallel, interrupted, huge."""

from dataclasses import replace

from hypothesis import strategies as st

from memory_core.sessions.messages import (
    Message,
    OtherPart,
    Part,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    assistant_message,
    calls_of,
    new_id,
    results_of,
    tool_message,
    user_message,
)


def _repeated(word: str, times: int) -> str:
    return word * times


def _written(chars: int) -> str:
    return '{"content": "%s"}' % ("y" * chars)


IDS = st.sampled_from(["", "", "a", "b", "c", "call-1", "call-2", "重复"])
NAMES = st.sampled_from(["read_file", "shell", "write_file", "搜索"])
TEXTS = st.one_of(
    st.text(max_size=40),
    st.builds(
        _repeated,
        st.sampled_from(["word ", "框架", "e\u0301", "🇩🇪", "x"]),
        st.integers(1, 6_000),
    ),
)
ARGUMENTS = st.one_of(
    st.just("{}"),
    st.just("not json"),
    st.builds(_written, st.integers(1, 9_000)),
)
CALLS = st.builds(ToolCallPart, IDS, NAMES, ARGUMENTS)
RESULTS = st.builds(
    ToolResultPart, IDS, NAMES, TEXTS, st.booleans(), st.sampled_from(["", "", "", "evicted", "pruned"])
)
OTHERS = st.builds(OtherPart, st.sampled_from(["image", "thinking"]), st.just({"signature": "abc"}))
PARTS: st.SearchStrategy[Part] = st.one_of(st.builds(TextPart, TEXTS), CALLS, RESULTS, OTHERS)
KINDS = st.sampled_from(["normal", "normal", "normal", "normal", "summary", "injected"])
WILD = st.builds(
    Message,
    st.sampled_from(["user", "assistant", "tool", "user", "assistant", "system"]),
    st.lists(PARTS, max_size=4).map(tuple),
    kind=KINDS,
)


@st.composite
def turns(draw: st.DrawFn) -> list[Message]:
    """A turn as agents make them: a request, parallel calls with their results, an answer; some of it missing."""
    turn = [user_message(draw(TEXTS))]
    for _ in range(draw(st.integers(0, 4))):
        calls = draw(st.lists(CALLS, min_size=1, max_size=4))
        turn.append(assistant_message(draw(st.sampled_from(["", "let me see"])), calls))
        results = [ToolResultPart(call.call_id, call.name, draw(TEXTS)) for call in calls]
        if draw(st.booleans()):
            results = results[: draw(st.integers(0, len(results)))]  # aborted
        turn += [tool_message(*results)] if draw(st.booleans()) else [tool_message(result) for result in results]
        if draw(st.integers(0, 9)) == 0:
            turn[-2:] = turn[:-3:-1]  # results first
    if draw(st.booleans()):
        turn.append(assistant_message("done"))
    return turn


HISTORIES = st.one_of(
    st.lists(WILD, max_size=30),
    st.lists(st.one_of(turns(), st.lists(WILD, max_size=3)), max_size=12).map(
        lambda several: sum(several, list[Message]())
    ),
)


@st.composite
def long_histories(draw: st.DrawFn) -> list[Message]:
    """Up to 2,000 messages: a few turns, over and over."""
    few = sum(draw(st.lists(turns(), min_size=1, max_size=3)), list[Message]())
    length = draw(st.integers(1, 2_000))
    again = [replace(message, id=new_id()) for _ in range(length // len(few) + 1) for message in few]
    return again[-length:]


def paired(messages: list[Message]) -> bool:
    """Whether every call has one result behind it and every result its call, by id, or by name where there is none."""
    waiting: list[tuple[str, str]] = []
    for message in messages:
        for part in message.parts:
            if isinstance(part, ToolCallPart):
                waiting.append((part.call_id, "" if part.call_id else part.name))
            elif isinstance(part, ToolResultPart):
                key = (part.call_id, "" if part.call_id else part.name)
                if key not in waiting:
                    return False
                waiting.remove(key)
    return not waiting


def last_user(messages: list[Message]) -> str | None:
    """The id of the last message that a user wrote."""
    for message in reversed(messages):
        if message.role == "user" and message.kind == "normal" and len(results_of(message)) < len(message.parts):
            return message.id
    return None


__all__ = ["HISTORIES", "calls_of", "last_user", "paired", "turns"]
