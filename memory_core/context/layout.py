"""Which messages stay and which give way, for a history that must be compacted."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from memory_core.context.config import TruncateArgsConfig
from memory_core.context.pairs import Pairs, groups
from memory_core.context.prune import prune_message
from memory_core.context.tokens import MessageSizer
from memory_core.context.truncate import truncate_message
from memory_core.sessions.messages import Message, ToolCallPart, ToolResultPart


@dataclass(slots=True)
class Layout:
    """`before` and `after` stay around the summary; `compacted` and the `earlier` summaries give way to it."""

    before: list[Message] = field(default_factory=list[Message])
    after: list[Message] = field(default_factory=list[Message])
    compacted: list[Message] = field(default_factory=list[Message])
    earlier: list[Message] = field(default_factory=list[Message])
    needs_summary: bool = False


def lay_out(
    history: Sequence[Message],
    pairs: Pairs,
    size: MessageSizer,
    *,
    keep_messages: int,
    keep_tokens: int,
    limit_tokens: int,
    window_tokens: int,
    summary_tokens: int,
    shorten_args: TruncateArgsConfig,
    keep_chars: int,
) -> Layout:
    """Choose what stays: the end of the history that was asked for, less of it when that is too long.

    In this order, until it fits: old tool results and arguments in the kept end are shortened, then those of the last
    group too, then the kept end loses its oldest groups (a group is what no cut may separate). The group with the
    user's last message stays in any case, or the last group when there is none. When even that does not fit into
    `limit_tokens`, the aim is the window.
    """
    messages = list(history)
    runs = groups(messages, pairs)
    sizes = [size(message) for message in messages]
    costs = [sizes[start] if end - start == 1 else sum(sizes[start:end]) for start, end in runs]
    alone = [index for index, message in enumerate(messages) if message.role == "system" and _stays_alone(message)]
    inside, fixed = [0] * len(runs), [False] * len(runs)
    for index in alone:
        group = bisect_right(runs, (index, len(messages) + 1)) - 1
        inside[group] += sizes[index]
        fixed[group] = runs[group] == (index, index + 1)
    pinned, last = _pinned_group(messages, runs, fixed), len(runs) - 1
    shrunk: dict[int, list[Message]] = {}

    def shrink(group: int) -> None:
        if group not in shrunk and not fixed[group]:
            start, end = runs[group]
            shrunk[group] = [prune_message(truncate_message(m, shorten_args), keep_chars) for m in messages[start:end]]
            costs[group] = size.total(shrunk[group])

    def spending() -> list[int]:
        """Return what the whole would cost for each possible first group of the kept end."""
        rest = [0, *accumulate(reversed(costs))][::-1]
        stays = inside.copy()
        stays[pinned] = costs[pinned]
        leaves = [not is_fixed for is_fixed in fixed]
        leaves[pinned] = False
        kept, gone = [0, *accumulate(stays)], [0, *accumulate(leaves)]
        return [r + k + (summary_tokens if g else 0) for r, k, g in zip(rest, kept, gone, strict=True)]

    whole_pinned = costs[pinned]
    shrink(pinned)
    least = costs[pinned] + sum(inside) - inside[pinned]
    target = limit_tokens if least + summary_tokens <= limit_tokens else window_tokens
    shrunk.pop(pinned, None)  # only to know how little it can be
    costs[pinned] = whole_pinned

    first = _first_kept(messages, runs, sizes, keep_messages, keep_tokens)
    spent = spending()
    if spent[first] > target:
        for group in {*range(first, last), pinned} - {last}:
            shrink(group)
        spent = spending()
    if spent[first] > target:
        shrink(last)
        spent = spending()
    while spent[first] > target and first <= last:
        first += 1
    stays = [group >= first or fixed[group] or group == pinned for group in range(len(runs))]
    return _assemble(messages, runs, shrunk, stays, lambda earlier: size.total(earlier) > summary_tokens)


def _stays_alone(message: Message) -> bool:
    """Whether this system message stays even where the messages around it go."""
    return message.role == "system" and not any(
        isinstance(part, ToolCallPart | ToolResultPart) for part in message.parts
    )


def is_users(message: Message) -> bool:
    """Whether the user wrote this: not a summary, not a block of ours, not only tool results."""
    return (
        message.role == "user"
        and message.kind == "normal"
        and any(not isinstance(part, ToolResultPart) for part in message.parts)
    )


def _pinned_group(messages: Sequence[Message], runs: Sequence[tuple[int, int]], fixed: Sequence[bool]) -> int:
    for group in range(len(runs) - 1, -1, -1):
        if any(is_users(message) for message in messages[runs[group][0] : runs[group][1]]):
            return group
    spoken = [group for group in range(len(runs)) if not fixed[group]]
    return spoken[-1] if spoken else len(runs) - 1


def _first_kept(
    messages: Sequence[Message],
    runs: Sequence[tuple[int, int]],
    sizes: Sequence[int],
    keep_messages: int,
    keep_tokens: int,
) -> int:
    """Return the first group of the kept end: as much as was asked for, rounded up to whole groups, at least one."""
    index, kept = len(messages), 0
    while index > 0:
        kept += sizes[index - 1] if keep_tokens else messages[index - 1].role != "system"
        if kept > (keep_tokens or keep_messages) and index < len(messages):
            break
        index -= 1
    return next(group for group, (_, end) in enumerate(runs) if index < end)


def _assemble(
    messages: Sequence[Message],
    runs: Sequence[tuple[int, int]],
    shrunk: dict[int, list[Message]],
    stays: Sequence[bool],
    too_long: Callable[[list[Message]], bool],
) -> Layout:
    gone = [
        message
        for (start, end), stay in zip(runs, stays, strict=True)
        if not stay
        for message in messages[start:end]
        if not _stays_alone(message)
    ]
    layout = Layout(
        compacted=[message for message in gone if message.kind == "normal"],
        earlier=[message for message in gone if message.kind == "summary"],
    )
    # Summaries alone are not summed up again, unless somebody else's are too long: that would be no progress.
    layout.needs_summary = bool(layout.compacted) or too_long(layout.earlier)
    place = layout.before
    for group, (start, end) in enumerate(runs):
        if stays[group]:
            place.extend(shrunk.get(group, messages[start:end]))
            continue
        place = layout.after
        if not layout.needs_summary and any(message.kind == "summary" for message in messages[start:end]):
            place.extend(messages[start:end])
        else:
            place.extend(message for message in messages[start:end] if _stays_alone(message))
    return layout
