"""Hermes's conversations (OpenAI dictionaries with fields of its own) as messages, and which of them were seen."""

import json
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from memory_core.errors import InvalidEntryError
from memory_core.naming import short_hash
from memory_core.sessions.converters.openai import content_text, from_openai
from memory_core.sessions.messages import Message

MAX_SEEN = 4_000
_FIELDS = ("role", "content", "name", "tool_calls", "tool_call_id")
Fields = Mapping[str, Any]


def turn_of(messages: Sequence[Fields], user: str, assistant: str) -> list[Fields]:
    """Return the last turn: from the message with the user's text on; without it, the two texts alone."""
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].get("role") == "user" and _text(messages[index]) == user.strip():
            return list(messages[index:])
    return [{"role": "user", "content": user}, {"role": "assistant", "content": assistant}]


def readable(messages: Iterable[Fields]) -> list[Message]:
    """Return what can be read, without Hermes's own fields; a message of a form that nobody knows is left out."""
    plain = [{name: fields[name] for name in _FIELDS if name in fields} for fields in messages]
    try:
        return from_openai(plain)
    except InvalidEntryError:
        found: list[Message] = []
        for fields in plain:
            try:
                found += from_openai([fields])
            except InvalidEntryError:
                continue
        return found


class Seen:
    """The messages that were handed over already, by what they say; the last 4,000."""

    def __init__(self) -> None:
        self._marks: OrderedDict[str, None] = OrderedDict()

    def add(self, messages: Iterable[Fields]) -> None:
        """Note messages."""
        for fields in messages:
            self._marks[_mark(fields)] = None
            if len(self._marks) > MAX_SEEN:
                self._marks.popitem(last=False)

    def without(self, messages: Iterable[Fields]) -> list[Fields]:
        """Return the messages that were not noted."""
        return [fields for fields in messages if _mark(fields) not in self._marks]

    def after(self, messages: Sequence[Fields]) -> list[Fields]:
        """Return the messages behind the last one that was noted; none where none was."""
        for index in range(len(messages) - 1, -1, -1):
            if _mark(messages[index]) in self._marks:
                return list(messages[index + 1 :])
        return []

    def clear(self) -> None:
        """Forget everything."""
        self._marks.clear()


def _mark(fields: Fields) -> str:
    said = [fields.get("role"), _text(fields), fields.get("tool_calls"), fields.get("tool_call_id")]
    return short_hash(json.dumps(said, default=str, sort_keys=True), 8)


def _text(fields: Fields) -> str:
    try:
        return content_text(fields.get("content")).strip()
    except (KeyError, TypeError, AttributeError):  # a form that nobody knows
        return str(fields.get("content"))
