"""The end of an engine, and how it is: waiting for the work after replies, closing, health."""

import logging
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from memory_core.contracts import MemorySolutionProvider
from memory_core.harness.background import Background
from memory_core.harness.building import UserLedgers
from memory_core.harness.capabilities import LedgerCapability
from memory_core.harness.health import Health, collect
from memory_core.harness.portal import Portal
from memory_core.ledger.ledger import Ledger
from memory_core.sessions.transcript import TranscriptLog

log = logging.getLogger(__name__)


class EngineEnding:
    """The half of `HarnessEngine` that ends it; the engine sets the attributes."""

    workspace: Path
    background: Background
    _closed: bool
    _memory_enabled: bool
    _ledger: Ledger | None
    _user_ledgers: UserLedgers | None
    _ledger_capability: LedgerCapability | None
    _own_ledger: bool
    _own_provider: bool
    _portal: Portal
    _provider: MemorySolutionProvider
    _transcripts: TranscriptLog

    async def drain(self, timeout_s: float | None = None) -> bool:
        """Wait for all work after replies; return False when that took longer than `timeout_s`."""
        return await self.background.drain(timeout_s)

    async def close(self, timeout_s: float | None = None) -> bool:
        """Finish all work after replies, what throttling kept back too, and release everything.

        Returns False when that took longer than `timeout_s`. Closing twice is harmless.
        """
        if self._closed:
            return True
        if self._ledger_capability is None:
            done = await self.background.drain(timeout_s)
        else:
            done = await self._ledger_capability.finish(timeout_s)
        if not done:
            log.warning("The engine was closed while %d jobs had not finished", self.background.pending)
        self._closed = True
        if self._own_ledger and self._ledger is not None:
            self._ledger.close()
        if self._user_ledgers is not None:
            self._user_ledgers.close()
        if self._own_provider:
            self._provider.close()
        return done

    def close_sync(self, timeout_s: float | None = None) -> bool:
        """The same as `close` for callers without an event loop."""
        done = self._portal.call(lambda: self.close(timeout_s))
        self._portal.stop()
        return done

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close_sync()

    def health(self) -> Health:
        """Say what waits, what failed after replies, and what is wrong with memory, ledger and transcripts."""
        sources: list[tuple[str, Callable[[], Any]]] = [("transcripts", self._transcripts.problems)]
        if self._memory_enabled:
            sources.append(("memory", lambda: self._provider.get(self.workspace).problems()))
            if self._ledger is not None:
                sources.append(("ledger", self._ledger.problems))
        return Health(self.background.pending, tuple(self.background.failures), collect(sources))
