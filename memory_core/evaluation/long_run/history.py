"""The model in memory: what was written when, and whether what a reader saw can be true.

Every version of a memory carries a stamp of its own. A write is known by when it began and when it had returned, a
read likewise; all clocks are one machine's. What a read may see follows from that alone, for keys of one writer and
of many (Herlihy & Wing 1990, linearizability of a register, restricted to what each single read shows):

- a version whose write began before the read ended, and after which no other write of that key both began later and
  was over before the read began, and which had not expired when the read began;
- nothing, when the key had not been written, was removed, or had expired, by the same rule.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

NEVER = float("inf")
"""When a write ended that never returned: it may have happened or not, at any time."""


@dataclass(frozen=True, slots=True)
class Write:
    """One write of one key: a version with its stamp, or None for a removal. Times in seconds since the epoch."""

    key: str
    stamp: str | None
    begin: float
    end: float
    expires: float = NEVER

    def to_json(self) -> dict[str, Any]:
        """Return the line of a journal."""
        return {"write": [self.key, self.stamp, self.begin, self.end, self.expires]}


@dataclass(frozen=True, slots=True)
class Seen:
    """What one read showed of one key: a stamp, or None for absence; `how` names the operation."""

    key: str
    stamp: str | None
    begin: float
    end: float
    how: str

    def to_json(self) -> dict[str, Any]:
        """Return the line of a journal."""
        return {"seen": [self.key, self.stamp, self.begin, self.end, self.how]}


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that must not be: `error` (an operation failed), `lost` or `ghost`."""

    kind: Literal["error", "lost", "ghost"]
    what: str


class History:
    """All writes of a run by key."""

    def __init__(self, writes: Iterable[Write] = ()) -> None:
        self._writes: dict[str, list[Write]] = {}
        self._stamps: dict[tuple[str, str], Write] = {}
        for write in writes:
            self.add(write)

    def add(self, write: Write) -> None:
        """Take one write into account; the order does not matter."""
        self._writes.setdefault(write.key, []).append(write)
        if write.stamp is not None:
            self._stamps[write.key, write.stamp] = write

    @property
    def keys(self) -> tuple[str, ...]:
        """Every key that was ever written."""
        return tuple(self._writes)

    def current(self, key: str, moment: float) -> Write | None:
        """Return the version that a key has at `moment` if nothing else is going on, or None for absence."""
        last = max(self._writes.get(key, ()), key=lambda write: write.end, default=None)
        return None if last is None or last.stamp is None or last.expires <= moment else last

    def stale(self) -> list[tuple[str, str]]:
        """Return key and stamp of every version that was removed or replaced later."""
        return [
            (key, stamp)
            for (key, stamp), write in self._stamps.items()
            if self._overwritten(write, begin=NEVER) is not None
        ]

    def judge(self, seen: Seen) -> Fault | None:
        """Return what is wrong with a read, or None when it can be true."""
        return self._absence(seen) if seen.stamp is None else self._presence(seen, seen.stamp)

    def _overwritten(self, write: Write, begin: float) -> Write | None:
        """Return a write that came after `write` and was over before `begin`."""
        return next((other for other in self._writes[write.key] if write.end < other.begin and other.end < begin), None)

    def _presence(self, seen: Seen, stamp: str) -> Fault | None:
        write = self._stamps.get((seen.key, stamp))
        what = f"{seen.how}: {seen.key} shows {stamp}"
        if write is None or write.begin > seen.end:
            return Fault("ghost", f"{what}, which nobody had written")
        if write.expires <= seen.begin:
            return Fault("ghost", f"{what}, which had expired {seen.begin - write.expires:.3f} s before")
        later = self._overwritten(write, seen.begin)
        if later is not None:
            by = "removed" if later.stamp is None else f"replaced by {later.stamp}"
            return Fault("ghost", f"{what}, which was {by} {seen.begin - later.end:.3f} s before")
        return None

    def _absence(self, seen: Seen) -> Fault | None:
        writes = self._writes.get(seen.key, ())
        before = [write for write in writes if write.stamp is not None and write.end < seen.begin]
        if not before:
            return None
        for write in writes:
            gone = write.begin if write.stamp is None else write.expires
            if gone <= seen.end and self._overwritten(write, seen.begin) is None:
                return None
        newest = max(before, key=lambda write: write.end)
        age = seen.begin - newest.end
        return Fault("lost", f"{seen.how}: {seen.key} is not there; {newest.stamp} was stored {age:.3f} s before")


def read_line(fields: Mapping[str, Any]) -> Write | Seen | None:
    """Return the write or read that a line of a journal holds; None for lines of other kinds."""
    if "write" in fields:
        return Write(*fields["write"])
    if "seen" in fields:
        return Seen(*fields["seen"])
    return None
