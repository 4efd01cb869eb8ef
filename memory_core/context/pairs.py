"""Tool calls and their results: which belong together, where a history may be cut, and how a broken one is mended.

A model's API refuses a call without its result and a result without its call. Calls and results are joined by call id,
in their order when an id comes twice; without an id, by the tool's name. A result that stands before its call answers
nothing.
"""

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

from memory_core.sessions.messages import Message, TextPart, ToolCallPart, ToolResultPart

INTERRUPTED = "[No result was recorded for this call: it was interrupted.]"


@dataclass(frozen=True, slots=True)
class Pairs:
    """The (call's message, result's message) of each pair, and the (message, part) of what has no other half."""

    spans: tuple[tuple[int, int], ...]
    open_calls: tuple[tuple[int, int], ...]
    orphan_results: tuple[tuple[int, int], ...]


def match(messages: Sequence[Message]) -> Pairs:
    """Join every tool call with its result."""
    waiting: defaultdict[tuple[str, str], deque[tuple[int, int]]] = defaultdict(deque)
    spans: list[tuple[int, int]] = []
    orphans: list[tuple[int, int]] = []
    for index, message in enumerate(messages):
        for position, part in enumerate(message.parts):
            if isinstance(part, ToolCallPart):
                waiting[(part.call_id, "" if part.call_id else part.name)].append((index, position))
            elif isinstance(part, ToolResultPart):
                calls = waiting.get((part.call_id, "" if part.call_id else part.name))
                if calls:
                    spans.append((calls.popleft()[0], index))
                else:
                    orphans.append((index, position))
    still_open = sorted(place for calls in waiting.values() for place in calls)
    return Pairs(tuple(spans), tuple(still_open), tuple(orphans))


def groups(messages: Sequence[Message], pairs: Pairs | None = None) -> list[tuple[int, int]]:
    """Return the history as runs (first, behind the last) of messages that no cut may separate, in order."""
    reach = list(range(len(messages)))
    for call, result in (pairs or match(messages)).spans:
        reach[call] = max(reach[call], result)
    found: list[tuple[int, int]] = []
    start = end = 0
    for index, last in enumerate(reach):
        end = max(end, last)
        if index == end:
            found.append((start, index + 1))
            start = end = index + 1
    return found


@dataclass(frozen=True, slots=True)
class Mended:
    """A history in which every call has its result and every result its call, and how often it lacked one."""

    messages: tuple[Message, ...]
    pairs: Pairs
    results_added: int = 0
    results_dropped: int = 0


def mend(messages: Sequence[Message]) -> Mended:
    """Drop results without a call, and give calls without a result one that says so; the order stays.

    A message that is left empty goes, unless it would be the last one: then its text stays as a user's message.
    """
    pairs = match(messages)
    if not pairs.open_calls and not pairs.orphan_results:
        return Mended(tuple(messages), pairs)
    dropped: defaultdict[int, set[int]] = defaultdict(set)
    for index, position in pairs.orphan_results:
        dropped[index].add(position)
    added: defaultdict[int, list[ToolResultPart]] = defaultdict(list)
    for index, position in pairs.open_calls:
        call = messages[index].parts[position]
        if isinstance(call, ToolCallPart):
            added[index].append(ToolResultPart(call.call_id, call.name, INTERRUPTED, is_error=True))
    mended: list[Message] = []
    for index, message in enumerate(messages):
        if index in dropped:
            parts = tuple(part for position, part in enumerate(message.parts) if position not in dropped[index])
            if parts:
                mended.append(replace(message, parts=parts))
        else:
            mended.append(message)
        if index in added:
            identity = sha256(f"interrupted {message.id}".encode("utf-8", "replace")).hexdigest()[:32]
            mended.append(Message("tool", tuple(added[index]), identity, message.time))
    if not mended:
        lone = messages[-1]
        text = "\n".join(part.content for part in lone.parts if isinstance(part, ToolResultPart))
        mended.append(replace(lone, role="user", parts=(TextPart(text),), native=None))
    return Mended(tuple(mended), match(mended), len(pairs.open_calls), len(pairs.orphan_results))
