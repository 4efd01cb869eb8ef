"""What to do with a history that grows too long: pure functions, no I/O, no model.

`plan` says what stays, what gives way to a summary, and shortens what can be shortened without a model; the caller has
a strategy write the summary (`memory_core.context.compact`); `apply` puts it in its place.

Promises, for every history: every tool call has its result and every result its call; the order stays; system
messages, the last message of the user and at least one message stay; the tokens are under the limit whenever the
messages that must stay leave room for a summary; planning the outcome again changes nothing.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from memory_core.context.carry import first_request, summary_message, summary_text
from memory_core.context.config import DEFAULT_WINDOW_TOKENS, CompactionConfig, PruneConfig, TruncateArgsConfig
from memory_core.context.layout import lay_out
from memory_core.context.pairs import mend
from memory_core.context.prune import prune
from memory_core.context.tokens import MessageSizer, TokenCounter
from memory_core.context.truncate import truncate_args
from memory_core.sessions.messages import Message

Reason = Literal["", "messages", "tokens", "forced"]
MIN_SUMMARY_TOKENS = 160


@dataclass(frozen=True, slots=True)
class Plan:
    """What becomes of a history.

    `before` and `after` stand on both sides of the summary; without `needs_summary` they are simply the history as it
    goes on. `compacted` are the messages that the summary is to replace, `earlier` the summaries among them. `reason`
    says which trigger fired. `tokens` counts the history as it came, `tokens_planned` as it will be, with room for a
    summary of `summary_tokens`; `limit_tokens` is what was aimed at.
    """

    original: tuple[Message, ...] = field(repr=False)
    before: tuple[Message, ...] = field(repr=False)
    after: tuple[Message, ...] = field(repr=False)
    compacted: tuple[Message, ...] = field(default=(), repr=False)
    earlier: tuple[Message, ...] = field(default=(), repr=False)
    needs_summary: bool = False
    reason: Reason = ""
    tokens: int = 0
    tokens_planned: int = 0
    limit_tokens: int = 0
    summary_tokens: int = 0
    results_added: int = 0
    results_dropped: int = 0
    count: TokenCounter | None = field(default=None, repr=False, compare=False)

    @property
    def messages(self) -> tuple[Message, ...]:
        """The history as it goes on without a summary."""
        return self.before + self.after

    @property
    def changed(self) -> bool:
        """Whether anything is to be done at all."""
        return self.needs_summary or self.messages != self.original

    @property
    def fits(self) -> bool:
        """Whether the planned history is within the limit."""
        return self.tokens_planned <= self.limit_tokens

    @property
    def first_request(self) -> str | None:
        """The user's first request, when it is among what is compacted."""
        return first_request(self.earlier, self.compacted)

    @property
    def earlier_summaries(self) -> tuple[str, ...]:
        """The texts of the summaries that the new one is to carry on."""
        return tuple(summary_text(message) for message in self.earlier)


def plan(
    messages: Iterable[Message],
    config: CompactionConfig | None = None,
    window_tokens: int | None = None,
    *,
    force: bool = False,
    size: MessageSizer | None = None,
) -> Plan:
    """Plan what becomes of `messages` before they are sent to a model.

    Args:
        messages: The whole history, oldest first; system messages may be among it.
        config: The settings; None takes the defaults.
        window_tokens: The model's window; None takes 128,000.
        force: Compact although no trigger fired, down to half of the present tokens: the model said that it is too
            much, so the estimate was too low.
        size: Counts the tokens; None estimates. Pass the same object again to save counting twice.
    """
    config = config or CompactionConfig()
    size = size or MessageSizer()
    original = tuple(messages)
    mended = mend(original)
    history: Sequence[Message] = mended.messages
    tokens = size.total(history)
    limit = config.limit_tokens(window_tokens)
    truncated = config.truncate_args is not None and _truncation_due(history, tokens, config.truncate_args)
    if config.truncate_args is not None and truncated:
        history = truncate_args(history, config.truncate_args, len(history) - config.truncate_args.keep_messages)
    if config.prune is not None:
        history = prune(history, config.prune, size)
    shortened = size.total(history) if history is not mended.messages else tokens
    if force:
        limit = min(limit, shortened // 2)
    reason = _reason(history, shortened, limit, config, force=force)
    outcome = Plan(
        original,
        (),
        tuple(history),
        tokens=tokens,
        tokens_planned=shortened,
        limit_tokens=limit,
        results_added=mended.results_added,
        results_dropped=mended.results_dropped,
        count=size.count,
    )
    if not reason or not history:
        return outcome
    if config.truncate_args is not None and not truncated:
        # Due or not by its own triggers: what the summary adds must not make it due at the next planning.
        history = truncate_args(history, config.truncate_args, len(history) - config.truncate_args.keep_messages)
    room = max(MIN_SUMMARY_TOKENS, min(config.summary_max_tokens, limit // 4))
    layout = lay_out(
        history,
        mended.pairs,
        size,
        keep_messages=config.kept_messages,
        keep_tokens=config.keep_tokens,
        limit_tokens=limit,
        window_tokens=limit if force else window_tokens or DEFAULT_WINDOW_TOKENS,
        summary_tokens=room,
        shorten_args=config.truncate_args or TruncateArgsConfig(),
        keep_chars=(config.prune or PruneConfig()).keep_chars,
    )
    return replace(
        outcome,
        before=tuple(layout.before),
        after=tuple(layout.after),
        compacted=tuple(layout.compacted),
        earlier=tuple(layout.earlier),
        needs_summary=layout.needs_summary,
        reason=reason,
        tokens_planned=size.total(layout.before) + size.total(layout.after) + (room if layout.needs_summary else 0),
        summary_tokens=room,
    )


def apply(plan: Plan, summary: str | None) -> list[Message]:
    """Return the history as planned, with `summary` in the place of what was compacted.

    A blank summary, or None, where one is needed means that making it failed: the history comes back as it was. Where
    none is needed, `summary` is ignored.
    """
    if not plan.needs_summary:
        return list(plan.messages)
    if summary is None or not summary.strip():
        return list(plan.original)
    count = plan.count or MessageSizer().count
    replaced = (*plan.earlier, *plan.compacted)
    message = summary_message(summary, plan.first_request, replaced, plan.summary_tokens, count)
    return [*plan.before, message, *plan.after]


def _truncation_due(history: Sequence[Message], tokens: int, config: TruncateArgsConfig) -> bool:
    by_messages = 0 < config.trigger_messages <= len(history)
    return by_messages or 0 < config.trigger_tokens <= tokens


def _reason(history: Sequence[Message], tokens: int, limit: int, config: CompactionConfig, *, force: bool) -> Reason:
    if force:
        return "forced"
    if tokens > limit:
        return "tokens"
    if not 0 < config.trigger_messages <= len(history):
        return ""
    spoken = sum(message.role != "system" for message in history)
    return "messages" if config.trigger_messages <= spoken else ""
