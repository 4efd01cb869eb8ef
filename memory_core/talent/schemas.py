"""The five tools as a model is shown them, and the checks on what it sends back."""

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from memory_core.policy import DEFAULT_TOP_K, MAX_TOP_K
from memory_core.talent.specs import ToolContext, ToolResult, ToolSpec, check_arguments
from memory_core.talent.wording import Wording

if TYPE_CHECKING:
    from memory_core.talent.talent import MemoryTalent

Run = Callable[[dict[str, Any], ToolContext], ToolResult]


def tool_specs(talent: "MemoryTalent", words: Wording) -> list[ToolSpec]:
    """Return the tools of a talent, in its language."""
    scope = {"type": "string", "description": talent.provider.scopes_description(talent.locale)}
    key = _text(words.key)

    def make(name: str, description: str, properties: dict[str, Any], required: tuple[str, ...], run: Run) -> ToolSpec:
        schema = {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}
        return ToolSpec(name, description, schema, _checked(words, schema, run))

    return [
        make(
            "memory_extract",
            words.extract,
            {"key": key, "fact": _text(words.fact), "importance": _whole(words.importance, 1, 10), "scope": scope},
            ("key", "fact", "importance"),
            lambda given, context: talent.extract(**given, cwd=context.cwd, session_id=context.session_id),
        ),
        make(
            "memory_recall",
            words.recall,
            {"key": key},
            ("key",),
            lambda given, context: talent.recall(**given, cwd=context.cwd, session_id=context.session_id),
        ),
        make(
            "memory_search",
            words.search,
            {"query": _text(words.query), "top_k": {**_whole(words.top_k, 1, MAX_TOP_K), "default": DEFAULT_TOP_K}},
            ("query",),
            lambda given, context: talent.search(**given, cwd=context.cwd, session_id=context.session_id),
        ),
        make(
            "memory_consolidate",
            words.consolidate,
            {
                "keys_to_merge": {"type": "array", "items": {"type": "string"}, "description": words.keys_to_merge},
                "new_key": _text(words.new_key),
                "evolved_insight": _text(words.insight),
                "scope": scope,
            },
            ("keys_to_merge", "new_key", "evolved_insight"),
            lambda given, context: talent.consolidate(**given, cwd=context.cwd, session_id=context.session_id),
        ),
        make(
            "memory_prune",
            words.prune,
            {"key": key, "scope": scope},
            ("key",),
            lambda given, context: talent.prune(**given, cwd=context.cwd, session_id=context.session_id),
        ),
    ]


def _text(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


def _whole(description: str, low: int, high: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": low, "maximum": high, "description": description}


def _checked(
    words: Wording, schema: Mapping[str, Any], run: Run
) -> Callable[[Mapping[str, Any], ToolContext], ToolResult]:
    """Wrap a tool so that a wrong call becomes an answer that says what is wrong."""

    def checked(arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
        reason = check_arguments(schema, arguments)
        if reason is None:
            arguments = {
                name: _listed(value) if name == "keys_to_merge" else value for name, value in arguments.items()
            }
            reason = _wrong_value(words, schema, arguments)
        if reason is not None:
            return ToolResult(words.bad_arguments.format(reason=reason), {"error": reason}, ok=False)
        return run({name: value for name, value in arguments.items() if value is not None}, context)

    return checked


def _listed(value: object) -> object:
    """Read a list that a model wrote as text: JSON, or names with commas between them; anything else is as it is."""
    if not isinstance(value, str):
        return value
    try:
        listed: object = json.loads(value)
    except (ValueError, RecursionError):
        listed = None
    if isinstance(listed, list):
        return cast("list[object]", listed)
    return [part.strip() for part in value.split(",") if part.strip()]


def _wrong_value(words: Wording, schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> str | None:
    for name, value in arguments.items():
        kind = schema["properties"][name]["type"]
        needed = name in schema["required"]
        if kind == "string" and (not isinstance(value, str) or (needed and not value.strip())):
            if value is None and not needed:
                continue
            return words.no_key.format(name=name)
        if kind == "array":
            items = cast("list[object]", value) if isinstance(value, list) else [value]
            if not items or not all(isinstance(item, str) and item.strip() for item in items):
                return words.no_key.format(name=name)
    return None
