"""What the converters share."""

import json
from collections.abc import Callable, Mapping
from typing import Any, cast

from memory_core.sessions.messages import KINDS, MARKS, Kind, Mark, Message, ToolCallPart, results_of

OURS = "memory_core"
"""The key under which a native message carries our id, kind and marks, where the framework has a place for it."""

_SILENT = frozenset(("thinking", "reasoning", "system-prompt", "tool_use", "function_call", "tool_call"))


def arguments_text(arguments: Any) -> str:
    """Return tool arguments as JSON text; text stays as it is, None is empty."""
    if arguments is None:
        return ""
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)


def arguments_object(arguments: str) -> dict[str, Any] | None:
    """Return tool arguments as an object; empty text is an empty one, None when they are not one."""
    if not arguments.strip():
        return {}
    try:
        found = json.loads(arguments)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else None


def without(fields: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Return the fields that are neither named nor None."""
    return {name: value for name, value in fields.items() if name not in names and value is not None}


def foreign_text(kind: str) -> str | None:
    """Return what stands for a part of another framework: its kind in brackets, or None to leave it out."""
    return None if kind in _SILENT else f"[{kind}]"


def our_marks(message: Message) -> dict[str, Any]:
    """Return kind and marks in JSON form; empty when there is nothing to say."""
    said: dict[str, Any] = {} if message.kind == "normal" else {"kind": message.kind}
    marks = {str(index): part.mark for index, part in enumerate(results_of(message)) if part.mark}
    return {**said, "marks": marks} if marks else said


def read_marks(said: Any) -> tuple[Kind, dict[str, Mark]]:
    """Return kind and marks (index among the results → mark) from the form of `our_marks`, ignoring what is wrong."""
    fields = _object(said)
    kind = fields.get("kind", "normal")
    marks = _object(fields.get("marks"))
    known: dict[str, Mark] = {
        index: cast("Mark", mark) for index, mark in marks.items() if isinstance(mark, str) and mark in MARKS
    }
    return (cast("Kind", kind) if isinstance(kind, str) and kind in KINDS else "normal"), known


def _object(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


class Names:
    """Remembers which tool a call id belongs to, for results that do not name it."""

    def __init__(self) -> None:
        self._by_id: dict[str, str] = {}

    def called(self, part: ToolCallPart) -> ToolCallPart:
        """Remember a call and return it."""
        self._by_id[part.call_id] = part.name
        return part

    def of(self, call_id: str) -> str:
        """Return the tool's name, or empty text."""
        return self._by_id.get(call_id, "")


def kept_content(extra: Mapping[str, Any], text: str, render: Callable[[Any], str]) -> Any:
    """Return the native content that `extra` kept while it still says `text`, else `text` itself."""
    return extra["content"] if "content" in extra and render(extra["content"]) == text else text
