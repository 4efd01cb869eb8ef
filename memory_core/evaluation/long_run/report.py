"""What a long run found, as a table and as JSON."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from memory_core.evaluation.long_run.history import Fault
from memory_core.evaluation.machine import heading

SCHEMA = 1
NAMED = 5
"""So many faults of a pair are named; all are counted."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One store with one searcher: how much was done, how fast, and what was wrong.

    `entries` are the memories that were left, `restarts` how many processes died and came back, `op_ms` the median
    time of each operation. `not_run` says why nothing was done.
    """

    storer: str
    searcher: str
    operations: int = 0
    seconds: float = 0.0
    entries: int = 0
    restarts: int = 0
    checked: int = 0
    errors: int = 0
    lost: int = 0
    ghosts: int = 0
    op_ms: dict[str, float] = field(default_factory=dict[str, float])
    faults: tuple[Fault, ...] = ()
    not_run: str | None = None

    @property
    def per_second(self) -> float:
        """Operations a second of all processes together."""
        return self.operations / self.seconds if self.seconds else 0.0

    @property
    def holds(self) -> bool:
        """Whether nothing was wrong; a pair that could not be run is not a fault of it."""
        return self.errors == self.lost == self.ghosts == 0


def table(outcomes: Sequence[Outcome]) -> list[str]:
    """Return the outcomes as lines of text, faults named below their pair."""
    lines = [
        "store     searcher  operations  seconds   ops/s   left   checks errors  lost ghosts",
    ]
    for one in outcomes:
        if one.not_run is not None:
            lines.append(f"{one.storer:9} {one.searcher:9} not run: {one.not_run}")
            continue
        lines.append(
            f"{one.storer:9} {one.searcher:9} {one.operations:>10,} {one.seconds:>8.1f} {one.per_second:>7.0f}"
            f" {one.entries:>6,} {one.checked:>8,} {one.errors:>6} {one.lost:>5} {one.ghosts:>6}"
        )
        lines += [f"    {fault.kind}: {fault.what}" for fault in one.faults]
    return lines


def report_json(outcomes: Sequence[Outcome], parameters: dict[str, Any], machine: dict[str, Any]) -> dict[str, Any]:
    """Return the whole run as JSON data with its schema version, date, machine and parameters."""
    return {
        **heading("long-run", SCHEMA, parameters, machine),
        "outcomes": [{**asdict(one), "per_second": round(one.per_second, 1), "holds": one.holds} for one in outcomes],
    }
