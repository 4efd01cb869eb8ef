"""What the ledger's jobs report back."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

FlushReason = Literal["call", "compaction", "overflow", "manual"]
FlushStatus = Literal["written", "nothing", "duplicate", "throttled", "off", "failed"]
ConsolidationStatus = Literal["written", "unchanged", "nothing", "busy", "conflict", "off", "failed"]


@dataclass(frozen=True, slots=True)
class FlushResult:
    """How a flush ended.

    `written`: `facts` stand in `path`. `nothing`: the model, or an empty conversation, had nothing. `duplicate`: the
    block is there already. `throttled`, `off`: no call was made. `failed`: `error` says why; it is also logged and
    reported by `doctor`. A long conversation is read in several calls: `facts` then are those of all of them, and a
    failure of one does not take the others back.
    """

    status: FlushStatus
    path: Path | None = None
    facts: tuple[str, ...] = ()
    error: str = ""
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ConsolidationResult:
    """How a consolidation ended.

    `written`: `MEMORY.md` is new and the former one is `backup`. `unchanged`: the model changed nothing. `nothing`: no
    ledger has changed. `busy`: another process consolidates. `conflict`: `MEMORY.md` was edited meanwhile; it is as
    the editor left it, and the next round merges. `failed`: `error` says why, `MEMORY.md` is as it was.
    """

    status: ConsolidationStatus
    files: tuple[str, ...] = ()
    backup: Path | None = None
    error: str = ""
    rebuilt: bool = False


@dataclass(frozen=True, slots=True)
class MaintenanceReport:
    """What a round of maintenance did. `ran` is False when it was throttled or is off.

    Each step runs also when one before it failed; `errors` has a sentence for each that did.
    """

    ran: bool
    archived: tuple[str, ...] = ()
    consolidation: ConsolidationResult | None = None
    pruned: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
