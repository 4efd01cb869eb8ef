"""pydantic-ai: `ModelRequest` and `ModelResponse`, through their own JSON form.

One native message is one neutral message. A request is a `tool` message when it holds only tool results, `system` when
only system prompts, else `user`. Requests and responses carry no id: ours is the hash of the native JSON, times
included, so that converting the same message twice gives the same id. Where that hash would not give the id back (the
message was changed, or came from elsewhere), the id goes into `metadata["memory_core"]`, which is not sent to models.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from memory_core.errors import InvalidEntryError
from memory_core.naming import short_hash
from memory_core.sessions.converters.common import (
    OURS,
    arguments_text,
    foreign_text,
    kept_content,
    our_marks,
    read_marks,
    without,
)
from memory_core.sessions.messages import (
    Mark,
    Message,
    Native,
    OtherPart,
    Part,
    Role,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage

FORMAT = "pydantic-ai"
_FAILED = ("failed", "retried")
_FILES = frozenset(("image-url", "audio-url", "video-url", "document-url", "binary", "uploaded-file"))
Fields = dict[str, Any]


def from_pydantic_ai(messages: "Sequence[ModelMessage]") -> list[Message]:
    """Return neutral messages, one for each.

    Raises:
        InvalidEntryError: A message has content that cannot be written as JSON.

    """
    from pydantic_ai.messages import ModelMessagesTypeAdapter

    try:
        dumped: list[Fields] = ModelMessagesTypeAdapter.dump_python(list(messages), mode="json")
    except ValueError as error:
        raise InvalidEntryError(f"A pydantic-ai message cannot be written as JSON: {error}") from error
    return [_neutral(fields) for fields in dumped]


def to_pydantic_ai(messages: Iterable[Message]) -> "list[ModelMessage]":
    """Return native messages, one for each neutral one that has anything to say.

    Raises:
        InvalidEntryError: Kept native data is not what pydantic-ai accepts.

    """
    from pydantic_ai.messages import ModelMessagesTypeAdapter

    built = [(message, _native(message)) for message in messages]
    built = [(message, fields) for message, fields in built if fields["parts"] or _ours(message)]
    try:
        found = ModelMessagesTypeAdapter.validate_python([fields for _, fields in built])
    except ValueError as error:
        raise InvalidEntryError(f"A stored message is not what pydantic-ai accepts: {error}") from error
    dumped: list[Fields] = ModelMessagesTypeAdapter.dump_python(found, mode="json")
    for native, fields, (message, _) in zip(found, dumped, built, strict=True):
        said = our_marks(message)
        carried = next((part.extra for part in message.parts if isinstance(part, TextPart) and part.extra), None)
        if message.kind == "summary" and carried:
            said["carried"] = carried  # what one compaction hands to the next has no other place here
        if _derived_id(fields) != message.id:
            said["id"] = message.id
        if said:
            native.metadata = {**(native.metadata or {}), OURS: said}
    return found


def _ours(message: Message) -> bool:
    return message.native is not None and message.native.format == FORMAT


def _derived_id(fields: Fields) -> str:
    return short_hash(json.dumps(_compact(fields), sort_keys=True), 16)


def _compact(value: Any) -> Any:
    """Drop what is None, so that a release with a new optional field gives the same id."""
    if isinstance(value, dict):
        return {k: _compact(v) for k, v in value.items() if v is not None}  # pyright: ignore[reportUnknownVariableType]
    return [_compact(v) for v in value] if isinstance(value, list) else value  # pyright: ignore[reportUnknownVariableType]


def _neutral(fields: Fields) -> Message:
    metadata: Fields = dict(fields.get("metadata") or {})
    said = metadata.pop(OURS, None)
    fields = {**fields, "metadata": metadata or None}
    kind, marks = read_marks(said)
    given_id = said.get("id") if isinstance(said, dict) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    parts = tuple(_parts(fields["parts"], marks))
    carried = said.get("carried") if isinstance(said, dict) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    if kind == "summary" and isinstance(carried, dict) and parts and isinstance(parts[0], TextPart):
        extra: Fields = carried  # pyright: ignore[reportUnknownVariableType]
        parts = (replace(parts[0], extra={**(parts[0].extra or {}), **extra}), *parts[1:])
    return Message(
        _role(fields, parts),
        parts,
        given_id if isinstance(given_id, str) and given_id else _derived_id(fields),
        _time(fields),
        kind,
        Native(FORMAT, without(fields, "parts")),
    )


def _role(fields: Fields, parts: Sequence[Part]) -> Role:
    if fields["kind"] == "response":
        return "assistant"
    if parts and all(isinstance(part, ToolResultPart) for part in parts):
        return "tool"
    if parts and all(isinstance(part, OtherPart) and part.kind == "system-prompt" for part in parts):
        return "system"
    return "user"


def _time(fields: Fields) -> datetime:
    stamps = [fields.get("timestamp"), *(part.get("timestamp") for part in fields["parts"])]
    text = next((stamp for stamp in stamps if stamp), None)
    return datetime.fromisoformat(text).astimezone(UTC) if text else datetime.now(UTC)


def _parts(natives: Iterable[Fields], marks: dict[str, Mark]) -> Iterable[Part]:
    results = 0
    for number, native in enumerate(natives):
        match native["part_kind"]:
            case "user-prompt":
                yield from _prompt(number, native)
            case "text":
                yield TextPart(native["content"], without(native, "content"))
            case "tool-call":
                args = native.get("args")
                extra = without(native, "tool_name", "tool_call_id", "args")
                if args is not None and (not isinstance(args, str) or not args):
                    extra["args"] = args
                yield ToolCallPart(native["tool_call_id"], native["tool_name"], arguments_text(args), extra)
            case "tool-return" | "retry-prompt" if native.get("tool_name") is not None:
                content = native.get("content")
                extra = without(native, "tool_name", "tool_call_id", "content")
                if not isinstance(content, str):
                    extra["content"] = content
                failed = native["part_kind"] == "retry-prompt" or native.get("outcome") in _FAILED
                mark = marks.get(str(results), "")
                results += 1
                name = native["tool_name"]
                yield ToolResultPart(native["tool_call_id"], name, result_text(content), failed, mark, extra)
            case kind:
                yield OtherPart(kind, without(native))


def _prompt(number: int, native: Fields) -> Iterable[Part]:
    """Yield the items of a user's prompt; `item` says which of them stood in one prompt."""
    content, rest = native["content"], without(native, "content")
    if isinstance(content, str):
        yield TextPart(content, rest)
        return
    if not content:
        yield OtherPart("user-prompt", native)
    for item in content:
        if isinstance(item, str):
            yield TextPart(item, {**rest, "item": number})
        elif item.get("kind") == "text-content":
            yield TextPart(item["content"], {**rest, "item": number, "wrap": without(item, "content")})
        else:
            yield OtherPart(item.get("kind", "other"), {**rest, "item": number, "content": item})


