"""The text of one file: YAML front matter, then the content to the byte.

Written values are JSON scalars (a subset of YAML), so writing needs no YAML emitter; reading accepts whatever people
type. Dates, `yes` and `no` stay text: only what JSON knows becomes a number, a boolean or null.
"""

import json
import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

import yaml

from memory_core.errors import CorruptEntryError
from memory_core.model import MemoryEntry

FIELDS = ("key", "user", "importance", "created", "updated", "expires", "source", "metadata")
_FENCE = "---\n"
_OPEN = re.compile(r"---[ \t]*\r?(?:\n|\Z)")
_CLOSE = re.compile(r"^---[ \t]*\r?(?:\n|\Z)", re.MULTILINE)
_LINE = re.compile("[^\n\r\x85\u2028\u2029]*(?:\r\n|[\n\r\x85\u2028\u2029])")  # as YAML 1.1 counts lines
_PLAIN = re.compile(r"[^\W\d_][\w/-]*(?: [\w/-]+)*")
_NOT_PLAIN = frozenset(("y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"))
_ESCAPED = re.compile("[\x7f-\xa0\u2028\u2029\ufeff\ufffe\uffff]")
_MAX_YAML_KEY_CHARS = 1_000  # libyaml refuses simple keys over 1,024 bytes


class _Loader(yaml.CSafeLoader):
    """Resolves only what JSON knows; every other plain scalar is text."""

    yaml_implicit_resolvers: Any = {}  # noqa: RUF012 - the base class wants a class attribute


_loader_class: Any = _Loader  # the stubs leave this method's types open
for _tag, _pattern, _first in (
    ("null", r"(?:null|~|)", ["n", "~", ""]),
    ("bool", r"(?:true|false)", ["t", "f"]),
    ("int", r"-?(?:0|[1-9][0-9]*)", list("-0123456789")),
    ("float", r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?", list("-0123456789")),
):
    _loader_class.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(rf"(?:{_pattern})\Z"), _first)


def _construct_float(loader: yaml.CSafeLoader, node: yaml.ScalarNode) -> float:
    return float(loader.construct_scalar(node))  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]


_Loader.add_constructor("tag:yaml.org,2002:float", _construct_float)


@dataclass(frozen=True, slots=True)
class Parsed:
    """What a file says. What it does not say is None; `extra` holds the lines of unknown fields and
    comments at the margin, as they stand.
    """

    content: str
    key: str | None = None
    user: str | None = None
    importance: int | None = None
    created: datetime | None = None
    updated: datetime | None = None
    expires: datetime | None = None
    source: str | None = None
    metadata: dict[str, Any] | None = None
    extra: str = ""


def scalar(text: str) -> str:
    """Return `text` as one YAML scalar: bare where that is safe and readable, else quoted."""
    if len(text) <= 200 and _PLAIN.fullmatch(text) and text.lower() not in _NOT_PLAIN:
        return text
    return _quoted(text)


def _quoted(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return _ESCAPED.sub(lambda match: f"\\u{ord(match.group()):04x}", text)


def _metadata(metadata: dict[str, Any]) -> str:
    text = _quoted(metadata)
    return text if _short_keys(metadata) else _quoted(json.dumps(metadata, ensure_ascii=False))


def _short_keys(value: Any) -> bool:
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value)
        return all(
            len(_quoted(key).encode()) < _MAX_YAML_KEY_CHARS and _short_keys(item) for key, item in items.items()
        )
    return all(map(_short_keys, cast("list[object]", value))) if isinstance(value, list) else True


def render(entry: MemoryEntry, extra: str = "") -> str:
    """Return the file for `entry`; `extra` are the unknown lines that its file had before."""
    lines = [
        f"key: {scalar(entry.id.key)}",
        f"user: {scalar(entry.id.user_id)}",
        f"importance: {entry.importance}",
        f"created: {entry.created_at.isoformat()}",
        f"updated: {entry.updated_at.isoformat()}",
        f"expires: {entry.expires_at.isoformat() if entry.expires_at else 'never'}",
        f"source: {scalar(entry.source)}",
    ]
    if entry.metadata:
        lines.append(f"metadata: {_metadata(entry.metadata)}")
    head = "\n".join(lines)
    return f"{_FENCE}{head}\n{extra}{_FENCE}{entry.content}\n"


def parse(text: str) -> Parsed:
    """Read a file's text.

    One line end at the very end belongs to the file, not to the content. A file whose first fence ends in CRLF was
    saved by an editor that turned all line ends into CRLF; they are turned back.

    Raises:
        CorruptEntryError: The front matter is not closed, not YAML, not a mapping, or holds a wrong value.
    """
    text = text.removeprefix("\ufeff")
    opening = _OPEN.match(text)
    if opening is None:
        return Parsed(text.removesuffix("\n").removesuffix("\r"))
    if opening.group().endswith("\r\n"):
        text = text.replace("\r\n", "\n")
        opening = cast("re.Match[str]", _OPEN.match(text))
    closing = _CLOSE.search(text, opening.end())
    if closing is None:
        raise CorruptEntryError(
            "line 1: the front matter is opened by `---` and never closed; add a line `---` after it"
        )
    head = text[opening.end() : closing.start()]
    fields, extra = _fields(head)
    return _checked(fields, extra, text[closing.end() :].removesuffix("\n"))


