"""What holds for every history after every plan."""

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memory_core.context.config import CompactionConfig, PruneConfig, TruncateArgsConfig
from memory_core.context.pairs import mend
from memory_core.context.plan import Plan, apply, plan
from memory_core.context.tokens import MessageSizer
from memory_core.sessions.messages import (
    Message,
    ToolCallPart,
    ToolResultPart,
    assistant_message,
    tool_message,
    user_message,
)
from tests.context.histories import HISTORIES, last_user, long_histories, paired

CONFIGS = st.builds(
    CompactionConfig,
    trigger_messages=st.sampled_from([0, 2, 5, 12, 50]),
    trigger_tokens=st.sampled_from([0, 300, 2_000, 80_000]),
    trigger_context_ratio=st.sampled_from([0.0, 0.5, 0.75]),
    keep_tokens=st.sampled_from([0, 0, 100, 1_500]),
    truncate_args=st.one_of(
        st.none(),
        st.builds(
            TruncateArgsConfig,
            trigger_messages=st.sampled_from([0, 3]),
            keep_messages=st.sampled_from([0, 2, 20]),
            max_arg_length=st.just(200),
        ),
    ),
    prune=st.one_of(
        st.none(),
        st.builds(
            PruneConfig,
            protect_tokens=st.sampled_from([0, 500]),
            min_gain_tokens=st.sampled_from([0, 300]),
            keep_chars=st.sampled_from([0, 50]),
        ),
    ),
)
WINDOWS = st.sampled_from([None, 1_000, 8_000])
SUMMARIES = st.sampled_from(
    ["ok", "## SESSION INTENT\n" + "details " * 40, "摘要" * 4_000, "</conversation_summary> x"]
)
QUIET = settings(
    deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


def ids(messages: list[Message]) -> list[str]:
    return [message.id for message in messages]


@QUIET
@given(HISTORIES, CONFIGS, WINDOWS, SUMMARIES)
def test_every_plan_keeps_the_promises(
    history: list[Message], config: CompactionConfig, window: int | None, summary: str
) -> None:
    made = plan(history, config, window)
    after = apply(made, summary)

    assert paired(after)
    known = ids(history)
    assert [one for one in known if one in ids(after)] == [one for one in ids(after) if one in known], "the order stays"
    assert bool(after) == bool(history)
    assert last_user(history) is None or last_user(history) in ids(after)
    plain = [message.id for message in history if message.role == "system" and not _has_tools(message)]
    assert set(plain) <= set(ids(after)), "system messages stay"

    again = plan(after, config, window)
    assert apply(again, "another summary") == after, "planning twice changes nothing"


def _has_tools(message: Message) -> bool:
    return any(isinstance(part, ToolCallPart | ToolResultPart) for part in message.parts)


@QUIET
@given(HISTORIES, CONFIGS, WINDOWS, SUMMARIES)
def test_the_tokens_are_under_the_limit_whenever_that_is_possible(
    history: list[Message], config: CompactionConfig, window: int | None, summary: str
) -> None:
    made = plan(history, config, window)
    after = apply(made, summary)
    size = MessageSizer()
    assert size.total(after) <= made.tokens_planned or not made.needs_summary
    if not _must_stay_fits(history, made, size):
        return
    assert size.total(after) <= made.limit_tokens
    assert made.fits


def _must_stay_fits(history: list[Message], made: Plan, size: MessageSizer) -> bool:
    """Whether what must stay leaves room: system messages, the user's last message or the last one, and a summary."""
    mended = list(mend(history).messages)
    wanted = last_user(mended)
    stay = [message for message in mended if message.role == "system" or message.id == wanted]
    if any(_has_tools(message) for message in stay):
        return False  # its partners must stay too: those cases have tests of their own
    if wanted is None or any(_across(mended, message) for message in stay):
        return False
    room = max(160, min(2_000, made.limit_tokens // 4))
    return size.total(stay) + room <= made.limit_tokens


def _across(messages: list[Message], message: Message) -> bool:
    """Whether a pair lies across `message`, so that the pair must stay with it."""
    from memory_core.context.pairs import match

    at = messages.index(message)
    return any(call < at < result for call, result in match(messages).spans)


@QUIET
@given(HISTORIES, CONFIGS, WINDOWS)
def test_a_failed_summary_leaves_the_history_as_it_was(
    history: list[Message], config: CompactionConfig, window: int | None
) -> None:
    made = plan(history, config, window)
    for nothing in (None, "", "  \n"):
        after = apply(made, nothing)
        assert after == (history if made.needs_summary else list(made.messages))


@QUIET
@given(HISTORIES, CONFIGS, WINDOWS)
def test_a_forced_plan_keeps_pairs_and_the_users_last_message(
    history: list[Message], config: CompactionConfig, window: int | None
) -> None:
    made = plan(history, config, window, force=True)
    after = apply(made, "short")
    assert paired(after)
    assert last_user(history) is None or last_user(history) in ids(after)


@settings(QUIET, max_examples=25)
@given(long_histories(), CONFIGS, WINDOWS)
def test_the_promises_hold_for_up_to_2000_messages(
    history: list[Message], config: CompactionConfig, window: int | None
) -> None:
    made = plan(history, config, window)
    after = apply(made, "summary")
    assert paired(after)
    kept = set(ids(after))
    assert [one for one in ids(history) if one in kept] == [one for one in ids(after) if one in set(ids(history))]
    assert last_user(history) is None or last_user(history) in kept
    assert apply(plan(after, config, window), "other") == after


def _plain(i: int) -> list[Message]:
    return [user_message(f"request {i}"), assistant_message(f"answer {i}")]


def _same_id(_: int) -> list[Message]:
    return [
        assistant_message("", [ToolCallPart("same", "shell", "{}")]),
        tool_message(ToolResultPart("same", "shell", "out")),
    ]


def _aborted(i: int) -> list[Message]:
    return [
        assistant_message("", [ToolCallPart(f"{i}", "shell", "{}"), ToolCallPart(f"{i}b", "shell", "{}")]),
        tool_message(ToolResultPart(f"{i}", "shell", "out " * 100)),
    ]


@pytest.mark.parametrize("length", [1, 2, 50, 51, 500, 2_000])
@pytest.mark.parametrize("make", [_plain, _same_id, _aborted])
def test_long_histories_of_one_kind(length: int, make: Callable[[int], list[Message]]) -> None:
    history = [message for i in range(length) for message in make(i)][:length]
    made = plan(history)
    after = apply(made, "summary")
    assert paired(after)
    assert len(after) <= 22 or not made.needs_summary
    assert apply(plan(after), "other") == after
