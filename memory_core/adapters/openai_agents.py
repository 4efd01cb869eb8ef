"""The OpenAI Agents SDK: one of our sessions as its `Session` (extra `openai-agents`).

Items of the Responses API come back exactly as they were added; text, calls and results are also read into neutral
parts, so that the search over conversations, compaction and other frameworks understand them.
"""

import asyncio
import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

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
from memory_core.sessions.session import AgentSession

if TYPE_CHECKING:
    from agents.items import TResponseInputItem
    from agents.memory import SessionSettings

FORMAT = "openai-agents"
_ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant"}


class AgentsSession:
    """A session for `Runner.run(agent, input, session=…)`.

    Args:
        session: Where the items are kept.
        session_settings: The SDK's settings; `limit` is how many items a run is given.
    """

    def __init__(self, session: AgentSession, session_settings: "SessionSettings | None" = None) -> None:
        self.session = session
        self.session_id = session.session_id
        self.session_settings = session_settings

    async def get_items(self, limit: int | None = None) -> "list[TResponseInputItem]":
        """Return the latest `limit` items in their order, or all.

        Raises:
            StorageUnavailableError: They could not be read.
        """
        if limit is None and self.session_settings is not None:
            limit = self.session_settings.limit
        messages = await asyncio.to_thread(self.session.messages)
        items: list[Any] = [item for message in messages for item in to_items(message)]
        return items if limit is None else items[max(0, len(items) - limit) :] if limit > 0 else []

    async def add_items(self, items: "list[TResponseInputItem]") -> None:
        """Add items at the end, durably.

        Raises:
            InvalidEntryError: One is not JSON; none was added.
            StorageUnavailableError: They could not be written.
        """
        given: list[Any] = list(items)
        await asyncio.to_thread(self.session.append, [from_item(item) for item in given])

    async def pop_item(self) -> "TResponseInputItem | None":
        """Remove the last item and return it, or None; a message of another framework goes as a whole."""
        last: list[Message] = []

        def without(messages: list[Message]) -> list[Message]:
            last[:] = messages[-1:]
            return messages[:-1]

        await asyncio.to_thread(self.session.rewrite, without)
        items: list[Any] = [item for message in last for item in to_items(message)]
        return items[-1] if items else None

    async def clear_session(self) -> None:
        """Forget all items."""
        await asyncio.to_thread(self.session.clear)


def from_item(item: Mapping[str, Any]) -> Message:
    """Return an item as a message; its id is always ours, for the SDK gives several items the same one."""
    fields = dict(item)
    native = Native(FORMAT, fields)
    kind = fields.get("type", "message")
    if kind == "message":
        role = _ROLES.get(str(fields.get("role")))
        if role is None:  # a developer's or system item: kept for the SDK, no part of what was said
            return Message("user", (OtherPart("prompt"),), native=native)
        return Message(role, tuple(_content(fields.get("content"))), native=native)
    if kind == "function_call":
        call = ToolCallPart(_str(fields, "call_id"), _str(fields, "name"), _str(fields, "arguments"))
        return Message("assistant", (call,), native=native)
    if kind == "function_call_output":
        output = "\n".join(part.text for part in _content(fields.get("output")) if isinstance(part, TextPart))
        return Message("tool", (ToolResultPart(_str(fields, "call_id"), "", output),), native=native)
    return Message("assistant", (OtherPart(str(kind)),), native=native)


def to_items(message: Message) -> list[dict[str, Any]]:
    """Return a message as items: the one that it was, or, where its parts were changed since, those that say them."""
    if message.native is not None and message.native.format == FORMAT:
        item: dict[str, Any] = json.loads(json.dumps(dict(message.native.data)))
        if from_item(item).parts == message.parts:
            return [item]
    items: list[dict[str, Any]] = []
    text = "\n".join(part.text for part in message.parts if isinstance(part, TextPart))
    if text:
        items.append({"role": "assistant" if message.role == "assistant" else "user", "content": text})
    for part in message.parts:
        if isinstance(part, ToolCallPart):
            items.append(
                {"type": "function_call", "call_id": part.call_id, "name": part.name, "arguments": part.arguments}
            )
        elif isinstance(part, ToolResultPart):
            items.append({"type": "function_call_output", "call_id": part.call_id, "output": part.content})
    return items


def _content(content: Any) -> Iterable[Part]:
    if isinstance(content, str):
        yield TextPart(content)
        return
    for block in content if isinstance(content, list) else ():  # pyright: ignore[reportUnknownVariableType]
        text: Any = block.get("text") if isinstance(block, Mapping) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        yield TextPart(text) if isinstance(text, str) else OtherPart("content")


def _str(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name)
    return value if isinstance(value, str) else ""
