"""Long arguments of old tool calls, cut without a model."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from memory_core.context.config import KEPT_ARG_CHARS, TruncateArgsConfig
from memory_core.context.graphemes import head
from memory_core.sessions.messages import Message, Part, ToolCallPart


def truncate_args(messages: Sequence[Message], config: TruncateArgsConfig, end: int | None = None) -> list[Message]:
    """Return `messages` with long arguments cut in all calls before index `end`; others are the same objects.

    Arguments stay valid JSON where they were. Doing it twice changes nothing more.
    """
    stop = len(messages) if end is None else max(0, end)
    return [*(truncate_message(message, config) for message in messages[:stop]), *messages[stop:]]


def truncate_message(message: Message, config: TruncateArgsConfig) -> Message:
    """Return `message` with its long arguments cut, or itself when there are none."""
    for part in message.parts:
        if isinstance(part, ToolCallPart) and len(part.arguments) > config.max_arg_length:
            break
    else:
        return message
    parts = tuple(_truncated(part, config) for part in message.parts)
    return message if parts == message.parts else replace(message, parts=parts)


def _truncated(part: Part, config: TruncateArgsConfig) -> Part:
    if not isinstance(part, ToolCallPart) or len(part.arguments) <= config.max_arg_length:
        return part
    try:
        arguments = json.loads(part.arguments)
    except (ValueError, RecursionError):
        arguments = None
    if not isinstance(arguments, dict):
        # Broken JSON, or not an object: keep its start, as an object, which every provider takes.
        short = json.dumps({"truncated": _cut(part.arguments, config)}, ensure_ascii=False)
        return replace(part, arguments=short)
    fields = cast("dict[str, Any]", arguments)
    cut = {name: _value(value, config) for name, value in fields.items()}
    return part if cut == fields else replace(part, arguments=json.dumps(cut, ensure_ascii=False))


def _value(value: Any, config: TruncateArgsConfig) -> Any:
    if isinstance(value, str):
        return _cut(value, config) if len(value) > config.max_arg_length else value
    if not isinstance(value, dict | list):
        return value
    written = json.dumps(value, ensure_ascii=False)
    return _cut(written, config) if len(written) > config.max_arg_length else cast("Any", value)


def _cut(text: str, config: TruncateArgsConfig) -> str:
    return head(text, KEPT_ARG_CHARS) + config.truncation_text
