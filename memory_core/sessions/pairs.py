"""Where a conversation may be cut: a tool call and its result always stay on one side."""

from collections import defaultdict, deque
from collections.abc import Sequence
from itertools import accumulate

from memory_core.sessions.messages import Message, ToolCallPart, ToolResultPart


def pair_spans(messages: Sequence[Message]) -> list[tuple[int, int]]:
    """Return (first, last) message index of every call with a result; both ends inclusive.

    Calls and results are joined by call id; parts without an id by the tool's name, oldest first. A result that stands
    before its call belongs to it all the same, and so does a second result of one call.
    """
    waiting: defaultdict[tuple[str, str], deque[int]] = defaultdict(deque)
    early: defaultdict[tuple[str, str], deque[int]] = defaultdict(deque)
    answered: dict[tuple[str, str], int] = {}
    spans: list[tuple[int, int]] = []
    for index, message in enumerate(messages):
        for part in message.parts:
            if not isinstance(part, ToolCallPart | ToolResultPart):
                continue
            join = (part.call_id, "") if part.call_id else ("", part.name)
            if isinstance(part, ToolCallPart):
                if early[join]:
                    spans.append((early[join].popleft(), index))
                    answered[join] = index
                else:
                    waiting[join].append(index)
            elif waiting[join]:
                answered[join] = waiting[join].popleft()
                spans.append((answered[join], index))
            elif join in answered:
                spans.append((answered[join], index))
            else:
                early[join].append(index)
    return spans


def _free(messages: Sequence[Message]) -> list[bool]:
    """Return for each boundary 0..len whether no pair lies across it; boundary k is before message k."""
    change = [0] * (len(messages) + 2)
    for first, last in pair_spans(messages):
        change[first + 1] += 1
        change[last + 1] -= 1
    return [crossing == 0 for crossing in accumulate(change[: len(messages) + 1])]


def safe_boundary(messages: Sequence[Message], at: int) -> int:
    """Return the nearest boundary at or before `at` that splits no pair; 0 is always one.

    A boundary `k` lies before message `k`; `at` is brought into 0..len(messages).
    """
    free = _free(messages)
    at = min(max(at, 0), len(messages))
    while not free[at]:
        at -= 1
    return at


def safe_boundary_after(messages: Sequence[Message], at: int) -> int:
    """Return the nearest boundary at or behind `at` that splits no pair; the end is always one."""
    free = _free(messages)
    at = min(max(at, 0), len(messages))
    while not free[at]:
        at += 1
    return at
