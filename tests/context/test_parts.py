"""Pairs, tokens, settings, what is carried, what a model is shown."""

import json
import subprocess
import sys
import types
from dataclasses import replace

import pytest
from pydantic import ValidationError

from memory_core.context.carry import first_request, summary_message, summary_text
from memory_core.context.config import CompactionConfig, TruncateArgsConfig
from memory_core.context.pairs import INTERRUPTED, groups, match, mend
from memory_core.context.plan import apply, plan
from memory_core.context.render import quoted, render
from memory_core.context.tokens import MEDIA_TOKENS, MessageSizer, cut_to_tokens, tiktoken_counter
from memory_core.errors import MissingExtraError
from memory_core.sessions.messages import (
    Message,
    OtherPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    assistant_message,
    message_from_json,
    message_to_json,
    results_of,
    text_of,
    tool_message,
    user_message,
)
from memory_core.text import estimate_tokens
from tests.context.histories import paired


def call(*ids: str, name: str = "shell") -> Message:
    return assistant_message("", [ToolCallPart(one, name, "{}") for one in ids])


def answer(*ids: str, name: str = "shell", content: str = "out") -> Message:
    return tool_message(*(ToolResultPart(one, name, content) for one in ids))


def test_parallel_calls_hold_together_with_all_their_results() -> None:
    history = [
        user_message("go"),
        call("a", "b", "c"),
        answer("b"),
        answer("a"),
        user_message("wait"),
        answer("c"),
        call("d"),
        answer("d"),
    ]
    assert groups(history) == [(0, 1), (1, 6), (6, 8)]
    assert mend(history).messages == tuple(history)


def test_an_id_that_comes_twice_is_joined_in_order() -> None:
    history = [call("a"), answer("a", content="1"), call("a"), answer("a", content="2")]
    assert match(history).spans == ((0, 1), (2, 3))
    assert match([call("a"), call("a"), answer("a"), answer("a")]).spans == ((0, 2), (1, 3))


def test_without_ids_the_name_joins() -> None:
    history = [
        assistant_message("", [ToolCallPart("", "x"), ToolCallPart("", "y")]),
        answer("", name="y"),
        answer("", name="x"),
    ]
    assert match(history).spans == ((0, 1), (0, 2))
    assert match([call(""), answer("z")]).orphan_results == ((1, 0),)


def test_an_interrupted_call_gets_a_result_and_an_orphan_goes() -> None:
    history = [answer("early"), call("a", "b"), answer("a"), answer("a"), answer("late")]
    mended = mend(history)
    assert paired(list(mended.messages))
    assert (mended.results_added, mended.results_dropped) == (1, 3)
    added = results_of(mended.messages[1])[0]
    assert (added.call_id, added.content, added.is_error) == ("b", INTERRUPTED, True)
    assert mend(history) == mended, "pure: ids and times are not made up"
    assert mend(mended.messages).messages == mended.messages


def test_text_beside_an_orphan_stays_and_the_last_message_is_never_lost() -> None:
    beside = Message("user", (ToolResultPart("gone", "shell", "old"), TextPart("and now?")))
    assert mend([beside]).messages[0].parts == (TextPart("and now?"),)
    lone = mend([answer("gone", content="the output")]).messages
    assert (len(lone), lone[0].role, text_of(lone[0])) == (1, "user", "the output")
    assert mend([]).messages == ()


def test_a_sizer_counts_every_part_once() -> None:
    counted: list[str] = []

    def count(text: str) -> int:
        counted.append(text)
        return len(text)

    size = MessageSizer(count)
    message = Message(
        "assistant",
        (TextPart("abc"), ToolCallPart("1", "sh", "{}"), OtherPart("thinking", "hm"), OtherPart("x", {"a": 1})),
    )
    assert size(message) == size(message) == 4 + 3 + 4 + 8 + 2 + len('{"a": 1}')
    assert len(counted) == 1
    assert size(replace(message)) == size(message)
    assert len(counted) == 2, "known by identity, not by id: a changed message is counted again"
    assert MessageSizer()(Message("user", (OtherPart("image", "A" * 10**6),))) == MEDIA_TOKENS + 4


def test_the_estimate_weighs_scripts() -> None:
    assert estimate_tokens("") == 0
    assert estimate_tokens("a") == 1
    assert estimate_tokens("word " * 100) == 125
    assert estimate_tokens("框架" * 50) == 80
    assert estimate_tokens("，。" * 50) == 80
    assert estimate_tokens("カ" * 100) == 75
    assert estimate_tokens("é" * 100) == 25


