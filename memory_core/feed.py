"""The change feed of a store with several scopes, made from one log per scope.

Each scope keeps its own numbered log (a file's manifest, a Redis sorted set), because scopes live in different places.
A cursor names how far a follower has read each of them; `merge_changes` turns the logs into one feed.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from memory_core.contracts import FEED_PAGE, ChangeFeed, Progress
from memory_core.model import ChangeBatch, MemoryEntry, MemoryId


@dataclass(frozen=True, slots=True)
class Change:
    """One numbered change: the entry as it is now, or None when it is gone or expired."""

    number: int
    id: MemoryId
    entry: MemoryEntry | None


@dataclass(frozen=True, slots=True)
class LogState:
    """Where a log stands: its identity (new after a rebuild), its oldest usable and its newest change number.

    A follower that stands below `floor` has missed removals that are no longer recorded. Numbers strictly between the
    two of a pair in `lost` were never given in this log, or to changes that a crash of the store or a restored backup
    took back; who stands there has seen such changes.
    """

    epoch: str
    floor: int
    head: int
    lost: tuple[tuple[int, int], ...] = ()


def reported(changes: ChangeFeed, progress: Progress) -> ChangeFeed:
    """Return the same feed, which tells `progress` how much was taken over whenever it is asked for more."""
    read = 0

    def asked(since: str | None, user_id: str) -> ChangeBatch:
        nonlocal read
        progress(read, None)
        batch = changes(since, user_id)
        read += len(batch.upserts) + len(batch.removals)
        return batch

    return asked


def after(count: int, progress: Progress) -> Progress:
    """Return the progress of a part that begins when `count` have been done."""
    return lambda done, total: progress(count + done, None if total is None else count + total)


class ScopeLog(Protocol):
    """The numbered log of one scope."""

    def state(self, user_id: str) -> LogState:
        """Return where the log stands; `head` may be that of all users or of this one, but never goes back."""
        ...

    def page(self, user_id: str, after: int, limit: int) -> Sequence[Change]:
        """Return that user's changes with a number above `after`, ascending, at most `limit`."""
        ...


@dataclass(frozen=True, slots=True)
class Place:
    """How far a follower has read one log.

    `start` is the log's head when the follower began from nothing: removals up to there cannot concern it, so that a
    long first reading, page after page, is not sent back to its beginning by the floor.
    """

    epoch: str
    number: int
    start: int

    def usable(self, state: LogState) -> bool:
        """Whether the log can still tell this follower all that it missed; who has read nothing has missed nothing."""
        return self.number == 0 or (
            self.epoch == state.epoch
            and max(self.number, self.start) >= state.floor
            and self.number <= state.head
            and not any(low < self.number < high for low, high in state.lost)
        )


def parse_cursor(cursor: str | None) -> dict[str, Place]:
    """Return scope → place; empty for None and for what is not a cursor of ours."""
    if cursor is None:
        return {}
    try:
        parts = json.loads(cursor)
        return {str(scope): Place(str(e), int(number), int(start)) for scope, (e, number, start) in parts.items()}
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        return {}


def format_cursor(places: Mapping[str, Place]) -> str:
    """Return the text that `parse_cursor` reads."""
    return json.dumps({scope: [place.epoch, place.number, place.start] for scope, place in sorted(places.items())})


def merge_changes(logs: Mapping[str, ScopeLog], since: str | None, user_id: str, limit: int = FEED_PAGE) -> ChangeBatch:
    """Return the next batch of one user's changes over all scopes; see `MemoryStorer.changes`.

    A follower without a usable place in any one of the logs starts over in all of them, because it cannot tell which
    of its entries came from which log.
    """
    places = parse_cursor(since)
    states = {scope: log.state(user_id) for scope, log in logs.items()}
    usable = places.keys() == states.keys() and all(places[scope].usable(states[scope]) for scope in states)
    for scope, state in states.items():
        if not usable or places[scope].number == 0:
            places[scope] = Place(state.epoch, 0, state.head)
    upserts: list[MemoryEntry] = []
    removals: list[MemoryId] = []
    room, more = max(1, limit), False
    for scope, log in logs.items():
        place, head = places[scope], states[scope].head
        if place.number >= head:
            continue
        if room <= 0:
            more = True
            break
        changes = log.page(user_id, place.number, room)
        if usable and not place.usable(log.state(user_id)):
            return merge_changes(logs, None, user_id, limit)  # removals were dropped from the log while it was read
        for change in changes:
            if change.entry is not None:
                upserts.append(change.entry)
            elif usable:
                removals.append(change.id)
        full = len(changes) >= room
        room -= len(changes)
        more = more or full
        reached = changes[-1].number if changes else 0
        places[scope] = replace(place, number=reached if full else max(head, reached))
    return ChangeBatch(upserts, removals, format_cursor(places), complete=not usable, more=more)
