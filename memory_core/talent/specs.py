"""Tools as data: what a model is shown, what a program gets back, and how a call of the model is checked."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from memory_core.errors import did_you_mean

_NAME_CHARS = 100  # a model that sent a million characters does not want them back


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool did: `text` for the model, `data` for programs, `ok=False` when it failed."""

    text: str
    data: Mapping[str, Any] = field(default_factory=dict[str, Any])
    ok: bool = True

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class ToolContext:
    """Who calls and from where: given by the program, never by the model."""

    cwd: str
    session_id: str | None = None


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """One tool: its name, its description and JSON Schema for the model, and the function behind it.

    `run(arguments, context)` takes whatever the model sent, checks it, and never raises for bad input: the result's
    text says what is wrong.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    run: Callable[[Mapping[str, Any], ToolContext], ToolResult]

    def openai(self) -> dict[str, Any]:
        """Return the tool in the form of OpenAI's function calling."""
        function = {"name": self.name, "description": self.description, "parameters": dict(self.parameters)}
        return {"type": "function", "function": function}


def check_arguments(schema: Mapping[str, Any], arguments: object) -> str | None:
    """Return what is wrong with the names of a call's arguments, or None: unknown, missing, or not an object."""
    if not isinstance(arguments, Mapping):
        return f"the arguments must be an object, not {type(arguments).__name__}"
    known: Mapping[str, Any] = schema["properties"]
    for name in arguments:  # pyright: ignore[reportUnknownVariableType]
        if name not in known:
            wrong = str(name)[:_NAME_CHARS]  # pyright: ignore[reportUnknownArgumentType]
            return f"there is no parameter {wrong!r}.{did_you_mean(wrong, known)} There are: {', '.join(known)}"
    missing = [name for name in schema.get("required", ()) if arguments.get(name) is None]  # pyright: ignore[reportUnknownMemberType]
    return f"the parameter {missing[0]!r} is missing" if missing else None


def parse_whole(value: object, low: int, high: int) -> int | None:
    """Return a model's number clamped to `low`..`high`, or None when it is no whole number.

    `8`, `8.0`, `"8"` and `"8/10"` (of `high`) are 8; `7.5`, `"80/100"`, true, null and infinity are refused.
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        head, slash, tail = value.strip().partition("/")
        if "_" in head:  # Python's own way of writing numbers
            return None
        if slash and tail.strip() != str(high):
            return None
        try:
            value = float(head)
        except ValueError:
            return None
    if isinstance(value, float):
        if not value.is_integer():  # neither are NaN and infinity
            return None
        value = int(value)
    return min(max(value, low), high) if isinstance(value, int) else None
