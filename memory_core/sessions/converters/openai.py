"""OpenAI chat completions: the dictionaries of `messages=[…]`.

A dictionary has no place for ids, times, kinds and marks (the service refuses unknown fields): they are new when it is
read, and lost when it is written. Keep the neutral messages, and convert only what goes to the service.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from memory_core.errors import InvalidEntryError
from memory_core.sessions.converters.common import Names, foreign_text, kept_content
from memory_core.sessions.messages import (
    Message,
    Native,
    OtherPart,
    Part,
    Role,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)

FORMAT = "openai-chat"
_ROLES: Mapping[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}
Fields = dict[str, Any]


def from_openai(messages: Iterable[Mapping[str, Any]]) -> list[Message]:
    """Return neutral messages, one for each dictionary. Results are named after the call that they answer.

    Raises:
        InvalidEntryError: A dictionary is not a chat message.

    """
    names = Names()
    try:
        return [_neutral(dict(fields), names) for fields in messages]
    except (KeyError, TypeError, AttributeError) as error:
        raise InvalidEntryError(f"This is not an OpenAI chat message: {type(error).__name__} {error}.") from error


def to_openai(messages: Iterable[Message]) -> list[Fields]:
    """Return chat dictionaries: one for each message, and one for each tool result beyond the first."""
    return [fields for message in messages for fields in _native(message)]


def _neutral(fields: Fields, names: Names) -> Message:
    role = fields["role"]
    if role not in _ROLES:
        raise TypeError(f"there is no role {role!r}")
    rest = dict(fields)
    content = rest.pop("content", None)
    if ("content" in fields and content is None) or content == []:
        rest["content"] = content
    parts: list[Part]
    if _ROLES[role] == "tool":
        call_id = rest.pop("tool_call_id", "")
        extra = {} if isinstance(content, str) else {"content": content}
        name = fields.get("name") or names.of(call_id)
        parts = [ToolResultPart(call_id, name, content_text(content), extra=extra)]
        rest.pop("content", None)
    else:
        parts = list(_content(content))
        calls = rest.pop("tool_calls", None)
        parts += [names.called(_call(call)) for call in calls or ()]
        if calls is not None and not calls:
            rest["tool_calls"] = calls
        legacy = rest.pop("function_call", None)
        if legacy is not None:
            parts.append(ToolCallPart("", legacy["name"], legacy["arguments"], {"function_call": True}))
    return Message(_ROLES[role], tuple(parts), native=Native(FORMAT, rest))


def _content(content: Any) -> Iterable[Part]:
    if isinstance(content, str):
        yield TextPart(content)
        return
    for block in content or ():
        if block["type"] == "text":
            yield TextPart(block["text"], {name: value for name, value in block.items() if name != "text"})
        else:
            yield OtherPart(block["type"], block)


def _call(call: Fields) -> ToolCallPart:
    kind = call.get("type", "function")
    inner: Fields = dict(call[kind])
    text = "input" if kind == "custom" else "arguments"
    extra = {name: value for name, value in call.items() if name not in ("id", kind)}
    more = {name: value for name, value in inner.items() if name not in ("name", text)}
    return ToolCallPart(call["id"], inner["name"], inner[text], {**extra, "inner": more} if more else extra)


def content_text(content: Any) -> str:
    """Return the text of a content, a string or blocks; what is no text is named in brackets."""
    if isinstance(content, str):
        return content
    return "\n".join(block["text"] if block["type"] == "text" else f"[{block['type']}]" for block in content or ())


def _native(message: Message) -> list[Fields]:
    ours = message.native is not None and message.native.format == FORMAT
    rest: Fields = dict(message.native.data) if ours and message.native is not None else {"role": message.role}
    results = [_result(part, rest, ours=ours) for part in message.parts if isinstance(part, ToolResultPart)]
    if message.role == "tool" and results:
        return results
    blocks: list[Fields] = []
    calls: list[Fields] = []
    plain: list[str] = []
    for part in message.parts:
        extra: Fields = dict(getattr(part, "extra", None) or {}) if ours else {}
        match part:
            case TextPart():
                plain.append(part.text)
                blocks.append({"type": "text", **extra, "text": part.text})
                if extra:
                    rest["content"] = []
            case ToolCallPart() if extra.pop("function_call", False):
                rest["function_call"] = {"name": part.name, "arguments": part.arguments}
            case ToolCallPart():
                calls.append(_native_call(part, extra))
            case OtherPart() if ours:
                blocks.append(part.data)
                rest["content"] = []
            case OtherPart():
                text = foreign_text(part.kind)
                if text:
                    plain.append(text)
                    blocks.append({"type": "text", "text": text})
            case ToolResultPart():
                continue
    if blocks:
        rest["content"] = blocks if rest.get("content") is not None else "\n".join(plain)
    elif not ours and calls:
        rest["content"] = None
    if calls:
        rest["tool_calls"] = calls
    if not blocks and not calls and not ours:
        return results
    rest["role"] = rest.get("role", message.role)
    return [*results, rest]


def _result(part: ToolResultPart, rest: Fields, *, ours: bool) -> Fields:
    extra: Fields = dict(part.extra or {}) if ours else {}
    if rest.get("role") == "function":
        return {**rest, "name": part.name, "content": kept_content(extra, part.content, content_text)}
    named = {name: value for name, value in rest.items() if name != "content"} if rest.get("role") == "tool" else {}
    content = kept_content(extra, part.content, content_text)
    return {**named, "role": "tool", "tool_call_id": part.call_id, "content": content}


def _native_call(part: ToolCallPart, extra: Fields) -> Fields:
    inner: Fields = extra.pop("inner", {})
    kind = extra.get("type", "function")
    text = "input" if kind == "custom" else "arguments"
    return {"type": "function", **extra, "id": part.call_id, kind: {**inner, "name": part.name, text: part.arguments}}