def result_text(content: Any) -> str:
    """Return what a tool gave as text: JSON for data, the kind in brackets for a file."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    items: list[Any] = content if isinstance(content, list) else [content]  # pyright: ignore[reportUnknownVariableType]
    if not any(_is_file(item) for item in items):
        return json.dumps(content, ensure_ascii=False)
    return "\n".join(f"[{item['kind']}]" if _is_file(item) else result_text(item) for item in items)


def _is_file(item: Any) -> bool:
    return isinstance(item, dict) and item.get("kind") in _FILES  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def _native(message: Message) -> Fields:
    ours = _ours(message)
    rest = dict(message.native.data) if ours and message.native is not None else {}
    response = message.role == "assistant"
    if not ours:
        rest["timestamp"] = message.time.isoformat()
    rest["kind"] = "response" if response else "request"
    parts: list[Fields] = []
    for part in message.parts:
        native = _native_part(part, message, ours=ours)
        if native is None:
            continue
        item = native.pop("item", None)
        if item is not None and parts and parts[-1].get("item") == item:
            parts[-1]["content"].append(native["content"])
        elif item is not None:
            parts.append({**native, "content": [native["content"]], "item": item})
        else:
            parts.append(native)
    for native in parts:
        native.pop("item", None)
    return {**rest, "parts": parts}


def _native_part(part: Part, message: Message, *, ours: bool) -> Fields | None:
    extra: Fields = dict(getattr(part, "extra", None) or {}) if ours else {}
    stamp = {} if ours else {"timestamp": message.time.isoformat()}
    match part:
        case TextPart() if message.role == "assistant":
            return {"part_kind": "text", **extra, "content": part.text}
        case TextPart():
            wrap = extra.pop("wrap", None)
            kind = "system-prompt" if message.role == "system" else "user-prompt"
            return {
                "part_kind": kind,
                **stamp,
                **extra,
                "content": {**wrap, "content": part.text} if wrap else part.text,
            }
        case ToolCallPart():
            kept = extra.pop("args", None)
            args = kept if kept is not None and arguments_text(kept) == part.arguments else part.arguments or None
            return {"part_kind": "tool-call", **extra, **_tool(part), "args": args}
        case ToolResultPart():
            content = kept_content(extra, part.content, result_text)
            if (extra.get("outcome") in _FAILED or extra.get("part_kind") == "retry-prompt") != part.is_error:
                extra["outcome"] = "failed" if part.is_error else "success"
            return {"part_kind": "tool-return", **stamp, **extra, **_tool(part), "content": content}
        case OtherPart() if ours:
            return dict(part.data)
        case OtherPart():
            text = foreign_text(part.kind)
            kind = "text" if message.role == "assistant" else "user-prompt"
            return {"part_kind": kind, "content": text} if text else None


def _tool(part: ToolCallPart | ToolResultPart) -> Fields:
    return {"tool_name": part.name, "tool_call_id": part.call_id}
