"""Runs a plan: asks the model through a strategy and puts its text in place. One path for sync and async callers."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from memory_core.context.config import DEFAULT_WINDOW_TOKENS, CompactionConfig
from memory_core.context.drive import Complete, Interceptor, run, run_sync
from memory_core.context.plan import Plan, apply, plan
from memory_core.context.strategies.base import Strategy, SummaryFailedError, SummaryJob
from memory_core.context.strategies.cut import PlainCut
from memory_core.context.strategies.summary import Summary
from memory_core.context.tokens import MessageSizer
from memory_core.contracts import ChatModel
from memory_core.errors import ConfigError
from memory_core.sessions.messages import Message
from memory_core.text import estimate_tokens
from memory_core.tracing import span

log = logging.getLogger(__name__)

BeforeCompact: TypeAlias = Callable[[Plan], Awaitable[None] | None]
"""Called before messages leave the context, for a flush to the ledger or a copy to the transcript. Its error stops the
compaction and reaches the caller."""


@dataclass(frozen=True, slots=True)
class Compaction:
    """What came of it: the history to go on with, the plan behind it, and why a summary failed, if it did."""

    messages: list[Message]
    plan: Plan
    failure: str = ""

    @property
    def compacted(self) -> bool:
        """Whether a summary took the place of messages."""
        return self.plan.needs_summary and not self.failure


async def compact(
    messages: Sequence[Message],
    config: CompactionConfig | None = None,
    window_tokens: int | None = None,
    model: ChatModel | None = None,
    *,
    force: bool = False,
    size: MessageSizer | None = None,
    before: BeforeCompact | None = None,
) -> Compaction:
    """Plan `messages` and carry the plan out.

    Args:
        messages: The history, oldest first.
        config: The settings; its `compression_interceptor` replaces the built-in summary.
        window_tokens: The model's window; None takes 128,000.
        model: Writes the summary; None cuts without one.
        force: Compact although no trigger fired.
        size: Counts the tokens.
        before: Called with the plan before anything is summed up; only when something is.

    A model that fails changes nothing: the history comes back as it was, `failure` says why, a warning is logged.
    """
    config, made = _planned(messages, config, window_tokens, force=force, size=size)
    if not made.needs_summary:
        return Compaction(apply(made, None), made)
    with span("memory.compact", reason=made.reason, messages=len(made.compacted), tokens=made.tokens) as recorded:
        if before is not None:
            waiting = before(made)
            if waiting is not None:
                await waiting
        try:
            chosen = _chosen(config, has_model=model is not None)
            text = await run(chosen, _job(made, config, window_tokens), model)
        except SummaryFailedError as error:
            recorded.set("memory.failed", True)
            return _failed(made, str(error))
        done = _finished(made, text)
        recorded.set("memory.messages_left", len(done.messages))
    return done


def compact_sync(
    messages: Sequence[Message],
    config: CompactionConfig | None = None,
    window_tokens: int | None = None,
    complete: Complete | None = None,
    *,
    force: bool = False,
    size: MessageSizer | None = None,
    before: Callable[[Plan], None] | None = None,
) -> Compaction:
    """The same as `compact` for callers without an event loop; `complete` calls the model."""
    config, made = _planned(messages, config, window_tokens, force=force, size=size)
    if not made.needs_summary:
        return Compaction(apply(made, None), made)
    with span("memory.compact", reason=made.reason, messages=len(made.compacted), tokens=made.tokens) as recorded:
        if before is not None:
            before(made)
        try:
            chosen = _chosen(config, has_model=complete is not None)
            text = run_sync(chosen, _job(made, config, window_tokens), complete)
        except SummaryFailedError as error:
            recorded.set("memory.failed", True)
            return _failed(made, str(error))
        done = _finished(made, text)
        recorded.set("memory.messages_left", len(done.messages))
    return done


def _planned(
    messages: Sequence[Message],
    config: CompactionConfig | None,
    window_tokens: int | None,
    *,
    force: bool,
    size: MessageSizer | None,
) -> tuple[CompactionConfig, Plan]:
    config = config or CompactionConfig()
    return config, plan(messages, config, window_tokens, force=force, size=size)


def _job(made: Plan, config: CompactionConfig, window_tokens: int | None) -> SummaryJob:
    # The prompt, the summary and what the estimate is wrong by must find room beside the conversation.
    room = (window_tokens or DEFAULT_WINDOW_TOKENS) * 3 // 4 - made.summary_tokens - 500
    return SummaryJob(
        made.compacted,
        made.earlier_summaries,
        made.first_request,
        made.summary_tokens,
        max(500, room),
        config.summary_prompt,
        made.count or estimate_tokens,
    )


def _chosen(config: CompactionConfig, *, has_model: bool) -> Interceptor:
    interceptor: Any = config.compression_interceptor
    if interceptor is None:
        return Summary() if has_model else PlainCut()
    if isinstance(interceptor, Strategy) or callable(interceptor):
        return cast("Interceptor", interceptor)
    raise ConfigError(f"compression_interceptor is {interceptor!r}; it must be a strategy or a callable.")


def _failed(made: Plan, why: str) -> Compaction:
    log.warning("A compaction of %d messages failed, the context stays as it was: %s", len(made.compacted), why)
    return Compaction(apply(made, None), made, why)


def _finished(made: Plan, text: str | None) -> Compaction:
    if text is None or not text.strip():
        return _failed(made, "The strategy gave no text.")
    after = apply(made, text)
    log.info("Compacted %d messages (%s): %d → %d", len(made.compacted), made.reason, len(made.original), len(after))
    return Compaction(after, made)
