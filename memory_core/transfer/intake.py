"""The records of an import on their way into a solution, a page at a time: conflicts, expiry, refusals, dry runs."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from memory_core.contracts import Clock, MemorySolution, Progress
from memory_core.errors import InvalidKeyError, UnknownScopeError, did_you_mean
from memory_core.model import MemoryEntry, MemoryId
from memory_core.transfer.report import ConflictRule, ImportReport, no_progress

PROGRESS_STEP = 50
PAGE = 250
"""So many records are stored together."""

_Fate = Literal["stored", "unchanged", "kept", "expired"]
_Record = tuple[str, MemoryEntry | str]
"""Where a record stands, and the entry that it gives, or why it gives none."""


@dataclass(slots=True)
class Intake:
    """Takes entries into `solution` and writes down what became of each, in their order; `finish` gives the report.

    Records wait until there is a page of them, or one comes whose id is among them: it has to meet what the other left.
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
    _page: list[_Record] = field(init=False, default_factory=list[_Record])
    _waiting: set[MemoryId] = field(init=False, default_factory=set[MemoryId])
    _dry: dict[MemoryId, MemoryEntry] = field(init=False, default_factory=dict[MemoryId, MemoryEntry])

    def __post_init__(self) -> None:
        self.report = ImportReport(dry_run=self.dry_run)

    def take(self, entry: MemoryEntry, where: str) -> None:
        """Take one entry over.

        Raises:
            StorageUnavailableError: The store failed; the pages before stay.

        """
        try:
            entry = self._placed(entry)
        except (InvalidKeyError, UnknownScopeError) as error:
            self.skip(where, str(error))
            return
        if entry.id in self._waiting:
            self._flush()
        self._waiting.add(entry.id)
        self._wait(where, entry)

    def skip(self, where: str, reason: str) -> None:
        """Count one record that gives no entry."""
        self._wait(where, reason)

    def finish(self) -> ImportReport:
        """Store what still waits and return what became of everything.

        Raises:
            StorageUnavailableError: As `take`.

        """
        self._flush()
        return self.report

    def _wait(self, where: str, record: MemoryEntry | str) -> None:
        self._page.append((where, record))
        if len(self._page) >= PAGE:
            self._flush()

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

    def _flush(self) -> None:
        """Store what the conflict rule lets through, and write down what became of each record."""
        page, self._page, self._waiting = self._page, [], set()
        now = self.clock.now()
        living = [record.id for _, record in page if isinstance(record, MemoryEntry) and not record.expired(now)]
        present = {**self.solution.storer.get_many(living), **{id: self._dry[id] for id in living if id in self._dry}}
        storing = [
            record
            for _, record in page
            if isinstance(record, MemoryEntry) and self._fate(record, present.get(record.id), now) == "stored"
        ]
        errors: dict[MemoryId, str] = {}
        if self.dry_run:
            self._dry.update((entry.id, entry) for entry in storing)  # later ones meet them, as they would in earnest
        elif storing:
            answers = self.solution.store_many(storing)
            errors = {entry.id: str(a.error) for entry, a in zip(storing, answers, strict=True) if a.error is not None}
        for where, record in page:
            if isinstance(record, str):
                self.report.skip(where, record)
            elif record.id in errors:
                self.report.skip(where, errors[record.id])
            else:
                fate = self._fate(record, present.get(record.id), now)
                setattr(self.report, fate, getattr(self.report, fate) + 1)
            self._tick()

    def _fate(self, entry: MemoryEntry, present: MemoryEntry | None, now: datetime) -> _Fate:
        """Return what becomes of an entry where `present` is, as the report calls it."""
        if entry.expired(now):
            return "expired"
        if present == entry:
            return "unchanged"
        if present is not None and (
            self.conflict == "skip" or (self.conflict == "newer" and present.updated_at >= entry.updated_at)
        ):
            return "kept"
        return "stored"
