"""Old tool results, cut to their head and tail without a model."""

from collections.abc import Sequence
from dataclasses import replace

from memory_core.context.config import PruneConfig
from memory_core.context.graphemes import middle_cut
from memory_core.context.tokens import MessageSizer
from memory_core.sessions.messages import Message, Part, ToolResultPart


def prune(messages: Sequence[Message], config: PruneConfig, size: MessageSizer) -> list[Message]:
    """Return `messages` with the tool results before the newest `protect_tokens` tokens cut; others are not copied.

    Nothing is cut when that saves less than `min_gain_tokens`. Results that were cut or evicted before are left alone,
    so that doing it twice changes nothing more.
    """
    newer, gain = 0, 0
    pruned = list(messages)
    for index in range(len(pruned) - 1, -1, -1):
        message = pruned[index]
        tokens = 0
        for part in message.parts:
            if isinstance(part, ToolResultPart):
                tokens += size.count(part.content)
        if tokens and newer >= config.protect_tokens:
            short = prune_message(message, config.keep_chars)
            if short is not message:
                gain += size(message) - size(short)
                pruned[index] = short
        newer += tokens
    return pruned if gain and gain >= config.min_gain_tokens else list(messages)


def prune_message(message: Message, keep_chars: int) -> Message:
    """Return `message` with each long tool result cut to `keep_chars` characters at both ends, or itself."""
    parts = tuple(_pruned(part, keep_chars) for part in message.parts)
    return (
        message
        if all(one is other for one, other in zip(parts, message.parts, strict=True))
        else replace(message, parts=parts)
    )


def _pruned(part: Part, keep_chars: int) -> Part:
    if not isinstance(part, ToolResultPart) or part.mark or len(part.content) <= 2 * keep_chars:
        return part
    cut = middle_cut(part.content, keep_chars, lambda left_out: f"[… {left_out} characters left out …]")
    return part if cut is part.content else replace(part, content=cut, mark="pruned")
