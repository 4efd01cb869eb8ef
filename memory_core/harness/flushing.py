"""What runs added since the last flush: flushed in the background, made up for when that was throttled or failed."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from pydantic_ai.messages import ModelMessage

from memory_core.harness.background import Background
from memory_core.harness.scope import RunScope
from memory_core.ledger.ledger import Ledger
from memory_core.ledger.results import FlushReason
from memory_core.sessions.converters.pydantic_ai import from_pydantic_ai
from memory_core.sessions.messages import Message

MAX_UNFLUSHED = 400
"""From this many messages on, a throttled flush runs all the same: they are kept in memory until then."""


@dataclass(slots=True)
class _Unflushed:
    """What the runs of one ledger and isolation key added since the last flush."""

    ledger: Ledger
    scope: RunScope
    messages: list[ModelMessage] = field(default_factory=list[ModelMessage])


class Flushes:
    """The flushes of one capability, those of one ledger and isolation key one after another.

    Args:
        background: Where they run.

    """

    def __init__(self, background: Background) -> None:
        self._background = background
        self._unflushed: dict[str, _Unflushed] = {}

    def after_run(self, ledger: Ledger, scope: RunScope, messages: Sequence[ModelMessage]) -> None:
        """Start the flush of what a run added, as the ledger's trigger allows."""
        key = _key(ledger, scope)
        self._unflushed.setdefault(key, _Unflushed(ledger, scope)).messages += messages
        self._background.submit("flush", partial(self._flush, key), key)

    def now(self, ledger: Ledger, scope: RunScope, messages: Sequence[Message], reason: FlushReason) -> None:
        """Start a flush of messages that are about to be lost; it ignores the throttle."""
        kept = list(messages)
        self._background.submit(
            f"flush ({reason})", lambda: self._flush_now(ledger, scope, kept, reason), _key(ledger, scope)
        )

    def rest(self) -> None:
        """Start the flush of all that throttling kept back, or that failed before."""
        for key in list(self._unflushed):
            self._background.submit("last flush", partial(self._flush_rest, key), key)

    async def _flush(self, key: str) -> None:
        waiting = self._unflushed.get(key)
        if waiting is None:
            return
        ledger, natives = waiting.ledger, list(waiting.messages)
        reason: FlushReason = "manual" if len(natives) > MAX_UNFLUSHED else "call"
        messages = await asyncio.to_thread(from_pydantic_ai, natives)
        result = await ledger.flush(messages, waiting.scope.isolation_key, reason=reason)
        if result.status == "failed":
            self._background.failed("flush", result.error)
        if result.status not in ("throttled", "failed"):
            self._forget(key, natives)
        report = await ledger.maintain()
        for error in report.errors:
            self._background.failed("upkeep", error)

    async def _flush_rest(self, key: str) -> None:
        waiting = self._unflushed.get(key)
        if waiting is not None:
            natives = list(waiting.messages)
            messages = await asyncio.to_thread(from_pydantic_ai, natives)
            await self._flush_now(waiting.ledger, waiting.scope, messages, "manual")
            self._forget(key, natives)

    async def _flush_now(
        self, ledger: Ledger, scope: RunScope, messages: Sequence[Message], reason: FlushReason
    ) -> None:
        result = await ledger.flush(messages, scope.isolation_key, reason=reason)
        if result.status == "failed":
            self._background.failed(f"flush ({reason})", result.error)

    def _forget(self, key: str, flushed: Sequence[ModelMessage]) -> None:
        waiting = self._unflushed[key]
        gone = {id(message) for message in flushed}
        waiting.messages = [message for message in waiting.messages if id(message) not in gone]
        if not waiting.messages:
            del self._unflushed[key]


def _key(ledger: Ledger, scope: RunScope) -> str:
    return f"{ledger.places.workspace}\0{scope.isolation_key}"
