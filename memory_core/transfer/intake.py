"""One record of an import on its way into a solution: conflicts, expiry, refusals, dry runs."""

from dataclasses import dataclass, field
from datetime import datetime

from memory_core.contracts import Clock, MemorySolution
from memory_core.errors import (
    InvalidEntryError,
    InvalidKeyError,
    PluginError,
    UnknownScopeError,
    VetoedError,
    did_you_mean,
)
from memory_core.model import MemoryEntry, MemoryId
from memory_core.transfer.report import ConflictRule, ImportReport, Progress, no_progress

PROGRESS_STEP = 50


@dataclass(slots=True)
class Intake:
    """Takes entries into `solution` and writes down what became of each.

    `scope` and `user_id` put every entry there instead of where its record says. What the solution refuses is
    skipped and reported; a store that fails ends the import, because every record after it would fail too.
    """

    solution: MemorySolution
    clock: Clock
    conflict: ConflictRule = "newer"
    dry_run: bool = False
    scope: str | None = None
    user_id: str | None = None
    progress: Progress = no_progress
    expected: int | None = None
    report: ImportReport = field(init=False)
    _seen: dict[MemoryId, MemoryEntry] = field(init=False, default_factory=dict[MemoryId, MemoryEntry])

    def __post_init__(self) -> None:
        self.report = ImportReport(dry_run=self.dry_run)

    def take(self, entry: MemoryEntry, where: str) -> None:
        """Take one entry over.

        Raises:
            StorageUnavailableError: The store failed; what was taken over before stays.

        """
        try:
            self._take(self._placed(entry), self.clock.now())
        except (InvalidEntryError, InvalidKeyError, UnknownScopeError, VetoedError, PluginError) as error:
            self.report.skip(where, str(error))
        self._tick()

    def skip(self, where: str, reason: str) -> None:
        """Count one record that gives no entry."""
        self.report.skip(where, reason)
        self._tick()

    def _tick(self) -> None:
        if self.report.total % PROGRESS_STEP == 0 or self.report.total == self.expected:
            self.progress(self.report.total, self.expected)

    def _placed(self, entry: MemoryEntry) -> MemoryEntry:
        if self.scope is not None or self.user_id is not None:
            target = MemoryId(self.scope or entry.id.scope, self.user_id or entry.id.user_id, entry.id.key)
            entry = entry.model_copy(update={"id": target})
        if entry.id.scope not in self.solution.scopes:
            scopes = self.solution.scopes
            raise UnknownScopeError(
                f"There is no scope {entry.id.scope!r}.{did_you_mean(entry.id.scope, scopes)} "
                f"There are: {', '.join(scopes)}."
            )
        return entry

    def _take(self, entry: MemoryEntry, now: datetime) -> None:
        if entry.expired(now):
            self.report.expired += 1
            return
        present = self._seen.get(entry.id) or self.solution.storer.get(entry.id)
        if present == entry:
            self.report.unchanged += 1
            return
        if present is not None and (
            self.conflict == "skip" or (self.conflict == "newer" and present.updated_at >= entry.updated_at)
        ):
            self.report.kept += 1
            return
        if self.dry_run:
            self._seen[entry.id] = entry  # a later record of the same id meets this one, as it would in earnest
        else:
            self.solution.store(entry)
        self.report.stored += 1
