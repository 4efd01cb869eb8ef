"""Flushes in a thread of their own: handing a turn over takes no time, and the end waits for what was handed over.

A turn that the ledger throttled, or whose flush failed, is kept and goes with the next one of its key.
"""

import asyncio
import logging
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from queue import SimpleQueue

from memory_core.ledger.ledger import Ledger
from memory_core.ledger.results import FlushReason, FlushResult
from memory_core.sessions.messages import Message

log = logging.getLogger(__name__)

MAX_KEPT = 400
"""So many messages of one key are kept at most; a throttled flush runs when there are more, a failed one loses them."""


@dataclass(slots=True)
class _Job:
    key: str
    messages: Sequence[Message]
    reason: FlushReason
    done: Future[FlushResult] = field(default_factory=Future[FlushResult])


class FlushWorker:
    """Runs the flushes of one ledger, one after another, in one daemon thread that starts with the first of them."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._unsafe = 0
        self._closed = False
        self._kept: dict[str, list[Message]] = {}

    def submit(self, messages: Sequence[Message], key: str, reason: FlushReason = "call") -> Future[FlushResult]:
        """Hand messages over and return at once; without messages, those kept back are flushed.

        The future gives the ledger's result; after `close` it says `off`.
        """
        job = _Job(key, list(messages), reason)
        with self._lock:
            if self._closed:
                job.done.set_result(FlushResult("off"))
                return job.done
            self._unsafe += len(job.messages)
            self._jobs.put(job)
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="memory-core-flush", daemon=True)
                self._thread.start()
        return job.done

    def forget(self, key: str) -> None:
        """Drop what was kept back under a key: the user took those turns back."""
        self._settle(len(self._kept.pop(key, ())))

    def close(self, timeout_s: float) -> int:
        """Flush everything, what was kept back too, and end; return how many messages did not make it in time."""
        with self._lock:
            closed, self._closed = self._closed, True
            thread = self._thread
        if thread is None or closed:
            return 0
        self._jobs.put(None)
        thread.join(timeout_s)
        return self._unsafe

    def _serve(self) -> None:
        loop = asyncio.new_event_loop()
        try:
            while (job := self._jobs.get()) is not None:
                self._run(loop, job)
            for key in list(self._kept):
                self._run(loop, _Job(key, (), "manual"))
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            loop.close()

    def _run(self, loop: asyncio.AbstractEventLoop, job: _Job) -> None:
        try:
            result = loop.run_until_complete(self._flush(job))
        except Exception as error:  # noqa: BLE001 - the thread serves the flushes after this one too
            result = FlushResult("failed", error=f"{type(error).__name__}: {error}")
        if result.status == "failed":
            log.warning("A flush to the ledger failed: %s", result.error)
        job.done.set_result(result)

    async def _flush(self, job: _Job) -> FlushResult:
        waiting = [*self._kept.pop(job.key, []), *job.messages]
        if not waiting:
            return FlushResult("nothing")
        reason: FlushReason = "manual" if job.reason == "call" and len(waiting) > MAX_KEPT else job.reason
        result = await self.ledger.flush(waiting, job.key, reason=reason)
        if result.status in ("throttled", "failed"):
            self._kept[job.key] = waiting[-MAX_KEPT:]
            lost = len(waiting) - len(self._kept[job.key])
            if lost:
                log.warning("%d messages were dropped: no flush to the ledger has succeeded for too long.", lost)
                self._settle(lost)
            return result
        self._settle(len(waiting))
        for error in (await self.ledger.maintain()).errors:
            log.warning("Upkeep of the ledger failed: %s", error)
        return result

    def _settle(self, count: int) -> None:
        with self._lock:
            self._unsafe -= count
