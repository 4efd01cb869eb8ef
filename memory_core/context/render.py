"""A conversation as text for a model that is to condense it.

Every line that somebody else wrote stands behind `| `, so that no content can pass for a heading, a tag or the end of
the conversation. Our own injected blocks and system messages are left out by their kind and role.
"""

from collections.abc import Sequence

from memory_core.context.graphemes import middle_cut
from memory_core.context.tokens import TokenCounter, cut_to_tokens
from memory_core.sessions.messages import Message, Part, TextPart, ToolCallPart, ToolResultPart

ARGUMENT_CHARS = 500
RESULT_CHARS = 1_000
_CAPS = (100_000, 8_000, 2_000, 500, 120)
"""How much of each text is shown, in characters: the first with which the whole fits."""


def quoted(text: str) -> str:
    """Return `text` with `| ` before each line, whatever separates its lines."""
    return "\n".join(f"| {line}" for line in text.splitlines()) if text else ""


def render(messages: Sequence[Message], budget_tokens: int, count: TokenCounter) -> str:
    """Return the conversation as text of at most about `budget_tokens` tokens.

    Tool arguments are cut at 500 characters, results at 1,000. Longer texts are cut in their middle until the whole
    fits; when even 120 characters of each are too many, messages in the middle are left out, with a line that says so.
    """
    spoken = [message for message in messages if message.kind == "normal" and message.role != "system"]
    blocks: list[str] = []
    for cap in _CAPS:
        blocks = [block for block in (_block(message, cap) for message in spoken) if block]
        if count("\n\n".join(blocks)) <= budget_tokens:
            return "\n\n".join(blocks)
    keep = len(blocks) // 2
    text = "\n\n".join(blocks)
    while keep > 1 and count(text) > budget_tokens:
        keep //= 2
        left_out = f"[{len(blocks) - 2 * keep} messages left out]"
        text = "\n\n".join([*blocks[:keep], left_out, *blocks[-keep:]])
    return cut_to_tokens(text, budget_tokens, count)


def _block(message: Message, cap: int) -> str:
    lines = [line for line in (_line(part, cap) for part in message.parts) if line]
    return "\n".join([f"[{message.role}]", *lines]) if lines else ""


def _line(part: Part, cap: int) -> str:
    if isinstance(part, TextPart):
        return quoted(_short(part.text, cap)) if part.text.strip() else ""
    if isinstance(part, ToolCallPart):
        return quoted(f"calls {part.name}: {_short(part.arguments, min(cap, ARGUMENT_CHARS))}")
    if isinstance(part, ToolResultPart):
        failed = "failed" if part.is_error else "returned"
        return quoted(f"{part.name or 'the tool'} {failed}: {_short(part.content, min(cap, RESULT_CHARS))}")
    return "" if part.kind in ("thinking", "system-prompt") else quoted(f"({part.kind})")


def _short(text: str, cap: int) -> str:
    return middle_cut(text, cap // 2, lambda left_out: f"[… {left_out} characters left out …]")
