"""What a transfer did: typed, and ready for JSON."""

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from memory_core.model import MemoryId

ConflictRule = Literal["newer", "replace", "skip"]
"""What happens to a memory that is already there: the newer one stays (at equal times the
present one), the arriving one wins, or the present one does."""

MAX_LISTED_PROBLEMS = 1_000
"""So many skipped records are described; the rest is only counted."""


def no_progress(done: int, total: int | None) -> None:
    """Report to nobody."""
    del done, total


@dataclass(frozen=True, slots=True)
class SkippedRecord:
    """One record that could not be taken over: where it stands (`line 3`, a file's name) and why."""

    where: str
    reason: str


@dataclass(frozen=True, slots=True)
class ExportReport:
    """How many memories were written."""

    written: int

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain JSON data."""
        return asdict(self)


@dataclass(slots=True)
class ImportReport:
    """What became of each record of an import; the counts add up to `total`.

    `stored` are new or replaced something; `unchanged` were there already, to the byte; `kept` are those where the
    memory that was there stayed (see `ConflictRule`); `expired` were over before they arrived; `skipped` could not
    be read or were refused. In a dry run nothing is written and `stored` counts what would have been.
    """

    dry_run: bool = False
    stored: int = 0
    unchanged: int = 0
    kept: int = 0
    expired: int = 0
    skipped: int = 0
    problems: list[SkippedRecord] = field(default_factory=list[SkippedRecord])

    @property
    def total(self) -> int:
        """How many records were read."""
        return self.stored + self.unchanged + self.kept + self.expired + self.skipped

    def skip(self, where: str, reason: str) -> None:
        """Count one record that cannot be taken over."""
        self.skipped += 1
        if len(self.problems) < MAX_LISTED_PROBLEMS:
            self.problems.append(SkippedRecord(where, reason))

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain JSON data."""
        return {"total": self.total, **asdict(self)}


@dataclass(frozen=True, slots=True)
class MigrationReport:
    """What a migration did.

    `source` and `target` count the live entries afterwards; the target may hold others of its own. `copied` were
    written, `unchanged` were equal already, `kept` are newer in the target and stayed. `verified` were read back
    from the target and have the content hash of the source; `mismatched` did not, or are missing.
    """

    dry_run: bool
    source: int
    target: int
    copied: int
    unchanged: int
    kept: int
    verified: int
    mismatched: tuple[MemoryId, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether every entry of the source is in the target, as it is in the source or newer."""
        return not self.dry_run and not self.mismatched and self.verified + self.kept == self.source

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain JSON data."""
        return {**asdict(self), "complete": self.complete}
