"""LangChain: `HumanMessage`, `AIMessage`, `ToolMessage`, `SystemMessage` and their kin, through their own JSON form.

The id is LangChain's where it has one; a message without gets ours. Kind and marks travel in
`additional_kwargs["memory_core"]`, which model integrations ignore.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from memory_core.errors import InvalidEntryError
from memory_core.sessions.converters.common import (
    OURS,
    Names,
    arguments_object,
    arguments_text,
    foreign_text,
    kept_content,
    our_marks,
    read_marks,
)
from memory_core.sessions.messages import (
    Message,
    Native,
    OtherPart,
    Part,
    Role,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    calls_of,
    new_id,
)

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

FORMAT = "langchain"
_ROLES: dict[str, Role] = {
    "human": "user",
    "ai": "assistant",
    "system": "system",
    "tool": "tool",
    "function": "tool",
    "chat": "user",
}
_TYPES: dict[Role, str] = {"user": "human", "assistant": "ai", "system": "system", "tool": "tool"}
_CALL_BLOCKS = frozenset(("tool_use", "function_call", "tool_call"))
Fields = dict[str, Any]


def from_langchain(messages: "Sequence[BaseMessage]") -> list[Message]:
    """Return neutral messages, one for each; chunks count as the message that they add up to.

    Raises:
        InvalidEntryError: A message is of a kind that holds no conversation (`RemoveMessage`).

    """
    from langchain_core.messages import message_chunk_to_message

    names = Names()
    return [_neutral(message_chunk_to_message(message), names) for message in messages]


def to_langchain(messages: Iterable[Message]) -> "list[BaseMessage]":
    """Return native messages: one for each, and one for each tool result beyond the first."""
    from langchain_core.messages import messages_from_dict

    return messages_from_dict([fields for message in messages for fields in _native(message)])


def _neutral(message: "BaseMessage", names: Names) -> Message:
    if message.type not in _ROLES:
        raise InvalidEntryError(f"A LangChain message of the type {message.type!r} holds no conversation.")
    data: Fields = message.model_dump(mode="json", fallback=repr)
    kind, marks = read_marks(data["additional_kwargs"].pop(OURS, None))
    given_id, content = data.pop("id", None), data.pop("content")
    role = _ROLES[message.type]
    parts: list[Part]
    if role == "tool":
        call_id = data.pop("tool_call_id", "")
        extra = {} if isinstance(content, str) else {"content": content}
        name = data.get("name") or names.of(call_id)
        failed = data.get("status") == "error"
        parts = [ToolResultPart(call_id, name, content_text(content), failed, marks.get("0", ""), extra)]
    else:
        parts = list(_content(content))
        parts += [names.called(_call(call)) for call in data.pop("tool_calls", ())]
        parts += [names.called(_invalid_call(call)) for call in data.pop("invalid_tool_calls", ())]
        if not isinstance(content, str):
            data["blocks"] = True
    if data.get("role") == "assistant":  # a ChatMessage names its role itself
        role = "assistant"
    return Message(role, tuple(parts), given_id or new_id(), kind=kind, native=Native(FORMAT, data))


def _content(content: Any) -> Iterable[Part]:
    if isinstance(content, str):
        if content:
            yield TextPart(content)
        return
    for block in content:
        if isinstance(block, str):
            yield TextPart(block)
        elif block.get("type") == "text" and isinstance(block.get("text"), str):
            yield TextPart(block["text"], {name: value for name, value in block.items() if name != "text"})
        else:
            yield OtherPart(str(block.get("type", "other")), block)


def _call(call: Fields) -> ToolCallPart:
    extra = {name: value for name, value in call.items() if name not in ("name", "id")}
    return ToolCallPart(call.get("id") or "", call["name"], arguments_text(call["args"]), extra)


def _invalid_call(call: Fields) -> ToolCallPart:
    extra = {name: value for name, value in call.items() if name not in ("name", "id")}
    return ToolCallPart(
        call.get("id") or "", call.get("name") or "", call.get("args") or "", {**extra, "invalid": True}
    )


def content_text(content: Any) -> str:
    """Return the text of a content, a string or blocks; what is no text is named in brackets."""
    if isinstance(content, str):
        return content
    return "\n".join(
        block if isinstance(block, str) else block["text"] if block.get("type") == "text" else f"[{block.get('type')}]"
        for block in content
    )


def _native(message: Message) -> list[Fields]:
    ours = message.native is not None and message.native.format == FORMAT
    data: Fields = dict(message.native.data) if ours and message.native is not None else {"type": _TYPES[message.role]}
    data["additional_kwargs"] = dict(data.get("additional_kwargs") or {})
    said = our_marks(message)
    if said:
        data["additional_kwargs"][OURS] = said
    results = [part for part in message.parts if isinstance(part, ToolResultPart)]
    found = [_result(part, data, message.id if number == 0 else None, ours=ours) for number, part in enumerate(results)]
    if message.role == "tool" and results:
        return found
    as_blocks = bool(data.pop("blocks", False))
    blocks = list(_blocks(message, ours=ours))
    if as_blocks or len(blocks) > 1:
        data["content"] = blocks
    else:
        data["content"] = content_text(blocks)
    if message.role == "assistant" and data["type"] == "ai":
        calls = [_native_call(part, ours=ours) for part in calls_of(message)]
        data["tool_calls"] = [call for call in calls if "error" not in call]
        data["invalid_tool_calls"] = [call for call in calls if "error" in call]
        if not ours and not blocks and not calls:
            return found
    elif not ours and not blocks:
        return found
    return [*found, {"type": data["type"], "data": {**data, "id": message.id}}]


def _blocks(message: Message, *, ours: bool) -> Iterable[Any]:
    ids = {part.call_id for part in calls_of(message)}
    for part in message.parts:
        match part:
            case TextPart():
                extra = part.extra if ours else None
                yield {"type": "text", **extra, "text": part.text} if extra else part.text
            case OtherPart() if ours:
                block: Fields = part.data
                if part.kind not in _CALL_BLOCKS or (block.get("call_id") or block.get("id")) in ids:
                    yield block
            case OtherPart():
                text = foreign_text(part.kind)
                if text:
                    yield text
            case _:
                continue


def _native_call(part: ToolCallPart, *, ours: bool) -> Fields:
    extra: Fields = dict(part.extra or {}) if ours else {}
    invalid = extra.pop("invalid", False)
    kept = extra.pop("args", None)
    args = kept if kept is not None and arguments_text(kept) == part.arguments else arguments_object(part.arguments)
    call: Fields = {**extra, "name": part.name, "id": part.call_id or None}
    if invalid or args is None:
        return {"error": None, **call, "args": part.arguments, "type": "invalid_tool_call"}
    return {**call, "args": args, "type": "tool_call"}


def _result(part: ToolResultPart, data: Fields, id: str | None, *, ours: bool) -> Fields:
    extra: Fields = dict(part.extra or {}) if ours else {}
    rest = (
        dict(data)
        if ours and data["type"] in ("tool", "function")
        else {"additional_kwargs": data["additional_kwargs"]}
    )
    rest = {"type": "tool", "name": part.name or None, **rest, "id": id}
    rest["content"] = kept_content(extra, part.content, content_text)
    if rest["type"] == "tool":
        rest["tool_call_id"] = part.call_id
        rest["status"] = "error" if part.is_error else "success"
    return {"type": rest["type"], "data": rest}
