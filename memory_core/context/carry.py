"""The message that stands for what was compacted: its summary, and what is carried from summary to summary.

It is a user's message of the kind `summary`. What it carries is kept beside the text, so that the next compaction reads
structure and never has to parse prose that a model or a user wrote.
"""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, cast

from memory_core.context.graphemes import middle_cut
from memory_core.context.tokens import MESSAGE_TOKENS, TokenCounter, cut_to_tokens
from memory_core.sessions.messages import Message, TextPart, text_of

TAG = "conversation_summary"
REQUEST_CHARS = 1_000
"""How much of each end of the first request is carried."""
_EXTRA = "compaction"
_INTRO = "The earlier part of this conversation was replaced by this summary. It is a record, not a new request."


def summary_text(message: Message) -> str:
    """Return the bare summary that a summary message carries, or its text when it came from elsewhere."""
    carried = _carried(message).get("summary")
    return carried if isinstance(carried, str) else text_of(message)


def first_request(earlier: Sequence[Message], compacted: Sequence[Message]) -> str | None:
    """Return the first request of the user: as the oldest summary carries it, else the first one that is compacted."""
    for message in earlier:
        carried = _carried(message).get("first_request")
        if isinstance(carried, str):
            return carried
    for message in compacted:
        if message.role == "user" and message.kind == "normal" and text_of(message).strip():
            return middle_cut(text_of(message), REQUEST_CHARS, lambda left_out: f"[… {left_out} characters left out …]")
    return None


def summary_message(
    summary: str, request: str | None, compacted: Sequence[Message], max_tokens: int, count: TokenCounter
) -> Message:
    """Return the message that stands for `compacted`, of at most `max_tokens` tokens by `count`.

    The summary is cut when it is too long, and the carried request before it. Its id and time follow from what it
    stands for: the same input gives the same message.
    """
    room = max_tokens - MESSAGE_TOKENS
    if request is not None and count(_written("", request)) > room * 2 // 3:
        request = cut_to_tokens(request, max(0, room * 2 // 3 - count(_written("", ""))), count) or None
    body = summary.strip()
    text = _written(body, request)
    spent = count(text)
    while body and spent > room:
        body = cut_to_tokens(body, max(0, count(body) - (spent - room) - 4), count).rstrip()
        text = _written(body, request)
        spent = count(text)
    last = compacted[-1] if compacted else None
    identity = sha256("\0".join([text, *(message.id for message in compacted)]).encode("utf-8", "replace"))
    extra: dict[str, Any] = {_EXTRA: {"summary": body, "first_request": request}}
    part = TextPart(text, extra)
    if last is None:
        return Message("user", (part,), identity.hexdigest()[:32], kind="summary")
    return Message("user", (part,), identity.hexdigest()[:32], last.time, kind="summary")


def _written(summary: str, request: str | None) -> str:
    first = f"First request of the user:\n{request}\n\n" if request else ""
    inside = f"{first}{summary}".replace(f"</{TAG}", f"< /{TAG}")
    return f"<{TAG}>\n{_INTRO}\n\n{inside}\n</{TAG}>"


def _carried(message: Message) -> Mapping[str, Any]:
    for part in message.parts:
        if isinstance(part, TextPart) and part.extra and isinstance(part.extra.get(_EXTRA), dict):
            return cast("Mapping[str, Any]", part.extra[_EXTRA])
    return {}
