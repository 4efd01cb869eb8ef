"""Arguments, tool results and graphemes: what is cut, what stays, and that a second time changes nothing."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from memory_core.context.config import PruneConfig, TruncateArgsConfig
from memory_core.context.graphemes import head, middle_cut, tail
from memory_core.context.prune import prune, prune_message
from memory_core.context.tokens import MessageSizer
from memory_core.context.truncate import truncate_args, truncate_message
from memory_core.sessions.messages import (
    Mark,
    Message,
    OtherPart,
    ToolCallPart,
    ToolResultPart,
    assistant_message,
    calls_of,
    results_of,
    tool_message,
    user_message,
)

ARGS = TruncateArgsConfig()


def call(arguments: Any) -> Message:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return assistant_message("", [ToolCallPart("c", "write_file", text)])


def arguments(message: Message) -> Any:
    return json.loads(calls_of(message)[0].arguments)


def test_a_long_argument_keeps_its_first_20_characters_and_the_text() -> None:
    cut = truncate_message(call({"path": "a.py", "content": "0123456789" * 500}), ARGS)
    assert arguments(cut) == {"path": "a.py", "content": "01234567890123456789... [truncated] ..."}


def test_what_is_short_stays_the_same_object() -> None:
    for message in (
        call({"content": "x" * 1_900}),
        user_message("x" * 9_000),
        call({str(i): "x" * 100 for i in range(50)}),
    ):
        assert truncate_message(message, ARGS) is message


@pytest.mark.parametrize(
    "long",
    [
        "not json " * 500,
        json.dumps(["x" * 3_000]),
        json.dumps("x" * 3_000),
        "[" * 5_000,
        {"rows": list(range(2_000))},
        {"deep": {"a": "x" * 3_000}},
    ],
)
def test_any_long_arguments_become_short_valid_json(long: Any) -> None:
    cut = truncate_message(call(long), ARGS)
    assert len(calls_of(cut)[0].arguments) < 200
    assert isinstance(arguments(cut), dict)
    assert truncate_message(cut, ARGS) is cut


def test_only_the_older_messages_are_truncated() -> None:
    history = [call({"content": "x" * 5_000}) for _ in range(6)]
    cut = truncate_args(history, ARGS, 4)
    assert [len(calls_of(m)[0].arguments) < 100 for m in cut] == [True] * 4 + [False] * 2
    assert cut[4] is history[4]
    assert truncate_args(history, ARGS, -3) == history
    assert all(len(calls_of(m)[0].arguments) < 100 for m in truncate_args(history, ARGS))


def test_settings_that_would_cut_for_ever_are_refused() -> None:
    with pytest.raises(ValidationError, match="again and again"):
        TruncateArgsConfig(max_arg_length=30)
    with pytest.raises(ValidationError):
        TruncateArgsConfig(keep_messages=-1)


def outputs(count: int, chars: int) -> list[Message]:
    return [tool_message(ToolResultPart(f"c{i}", "shell", "0123456789" * (chars // 10))) for i in range(count)]


def test_old_results_are_cut_and_the_newest_40_000_tokens_stay() -> None:
    size = MessageSizer()
    history = outputs(10, 40_000)  # 10,000 tokens each
    pruned = prune(history, PruneConfig(), size)
    assert [results_of(m)[0].mark for m in pruned] == ["pruned"] * 6 + [""] * 4
    first = results_of(pruned[0])[0].content
    assert first.startswith("0123456789")
    assert first.endswith("0123456789")
    assert "[… 36000 characters left out …]" in first
    assert prune(pruned, PruneConfig(), size) == pruned


def test_too_little_gain_changes_nothing() -> None:
    size = MessageSizer()
    history = [*outputs(2, 40_000), *outputs(4, 40_000)]
    assert prune(history, PruneConfig(min_gain_tokens=19_000), size) == history, "2 × 9,000 tokens could be saved"
    assert prune(history, PruneConfig(min_gain_tokens=17_000), size) != history
    assert prune([], PruneConfig(), size) == []


def test_marked_and_short_results_and_other_parts_stay() -> None:
    marks: tuple[Mark, Mark] = ("evicted", "pruned")
    for mark in marks:
        message = tool_message(ToolResultPart("c", "shell", "x" * 90_000, mark=mark))
        assert prune_message(message, 2_000) is message
    mixed = Message("tool", (OtherPart("image", {}), ToolResultPart("c", "shell", "x" * 4_000)))
    assert prune_message(mixed, 2_000) is mixed
    cut = prune_message(tool_message(ToolResultPart("c", "shell", "x" * 9_000, is_error=True)), 0)
    assert results_of(cut)[0].content == "\n[… 9000 characters left out …]\n"
    assert results_of(cut)[0].is_error


CLUSTERS = [
    "a",
    "e\u0301",
    "👨\u200d👩\u200d👧\u200d👦",
    "🇩🇪",
    "❤\ufe0f",
    "1\ufe0f\u20e3",
    "👍🏽",
    "क्षि",
    "한",
    "각",
    "\r\n",
    "框",
    "ก็",
    "\n",
    "é",
]


@settings(deadline=None, max_examples=200)
@given(st.lists(st.sampled_from(CLUSTERS), max_size=40), st.integers(-1, 60))
def test_no_grapheme_is_ever_split(clusters: list[str], limit: int) -> None:
    from wcwidth import iter_graphemes

    text = "".join(clusters)
    borders = {0}
    for grapheme in iter_graphemes(text):
        borders.add(max(borders) + len(grapheme))
    first, last = head(text, limit), tail(text, limit)
    assert text.startswith(first)
    assert text.endswith(last)
    assert len(first) == max(b for b in borders if b <= max(0, limit))
    assert len(text) - len(last) == min(b for b in borders if b >= len(text) - max(0, limit))


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_long_texts_are_cut_as_exactly_as_short_ones(cluster: str) -> None:
    text = f"< {cluster * 20_000} >"
    for limit in (999, 1_000, 1_001, 1_002, 1_003, 9_004, 9_005):
        for cut in (head(text, limit), tail(text, limit)):
            assert limit - len(cluster) < len(cut) <= limit
            assert not cut.replace(cluster, "").strip("< >")


def test_one_endless_grapheme_is_kept_whole_or_left_out_quickly() -> None:
    endless = "a" + "\u0301" * 50_000
    assert len(head("word " + endless, 100)) <= 100
    assert len(tail(endless + " word", 100)) <= 100


def test_the_middle_is_cut_only_where_that_shortens() -> None:
    def notice(left_out: int) -> str:
        return f"<{left_out}>"

    assert middle_cut("abcdef", 3, notice) == "abcdef"
    assert middle_cut("abcdefg", 3, notice) == "abcdefg"
    assert middle_cut("a" * 20, 3, notice) == "aaa\n<14>\naaa"
