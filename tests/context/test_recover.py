"""One forced compaction and one retry when the model says that the context is too long after all."""

import asyncio
from collections.abc import Sequence

import pytest

from memory_core.context.compact import Compaction, compact, compact_sync
from memory_core.context.config import CompactionConfig
from memory_core.context.plan import plan
from memory_core.context.recover import with_recovery, with_recovery_sync
from memory_core.sessions.messages import (
    Message,
    ToolCallPart,
    ToolResultPart,
    assistant_message,
    tool_message,
    user_message,
)
from tests.context.test_compact import Model, talk


def agentic(turns: int) -> list[Message]:
    history = [user_message("one request")]
    for i in range(turns):
        history += [
            assistant_message("", [ToolCallPart(f"c{i}", "shell", "{}")]),
            tool_message(ToolResultPart(f"c{i}", "shell", "out " * 200)),
        ]
    return history


async def test_overflow_is_recovered_by_one_forced_compaction_and_one_retry() -> None:
    history = agentic(12)
    sent: list[int] = []

    async def send(messages: Sequence[Message]) -> str:
        await asyncio.sleep(0)
        sent.append(len(messages))
        if len(messages) == len(history):
            raise RuntimeError("Your input exceeds the context window of this model")
        return "answer"

    async def force(messages: Sequence[Message]) -> Compaction:
        return await compact(messages, CompactionConfig(), None, Model("so far"), force=True)

    done = await with_recovery(send, history, force)
    assert done.value == "answer"
    assert len(sent) == 2
    assert done.compaction is not None
    assert done.compaction.plan.reason == "forced"
    assert done.messages == done.compaction.messages
    assert history[0] in done.messages
    with pytest.raises(RuntimeError, match="context window"):
        await with_recovery(send, history, None)
    assert len(sent) == 3


async def test_recovery_is_tried_once_and_only_for_overflows() -> None:
    attempts: list[int] = []
    forced: list[int] = []

    async def always(messages: Sequence[Message]) -> str:
        await asyncio.sleep(0)
        attempts.append(len(messages))
        raise RuntimeError("prompt is too long: 2 tokens > 1 maximum")

    async def force(messages: Sequence[Message]) -> Compaction:
        forced.append(len(messages))
        return await compact(messages, CompactionConfig(), None, Model("so far"), force=True)

    with pytest.raises(RuntimeError, match="too long"):
        await with_recovery(always, agentic(12), force)
    assert (len(attempts), len(forced)) == (2, 1)

    async def limited(_: Sequence[Message]) -> str:
        await asyncio.sleep(0)
        raise RuntimeError("Rate limit: too many tokens per minute")

    with pytest.raises(RuntimeError, match="Rate limit"):
        await with_recovery(limited, agentic(12), force)
    assert len(forced) == 1

    async def failing(messages: Sequence[Message]) -> Compaction:
        return await compact(messages, CompactionConfig(), None, Model(RuntimeError("503")), force=True)

    attempts.clear()
    with pytest.raises(RuntimeError, match="too long"):
        await with_recovery(always, agentic(12), failing)
    assert len(attempts) == 1, "nothing has changed, so there is nothing to try"


async def test_without_an_overflow_nothing_is_compacted() -> None:
    async def send(messages: Sequence[Message]) -> int:
        await asyncio.sleep(0)
        return len(messages)

    done = await with_recovery(send, talk(3))
    assert (done.value, done.compaction) == (6, None)


def test_recovery_without_an_event_loop() -> None:
    history = agentic(12)

    def send(messages: Sequence[Message]) -> int:
        if len(messages) == len(history):
            raise RuntimeError("prompt is too long: 2 tokens > 1 maximum")
        return len(messages)

    def force(messages: Sequence[Message]) -> Compaction:
        return compact_sync(messages, force=True)

    done = with_recovery_sync(send, history, force)
    assert done.compaction is not None
    assert done.value == len(done.messages) < len(history)
    with pytest.raises(RuntimeError):
        with_recovery_sync(send, history)
    with pytest.raises(RuntimeError):
        with_recovery_sync(send, history, lambda messages: Compaction(list(messages), plan(messages), "failed"))
    assert with_recovery_sync(send, talk(1)).compaction is None
