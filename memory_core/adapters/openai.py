"""OpenAI function calling, for any client that speaks it: schemas, and a dispatcher for the calls that come back."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from memory_core.adapters.toolbox import Toolbox


def openai_tools(toolbox: Toolbox) -> list[dict[str, Any]]:
    """Return the `tools=[…]` of a chat completion request."""
    return [spec.openai() for spec in toolbox.specs()]


def run_tool_calls(toolbox: Toolbox, calls: Iterable[Any]) -> list[dict[str, Any]]:
    """Run the `tool_calls` of an assistant message and return one `tool` message for each, in their order.

    Takes the client's objects or plain dictionaries. Arguments that are not a JSON object are answered, not raised.
    """
    return [
        {"role": "tool", "tool_call_id": str(_get(call, "id")), "content": _run(toolbox, _get(call, "function"))}
        for call in calls
    ]


def _run(toolbox: Toolbox, function: Any) -> str:
    name, text = str(_get(function, "name")), _get(function, "arguments")
    try:
        arguments: Any = json.loads(text) if isinstance(text, str) and text.strip() else text or None
    except (ValueError, RecursionError) as error:
        return f"FAILED: the arguments are not valid JSON ({error})."
    return toolbox.call(name, arguments).text


def _get(holder: Any, name: str) -> Any:
    return holder.get(name) if isinstance(holder, Mapping) else getattr(holder, name, None)  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
