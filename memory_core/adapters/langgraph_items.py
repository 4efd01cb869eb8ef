"""What a LangGraph item is as a memory: the key, the text that is searched, and LangGraph's rules of matching."""

import json
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from memory_core.errors import InvalidEntryError

FIELD = "langgraph"
"""Where namespace, key and value stand in a memory's metadata."""


def memory_key(namespace: Sequence[str], key: str) -> str:
    """Return the key of an item's memory: its labels and its key joined by `/`, readable, never two for one."""
    return "/".join(_part(part) for part in (*namespace, key))


def _part(text: str) -> str:
    if text != unicodedata.normalize("NFC", text):
        return quote(text.encode("utf-8", "surrogatepass"), safe="")
    odd = text != text.strip() or text == ""
    return (
        "".join(
            quote(char.encode("utf-8", "surrogatepass"), safe="")
            if char in "%/" or (unicodedata.category(char)[0] in "CZ" and char != " ") or (odd and char == " ")
            else char
            for char in text
        )
        or "%"
    )


def item_text(key: str, value: Mapping[str, Any], fields: Sequence[str] | None) -> str:
    """Return the text of an item: of the given fields (LangGraph's paths), or of every text in it, or else its key."""
    if fields is None:
        texts = list(_texts(value))
    else:
        from langgraph.store.base import get_text_at_path, tokenize_path

        texts = [text for path in fields for text in get_text_at_path(value, tokenize_path(path))]
    return "\n".join(text for text in texts if text.strip()) or key.strip() or "(no text)"


def _texts(value: Any) -> "list[str]":
    if isinstance(value, str):
        return [value]
    if isinstance(value, Mapping):
        return [text for part in value.values() for text in _texts(part)]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, list | tuple):
        return [text for part in value for text in _texts(part)]  # pyright: ignore[reportUnknownVariableType]
    return [] if value is None or isinstance(value, bool) else [str(value)]


def plain(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return a value as it will be read back: a copy of plain JSON.

    Raises:
        InvalidEntryError: It is not JSON.
    """
    try:
        copy: dict[str, Any] = json.loads(json.dumps(dict(value), allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidEntryError(f"The value is not plain JSON and cannot be stored: {error}.") from error
    return copy


def passes(value: Mapping[str, Any], wanted: Mapping[str, Any] | None) -> bool:
    """Whether a value fits a filter: equal fields, nested ones too, or `$eq $ne $gt $gte $lt $lte`.

    Raises:
        ValueError: There is no such operator.
    """
    return all(_fits(value.get(name), condition) for name, condition in (wanted or {}).items())


def _fits(value: Any, condition: Any) -> bool:
    if isinstance(condition, Mapping):
        conditions: dict[str, Any] = dict(condition)  # pyright: ignore[reportUnknownArgumentType]
        if any(name.startswith("$") for name in conditions):
            return all(_compare(value, operator, other) for operator, other in conditions.items())
        return isinstance(value, Mapping) and passes(value, conditions)  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(condition, list | tuple):
        wanted: list[Any] = list(condition)  # pyright: ignore[reportUnknownArgumentType]
        given: list[Any] | None = list(value) if isinstance(value, list | tuple) else None  # pyright: ignore[reportUnknownArgumentType]
        return given is not None and len(given) == len(wanted) and all(map(_fits, given, wanted))
    return bool(value == condition)


def _compare(value: Any, operator: str, other: Any) -> bool:
    if operator == "$eq":
        return bool(value == other)
    if operator == "$ne":
        return bool(value != other)
    if operator not in ("$gt", "$gte", "$lt", "$lte"):
        raise ValueError(f"Unsupported operator: {operator}. There are: $eq, $ne, $gt, $gte, $lt, $lte.")
    try:
        left, right = float(value), float(other)
    except (TypeError, ValueError):
        return False  # a field that is missing or no number is not greater and not less
    return {"$gt": left > right, "$gte": left >= right, "$lt": left < right, "$lte": left <= right}[operator]


def matches(namespace: tuple[str, ...], kind: str, path: Sequence[str]) -> bool:
    """Whether a namespace begins (`prefix`) or ends (`suffix`) with `path`, in which `*` is any label."""
    if len(namespace) < len(path):
        return False
    part = namespace[: len(path)] if kind == "prefix" else namespace[len(namespace) - len(path) :]
    return all(wanted in ("*", label) for label, wanted in zip(part, path, strict=True))