def test_a_text_is_cut_to_tokens() -> None:
    assert cut_to_tokens("short", 10, estimate_tokens) == "short"
    cut = cut_to_tokens("框架" * 1_000, 100, estimate_tokens)
    assert 90 <= estimate_tokens(cut) <= 100
    assert cut_to_tokens("abc", 0, estimate_tokens) == ""


def test_tiktoken_counts_when_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Codec:
        def encode_ordinary(self, text: str) -> list[int]:
            return [len(word) for word in text.split()]

    module = types.ModuleType("tiktoken")
    asked: list[str] = []

    def get_encoding(name: str) -> Codec:
        asked.append(name)
        return Codec()

    vars(module)["get_encoding"] = get_encoding
    monkeypatch.setitem(sys.modules, "tiktoken", module)
    count = tiktoken_counter()
    assert (count("one two three"), asked) == (3, ["o200k_base"])
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    with pytest.raises(MissingExtraError, match=r"memory-talent\[tiktoken\]"):
        tiktoken_counter()


def test_a_users_counter_decides() -> None:
    history = [user_message("x" * 100) for _ in range(5)]
    assert plan(history, CompactionConfig(trigger_tokens=400), size=MessageSizer(len)).reason == "tokens"
    assert plan(history, CompactionConfig(trigger_tokens=400)).reason == ""


def test_the_defaults_are_those_of_the_originals() -> None:
    config = CompactionConfig()
    assert (config.trigger_messages, config.trigger_tokens, config.trigger_context_ratio) == (50, 80_000, 0.75)
    assert (config.keep_messages, config.keep_tokens, config.model) == (20, 0, None)
    assert config.flush_before_compact
    assert config.offload_before_compact
    args = TruncateArgsConfig()
    assert (args.trigger_messages, args.trigger_tokens, args.keep_messages, args.max_arg_length) == (
        25,
        40_000,
        20,
        2_000,
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"keep_messages": 0}, {"trigger_messages": -1}, {"trigger_context_ratio": 1.5}, {"summary_prompt": "none"},
        {"trigger_messages": 20, "keep_messages": 20}, {"unknown": 1}, {"keep_tokens": -5}, {"summary_max_tokens": 10},
    ],
)  # fmt: skip
def test_wrong_settings_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        CompactionConfig.model_validate(wrong)


def test_the_lowest_token_trigger_is_the_limit() -> None:
    assert CompactionConfig().limit_tokens(None) == 80_000
    assert CompactionConfig().limit_tokens(32_000) == 24_000
    assert CompactionConfig(trigger_tokens=0).limit_tokens(None) == 96_000
    assert CompactionConfig(trigger_tokens=0, trigger_context_ratio=0).limit_tokens(8_000) == 8_000
    assert CompactionConfig(trigger_messages=10).kept_messages == 5
    assert CompactionConfig(trigger_messages=30, keep_messages=10).kept_messages == 10


def test_triggers_by_messages_do_not_count_system_messages() -> None:
    rules = Message("system", (TextPart("rules"),))
    talk = [user_message(f"{i}") for i in range(49)]
    assert plan([rules, rules, *talk]).reason == ""
    made = plan([rules, rules, *talk, user_message("one more")])
    assert (made.reason, len(made.compacted)) == ("messages", 30)
    after = apply(made, "summary")
    assert after[:2] == [rules, rules]
    assert plan(talk, CompactionConfig(trigger_messages=0)).reason == ""


def test_keep_tokens_overrides_keep_messages() -> None:
    talk = [user_message("x" * 396) for _ in range(60)]  # 103 tokens each
    made = plan(talk, CompactionConfig(keep_tokens=1_100))
    assert len(made.after) == 10
    alone = plan([*talk, user_message("y" * 9_000)], CompactionConfig(keep_tokens=100))
    assert len(alone.after) == 1, "at least the last one"


def test_the_users_last_message_stays_through_a_long_turn() -> None:
    history = [user_message("old"), assistant_message("done"), user_message("the task")]
    for i in range(60):
        history += [call(f"c{i}"), answer(f"c{i}")]
    after = apply(plan(history), "so far")
    assert [m.kind for m in after[:2]] == ["summary", "normal"]
    assert text_of(after[1]) == "the task"
    assert len(after) == 22
    only = apply(plan(history[2:]), "so far")
    assert (text_of(only[0]), only[1].kind) == ("the task", "summary"), "the summary stands where the gap is"


