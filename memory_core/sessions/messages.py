"""The neutral message: what sessions store, what the context is planned from, what every framework converts to.

A message is a role and a tuple of parts. The parts are the truth: they may be shortened, dropped or replaced, and the
converters build the native message from what is left. Whatever a framework has beyond the neutral fields (signatures,
usage, image detail, thinking) travels along in `Message.native` and in each part's `extra`, so that a conversion there
and back loses nothing.

One line of JSON per message, stable between versions:
`{"id": …, "time": …, "role": …, "kind": …, "parts": [{"type": "text", "text": …}, …], "native": …}`.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias, cast, get_args
from uuid import uuid4

from pydantic_core import from_json

from memory_core.errors import CorruptEntryError

Role = Literal["system", "user", "assistant", "tool"]
Kind = Literal["normal", "summary", "injected"]
"""What a message is to us: part of the conversation, the summary of a compaction, or a block that we injected."""
Mark = Literal["", "evicted", "pruned"]
"""What was done to a tool result: nothing, moved to a file, or cut to its head and tail."""
Extra: TypeAlias = Mapping[str, Any]
"""A part's native fields, JSON only; obeyed only by the framework that `Message.native` names."""

ROLES: frozenset[str] = frozenset(get_args(Role))
KINDS: frozenset[str] = frozenset(get_args(Kind))
MARKS: frozenset[str] = frozenset(get_args(Mark))


@dataclass(frozen=True, slots=True)
class TextPart:
    """Text that a person or a model wrote."""

    text: str
    extra: Extra | None = field(default=None, hash=False)


@dataclass(frozen=True, slots=True)
class ToolCallPart:
    """A model's call of a tool. `arguments` is the JSON text as the model wrote it, which may be broken or empty.

    `call_id` joins it with its result; it may be empty where a provider gives none.
    """

    call_id: str
    name: str
    arguments: str = ""
    extra: Extra | None = field(default=None, hash=False)


@dataclass(frozen=True, slots=True)
class ToolResultPart:
    """What a tool answered, as text. `is_error` says that it failed; `mark` says what we cut."""

    call_id: str
    name: str
    content: str
    is_error: bool = False
    mark: Mark = ""
    extra: Extra | None = field(default=None, hash=False)


@dataclass(frozen=True, slots=True)
class OtherPart:
    """Anything else: `kind` is a short name (`"thinking"`, `"image"`, `"system-prompt"`), `data` its native JSON."""

    kind: str
    data: Any = field(default=None, hash=False)


Part: TypeAlias = TextPart | ToolCallPart | ToolResultPart | OtherPart


@dataclass(frozen=True, slots=True)
class Native:
    """The native message without its parts: `format` names the framework, `data` is JSON."""

    format: str
    data: Extra = field(default_factory=dict[str, Any], hash=False)


def new_id() -> str:
    """Return a new message id: 32 hexadecimal digits."""
    return uuid4().hex


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Message:
    """One message. `time` is aware UTC; `id` is unique in its conversation.

    Tool results usually stand in messages of the role `tool`, several of them for parallel calls; they may also stand
    in a `user` message beside new text. Look at the parts, not at the role, to find calls and results.
    """

    role: Role
    parts: tuple[Part, ...]
    id: str = field(default_factory=new_id)
    time: datetime = field(default_factory=_now)
    kind: Kind = "normal"
    native: Native | None = None


def user_message(text: str, *, kind: Kind = "normal") -> Message:
    """Return a user's message of plain text."""
    return Message("user", (TextPart(text),), kind=kind)


def assistant_message(text: str = "", calls: Iterable[ToolCallPart] = ()) -> Message:
    """Return a model's message: text, if any, then its tool calls."""
    return Message("assistant", (*((TextPart(text),) if text else ()), *calls))


def tool_message(*results: ToolResultPart) -> Message:
    """Return a message with the results of one or several tool calls."""
    return Message("tool", results)


def text_of(message: Message) -> str:
    """Return the text parts, joined by newlines; neither tool calls nor results."""
    return "\n".join(part.text for part in message.parts if isinstance(part, TextPart))


def calls_of(message: Message) -> list[ToolCallPart]:
    """Return the tool calls in their order."""
    return [part for part in message.parts if isinstance(part, ToolCallPart)]


def results_of(message: Message) -> list[ToolResultPart]:
    """Return the tool results in their order."""
    return [part for part in message.parts if isinstance(part, ToolResultPart)]


