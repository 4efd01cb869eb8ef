"""Oversized tool results, moved to files: what to write and what stays in the context. Pure; `files.py` writes.

The context keeps a notice with the path, and both ends of the result. The result is marked, so that it is never evicted
again; results of the tools that read files back never are.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

from memory_core.context.config import ToolResultEvictionConfig
from memory_core.context.graphemes import middle_cut
from memory_core.naming import slug
from memory_core.sessions.messages import Message, Part, ToolResultPart


@dataclass(frozen=True, slots=True)
class EvictedResult:
    """One file to write: its path relative to the root of evicted results, with `/`, and its whole text."""

    path: str
    content: str


@dataclass(frozen=True, slots=True)
class Eviction:
    """The messages with their oversized results replaced, and the files that must exist before they are used."""

    messages: list[Message]
    files: tuple[EvictedResult, ...] = ()


def plan_eviction(
    messages: Sequence[Message], config: ToolResultEvictionConfig | None = None, agent_id: str = "agent"
) -> Eviction:
    """Replace every tool result of more than `max_chars` characters by a notice and its two ends.

    Write the files first (`LargeResults.write`), then go on with the messages: when writing fails, nothing is lost. The
    same messages give the same files. Messages without such results are the same objects.
    """
    config = config or ToolResultEvictionConfig()
    files: list[EvictedResult] = []
    kept: list[Message] = []
    for message in messages:
        parts = tuple(_evicted(part, config, agent_id, files) for part in message.parts)
        same = all(one is other for one, other in zip(parts, message.parts, strict=True))
        kept.append(message if same else replace(message, parts=parts))
    return Eviction(kept, tuple(files))


def excluded(tool: str, config: ToolResultEvictionConfig) -> bool:
    """Whether that tool's results always stay; a `*` at the end of an excluded name stands for any rest."""
    return any(tool == name or (name.endswith("*") and tool.startswith(name[:-1])) for name in config.excluded)


def _evicted(part: Part, config: ToolResultEvictionConfig, agent_id: str, files: list[EvictedResult]) -> Part:
    if not isinstance(part, ToolResultPart) or part.mark == "evicted" or len(part.content) <= config.max_chars:
        return part
    if excluded(part.name, config):
        return part
    digest = sha256(part.content.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    path = f"{config.directory}/{_name(agent_id)}/{_name(part.call_id)}-{digest}.txt"
    files.append(EvictedResult(path, part.content))
    lines = part.content.removesuffix("\n").count("\n") + 1  # as the tool that reads it counts them
    how = f" Read it with {config.read_tool}(path, start_line, end_line)." if config.read_tool else ""
    notice = (
        f"[This result was too long: {len(part.content)} characters, {lines} lines. Its full text is in {path}.{how}]"
    )
    ends = middle_cut(part.content, config.preview_chars, lambda left_out: f"[… {left_out} characters left out …]")
    return replace(part, content=f"{notice}\n{ends}", mark="evicted")


def _name(text: str) -> str:
    # A call id is the model's: it may hold what no file name can carry.
    return slug(text.encode("utf-8", "replace").decode()) if text else "x"