def test_a_giant_turn_is_shortened_inside() -> None:
    history = [user_message("go"), call("a"), answer("a", content="x" * 600_000)]
    made = plan(history)
    assert made.reason == "tokens"
    assert not made.needs_summary
    assert made.fits
    assert results_of(apply(made, None)[2])[0].mark == "pruned"


def test_what_cannot_fit_is_as_small_as_it_can_be() -> None:
    history = [*(user_message(f"{i} " * 100) for i in range(10)), user_message("x" * 600_000)]
    made = plan(history)
    assert not made.fits
    assert apply(made, "s")[-1] is history[-1]
    assert len(apply(made, "s")) == 2


@pytest.mark.parametrize("share", [0.1, 0.4, 0.8])
def test_force_makes_room_even_when_the_last_request_alone_is_more_than_half(share: float) -> None:
    last = user_message("x" * int(40_000 * share))
    older = [user_message("y" * int(4_000 * (1 - share))) for _ in range(10)]
    made = plan([*older, last], force=True)
    after = apply(made, "short")
    size = MessageSizer()
    assert made.reason == "forced"
    assert after[-1] is last
    assert size.total(after) < 0.9 * size.total([*older, last])
    assert len(after) == 2 or made.fits


def test_above_the_trigger_but_within_the_window_the_kept_end_stays() -> None:
    history = [*(user_message(f"{i}") for i in range(30)), user_message("x" * 340_000)]  # 85,000 tokens of 128,000
    after = apply(plan(history), "s")
    assert len(after) == 21
    assert apply(plan(after), "other") == after


def test_a_summary_message_survives_storage_with_what_it_carries() -> None:
    compacted = [user_message("the very first " * 500), assistant_message("ok")]
    request = first_request([], compacted)
    made = summary_message("what happened", request, compacted, 2_000, estimate_tokens)
    again = message_from_json(message_to_json(made))
    assert again == made
    assert summary_text(again) == "what happened"
    assert first_request([again], [user_message("not this")]) == request
    assert "characters left out" in text_of(again)
    assert first_request([], [assistant_message("no user here")]) is None
    assert summary_text(user_message("from elsewhere", kind="summary")) == "from elsewhere"
    assert summary_message("s", None, [], 2_000, estimate_tokens).kind == "summary"


@pytest.mark.parametrize("room", [160, 300, 2_000])
def test_a_summary_message_keeps_to_its_room(room: int) -> None:
    long = [user_message("请求" * 2_000)]
    made = summary_message("details " * 5_000, first_request([], long), long, room, estimate_tokens)
    assert MessageSizer()(made) <= room
    assert "details" in text_of(made)
    assert "请求" in text_of(made)


def test_what_a_model_is_shown() -> None:
    history = [
        Message("system", (TextPart("rules"),)),
        user_message("injected block", kind="injected"),
        user_message("line one\nline two"),
        assistant_message("checking", [ToolCallPart("a", "write_file", json.dumps({"c": "y" * 900}))]),
        tool_message(ToolResultPart("a", "write_file", "z" * 3_000, is_error=True)),
        Message("assistant", (OtherPart("thinking", "secret"), OtherPart("image", {"data": "AAAA"}))),
        Message("user", ()),
    ]
    text = render(history, 10_000, estimate_tokens)
    assert "rules" not in text
    assert "injected" not in text
    assert "secret" not in text
    assert "AAAA" not in text
    assert "| line one\n| line two" in text
    assert "| calls write_file: " in text
    assert "| write_file failed: " in text
    assert text.count("z") <= 1_000 + 20
    assert "| (image)" in text
    assert render([], 100, estimate_tokens) == ""
    assert quoted("a\u2028[system]\rb") == "| a\n| [system]\n| b"


@pytest.mark.parametrize("budget", [200, 1_000, 20_000])
def test_a_conversation_is_shown_within_its_budget(budget: int) -> None:
    history = [user_message(f"{i} " + "word " * 300) for i in range(200)]
    text = render(history, budget, estimate_tokens)
    assert estimate_tokens(text) <= budget
    assert "| 0 word" in text
    if budget == 1_000:
        assert "messages left out]" in text
        assert "| 199 word" in text


@pytest.mark.parametrize("module", ["strategies.base", "plan", "render", "files", "overflow", "drive", "carry"])
def test_every_module_can_be_imported_first_and_loads_nothing_heavy(module: str) -> None:
    code = (
        f"import sys, memory_core.context.{module}\n"
        "from memory_core.context import compact, plan, prune\n"
        "assert all(map(callable, (compact, plan, prune)))\n"
        "print(*sorted({'wcwidth', 'tiktoken', 'pydantic_ai', 'numpy', 'redis'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr
