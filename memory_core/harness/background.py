"""Work that runs after the reply: never in its way, never lost, its failures kept for `health`."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import UTC, datetime
from threading import Lock
from typing import Any, TypeAlias

from memory_core.harness.queueing import KeyedQueue

log = logging.getLogger(__name__)

MAX_FAILURES = 50
Work: TypeAlias = Callable[[], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Failure:
    """A background job that failed: when, which, and why."""

    when: datetime
    job: str
    reason: str


@dataclass(eq=False, slots=True)
class _Job:
    name: str
    key: str
    work: Work
    done: Future[None] = field(default_factory=Future[None])


class Background:
    """Runs jobs as tasks of the event loop that submits them; jobs of one key run in their order.

    A job whose loop ends before it has finished is kept, and run by the next `submit`, `drain` or `close` in another.
    """

    def __init__(self) -> None:
        self._queue = KeyedQueue()
        self._lock = Lock()
        self._running: dict[_Job, asyncio.Task[None]] = {}
        self._left: deque[_Job] = deque()
        self._failures: deque[Failure] = deque(maxlen=MAX_FAILURES)

    @property
    def pending(self) -> int:
        """How many jobs have not finished."""
        with self._lock:
            return len(self._running) + len(self._left)

    @property
    def failures(self) -> list[Failure]:
        """The last failures, oldest first; at most 50."""
        return list(self._failures)

    def submit(self, name: str, work: Work, key: str = "") -> None:
        """Start a job in the running event loop and return at once.

        Args:
            name: What failures and logs call it.
            work: An async function without arguments. Run again from its beginning when its loop ended too early.
            key: Jobs of the same key run one after another.
        """
        self._start(_Job(name, key, work))
        self._resume()

    def failed(self, name: str, reason: str) -> None:
        """Record a failure that a job reports instead of raising."""
        log.error("The background job %r failed: %s", name, reason)
        self._failures.append(Failure(datetime.now(UTC), name, reason))

    async def drain(self, timeout_s: float | None = None) -> bool:
        """Wait until every job has finished, those that are submitted meanwhile too; return False on a time-out."""
        loop = asyncio.get_running_loop()
        end = None if timeout_s is None else loop.time() + timeout_s
        while True:
            self._resume()
            with self._lock:
                waiting = [asyncio.wrap_future(job.done) for job in self._running]
            if not waiting:
                return True
            left = None if end is None else max(0.0, end - loop.time())
            done, _ = await asyncio.wait(waiting, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            if not done:
                return False

    def _resume(self) -> None:
        with self._lock:
            left = list(self._left)
            self._left.clear()
        for job in left:
            self._start(_Job(job.name, job.key, job.work))

    def _start(self, job: _Job) -> None:
        with self._lock:
            self._running[job] = asyncio.get_running_loop().create_task(self._run(job), name=job.name)

    async def _run(self, job: _Job) -> None:
        finished = False
        try:
            async with self._queue.turn(job.key or str(id(job))):
                await job.work()
            finished = True
        except asyncio.CancelledError:
            raise
        except Exception as error:  # noqa: BLE001 - a job may fail in any way; the failure is reported by `health`
            finished = True
            self.failed(job.name, f"{type(error).__name__}: {error}")
        finally:
            with self._lock:
                self._running.pop(job, None)
                if not finished:
                    self._left.append(job)
            if not job.done.cancelled():
                job.done.set_result(None)