def part_fields(part: Part) -> dict[str, Any]:
    """Return the JSON form of a part."""
    fields: dict[str, Any]
    match part:
        case TextPart():
            fields = {"type": "text", "text": part.text}
        case ToolCallPart():
            fields = {"type": "call", "call_id": part.call_id, "name": part.name, "arguments": part.arguments}
        case ToolResultPart():
            fields = {"type": "result", "call_id": part.call_id, "name": part.name, "content": part.content}
            if part.is_error:
                fields["is_error"] = True
            if part.mark:
                fields["mark"] = part.mark
        case OtherPart():
            return {"type": "other", "kind": part.kind, "data": part.data}
    if part.extra is not None:
        fields["extra"] = part.extra
    return fields


def message_fields(message: Message) -> dict[str, Any]:
    """Return the JSON form of a message."""
    fields: dict[str, Any] = {"id": message.id, "time": message.time.isoformat(), "role": message.role}
    if message.kind != "normal":
        fields["kind"] = message.kind
    fields["parts"] = [part_fields(part) for part in message.parts]
    if message.native is not None:
        fields["native"] = {"format": message.native.format, "data": message.native.data}
    return fields


def message_to_json(message: Message) -> str:
    """Return the JSON form of a message as one line without its newline.

    Raises:
        TypeError, ValueError: Its native data is not JSON.

    """
    fields = message_fields(message)
    return json_line(fields)


_plain = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)
_escaped = json.JSONEncoder(separators=(",", ":"), allow_nan=False)


def json_line(fields: Mapping[str, Any]) -> str:
    """Return JSON on one line that UTF-8 can carry: readable, and escaped only where a lone surrogate is in it.

    Raises:
        TypeError, ValueError: It is not JSON.
    """
    line = _plain.encode(fields)
    try:
        line.encode()
    except UnicodeEncodeError:
        return _escaped.encode(fields)
    return line


def _text(fields: Mapping[str, Any], name: str) -> str:
    value = fields[name]
    if not isinstance(value, str):
        raise TypeError(f"{name!r} is not text")
    return value


def _mapping(value: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"{name!r} is not an object")
    return cast("dict[str, Any]", value)


def _one_of(value: Any, known: frozenset[str], name: str) -> Any:
    if value not in known:
        raise ValueError(f"{name!r} is none of {', '.join(sorted(filter(None, known)))}")
    return value


def _part(fields: Mapping[str, Any]) -> Part:
    extra = _mapping(fields["extra"], "extra") if "extra" in fields else None
    match fields["type"]:
        case "text":
            return TextPart(_text(fields, "text"), extra)
        case "call":
            return ToolCallPart(_text(fields, "call_id"), _text(fields, "name"), _text(fields, "arguments"), extra)
        case "result":
            return ToolResultPart(
                _text(fields, "call_id"),
                _text(fields, "name"),
                _text(fields, "content"),
                bool(fields.get("is_error", False)),
                _one_of(fields.get("mark", ""), MARKS, "mark"),
                extra,
            )
        case "other":
            return OtherPart(_text(fields, "kind"), fields.get("data"))
        case unknown:
            raise ValueError(f"the part type {unknown!r} is unknown")


def message_from_fields(fields: Any) -> Message:
    """Build a message from its JSON form, checking everything.

    Raises:
        CorruptEntryError: A field is missing or wrong.

    """
    try:
        fields = _mapping(fields, "the message")
        time = datetime.fromisoformat(_text(fields, "time"))
        if time.tzinfo is None:
            raise ValueError("'time' has no time zone")
        native = None
        if fields.get("native") is not None:
            holder = _mapping(fields["native"], "native")
            native = Native(_text(holder, "format"), _mapping(holder.get("data", {}), "native data"))
        return Message(
            _one_of(fields["role"], ROLES, "role"),
            tuple(_part(_mapping(part, "a part")) for part in fields["parts"]),
            _text(fields, "id"),
            time if time.tzinfo is UTC else time.astimezone(UTC),
            _one_of(fields.get("kind", "normal"), KINDS, "kind"),
            native,
        )
    except KeyError as error:
        raise CorruptEntryError(f"A stored message lacks {error}.") from error
    except (TypeError, ValueError, OverflowError) as error:
        raise CorruptEntryError(f"A stored message cannot be read: {error}.") from error


def message_from_json(line: str | bytes) -> Message:
    """Build a message from one line of JSON, checking everything.

    Raises:
        CorruptEntryError: The line is not JSON, or not a message.

    """
    return message_from_fields(fields_from_json(line))


def fields_from_json(line: str | bytes) -> Any:
    """Return what a line of JSON says.

    Raises:
        CorruptEntryError: The line is not JSON.
    """
    try:
        return from_json(line)  # three times as fast, but it refuses lone surrogates and deep nesting
    except ValueError:
        try:
            return json.loads(line)
        except (ValueError, RecursionError) as error:
            raise CorruptEntryError(f"This line is not JSON: {error}.") from error