def _fields(head: str) -> tuple[dict[str, yaml.Node], str]:
    """Return the known fields as nodes, and as text the unknown ones and the comments on lines of their own."""
    try:
        if ("&" in head or "*" in head) and any(
            isinstance(event, yaml.AliasEvent) for event in yaml.parse(head, _Loader)
        ):
            raise CorruptEntryError("the front matter uses YAML aliases (`*name`), which are not allowed here")
        node = yaml.compose(head, _Loader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 2 if error.problem_mark else 1
        raise CorruptEntryError(f"line {line}: the front matter is not valid YAML: {error.problem}") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise CorruptEntryError(f"the front matter is not valid YAML: {' '.join(str(error).split())}") from error
    lines = _LINE.findall(head)
    if node is None:
        return {}, _comments(lines, 0, len(lines))
    if not isinstance(node, yaml.MappingNode):
        kind = "a list" if isinstance(node, yaml.SequenceNode) else "plain text"
        raise CorruptEntryError(f"line 2: the front matter is {kind}, not a list of `name: value` lines")
    pairs = cast("list[tuple[yaml.Node, yaml.Node]]", node.value)
    known: dict[str, yaml.Node] = {}
    extra = [] if node.flow_style or not pairs else [_comments(lines, 0, pairs[0][0].start_mark.line)]
    for place, (name_node, value) in enumerate(pairs):
        name = str(name_node.value)
        if name in known:
            raise CorruptEntryError(f"line {name_node.start_mark.line + 2}: `{name}` is given twice")
        end = pairs[place + 1][0].start_mark.line if place + 1 < len(pairs) else len(lines)
        if name in FIELDS:
            known[name] = value
            if not node.flow_style:
                extra.append(_comments(lines, _line_after(name_node, value), end))
        elif node.flow_style:
            extra.append(_plain_line(name, value))
        else:
            extra.append("".join(lines[name_node.start_mark.line : end]).rstrip("\n") + "\n")
    return known, "".join(extra)


def _line_after(name: yaml.Node, value: yaml.Node) -> int:
    """Return the first line that may hold a comment after a field; those of blocks are told by their indentation."""
    quoted_or_plain = isinstance(value, yaml.ScalarNode) and value.style not in {"|", ">"}
    return (value.end_mark if quoted_or_plain else name.start_mark).line + 1


def _comments(lines: list[str], start: int, end: int) -> str:
    """Return the comments that stand at the margin right before line `end`, not before line `start`."""
    first = end
    while first > start and (lines[first - 1].startswith("#") or not lines[first - 1].strip()):
        first -= 1
    return "".join(line.rstrip("\r\n") + "\n" for line in lines[first:end] if line.startswith("#"))


def _plain_line(name: str, value: yaml.Node) -> str:
    try:
        return f"{scalar(name)}: {_quoted(_construct(value))}\n"
    except (TypeError, ValueError, RecursionError) as error:
        line = value.start_mark.line + 2
        raise CorruptEntryError(f"line {line}: `{name}` cannot be kept ({error}); write one field a line") from error


def _construct(node: yaml.Node) -> Any:
    loader: Any = _Loader("")
    try:
        return loader.construct_document(node)
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        raise CorruptEntryError(
            f"line {node.start_mark.line + 2}: this value cannot be read: {' '.join(str(error).split())}"
        ) from error
    finally:
        loader.dispose()


def _checked(fields: dict[str, yaml.Node], extra: str, content: str) -> Parsed:
    return Parsed(
        content=content,
        key=_text(fields, "key"),
        user=_text(fields, "user"),
        importance=_importance(fields),
        created=_time(fields, "created"),
        updated=_time(fields, "updated"),
        expires=_time(fields, "expires"),
        source=_text(fields, "source"),
        metadata=_mapping(fields),
        extra=extra,
    )


def _text(fields: dict[str, yaml.Node], name: str) -> str | None:
    node = fields.get(name)
    if node is None:
        return None
    if not isinstance(node, yaml.ScalarNode):
        raise CorruptEntryError(f"line {node.start_mark.line + 2}: `{name}` must be one text")
    return None if node.tag == "tag:yaml.org,2002:null" else str(node.value)


def _importance(fields: dict[str, yaml.Node]) -> int | None:
    text = _text(fields, "importance")
    if text is None:
        return None
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if number not in range(1, 11):
        line = fields["importance"].start_mark.line + 2
        raise CorruptEntryError(f"line {line}: `importance` is {text!r}; it goes from 1 to 10")
    return int(number)


def _time(fields: dict[str, yaml.Node], name: str) -> datetime | None:
    text = _text(fields, name)
    if text is None or text.lower() in ("never", "null", "~"):
        return None
    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        line = fields[name].start_mark.line + 2
        raise CorruptEntryError(
            f"line {line}: `{name}` is {text!r}; write a time such as 2026-01-31T09:00:00+00:00"
        ) from error


def _mapping(fields: dict[str, yaml.Node]) -> dict[str, Any] | None:
    node = fields.get("metadata")
    if node is None:
        return None
    value = _construct(node)
    if isinstance(value, str):
        with suppress(ValueError, RecursionError):
            value = json.loads(value)
    if value is None:
        return None
    if not isinstance(value, dict):
        raise CorruptEntryError(f"line {node.start_mark.line + 2}: `metadata` must be a mapping")
    return {str(name): item for name, item in cast("dict[object, Any]", value).items()}
