"""What flush, consolidation and maintenance need to know about their ledger."""

from dataclasses import dataclass
from datetime import datetime, tzinfo
from pathlib import Path

from memory_core.contracts import ChatModel, Clock
from memory_core.ledger.config import MemoryConfig
from memory_core.ledger.disk import Places
from memory_core.ledger.state import LedgerState


@dataclass(frozen=True, slots=True)
class Job:
    """One ledger as its jobs see it. `zone=None` is the system's own time zone."""

    places: Places
    model: ChatModel | None
    config: MemoryConfig
    clock: Clock
    zone: tzinfo | None
    locale: str
    timeout_s: float
    state: LedgerState
    sessions: Path

    def local_now(self) -> datetime:
        """Return the present moment in the ledger's time zone; it decides which day is today."""
        return self.clock.now().astimezone(self.zone)
