"""Lets slow arms follow the store in one background thread.

What waits is a set of (arm, user), never the changes themselves: each arm reads them from the store by its own cursor.
So the queue is bounded by the number of users, and a process that is killed loses nothing: the next one sees that the
arm's cursor is behind.
"""

import logging
import os
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Condition, RLock, Thread

from memory_core.contracts import ChangeFeed, MemorySearcher

log = logging.getLogger(__name__)

Job = tuple[str, str]
Report = Callable[[str, Exception | None], None]


@dataclass(slots=True)
class Follower:
    """A slow arm. Whoever changes what it holds takes the lock: no step of the feed may continue a cleared index."""

    name: str
    searcher: MemorySearcher
    lock: RLock = field(default_factory=RLock)

    def step(self, changes: ChangeFeed, user_id: str) -> bool:
        """Take over one page of changes; return whether there is more."""
        with self.lock:
            since = self.searcher.cursor(user_id)
            batch = changes(since, user_id)
            if batch or batch.cursor != since:
                self.searcher.apply(batch, user_id)
            return batch.more


class Background:
    """The thread and what waits for it.

    Args:
        report: Told the arm's name and what went wrong, or None when it caught up.

    """

    def __init__(self, report: Report) -> None:
        self._report = report
        self._waiting: OrderedDict[Job, tuple[Follower, ChangeFeed]] = OrderedDict()
        self._running: Job | None = None
        self._changed = Condition()
        self._thread: Thread | None = None
        self._pid = os.getpid()
        self._stopping = False

    def enqueue(self, follower: Follower, changes: ChangeFeed, user_id: str) -> None:
        """Let that arm catch up for that user soon."""
        with self._changed:
            if self._pid != os.getpid():
                self._pid, self._thread, self._running = os.getpid(), None, None  # threads do not survive a fork
            self._waiting[follower.name, user_id] = (follower, changes)
            if self._thread is None or not self._thread.is_alive():
                self._stopping = False
                self._thread = Thread(target=self._run, name="memory-core-embed", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def pending(self, user_id: str | None = None) -> list[Job]:
        """Return what waits or is being done, for one user or all."""
        with self._changed:
            jobs = list(self._waiting)
            if self._running is not None and self._running not in self._waiting:
                jobs.insert(0, self._running)
        return [job for job in jobs if user_id is None or job[1] == user_id]

    def wait(self, timeout_s: float | None, user_id: str | None = None) -> bool:
        """Wait until nothing waits, of one user or of all; return whether that came true in time."""
        end = None if timeout_s is None else time.monotonic() + timeout_s
        with self._changed:
            while self._busy(user_id):
                left = None if end is None else end - time.monotonic()
                if left is not None and left <= 0:
                    return False
                self._changed.wait(left)
        return True

    def _busy(self, user_id: str | None) -> bool:
        jobs = [*self._waiting, *([self._running] if self._running is not None else [])]
        return any(user_id is None or job[1] == user_id for job in jobs)

    def close(self, timeout_s: float) -> bool:
        """Finish what waits, or stop after the present page when the time is up; return whether all was done."""
        done = self.wait(timeout_s)
        with self._changed:
            left = len(self._waiting)
            self._stopping = True
            self._waiting.clear()
            self._changed.notify_all()
            thread = self._thread
        if thread is not None and thread.is_alive():
            thread.join()
        if not done:
            log.warning("Closed before all vectors were made (%d left); the next start goes on from there", left + 1)
        return done

    def _run(self) -> None:
        while True:
            with self._changed:
                self._running = None
                self._changed.notify_all()
                while not self._waiting and not self._stopping:
                    self._changed.wait()
                if self._stopping:
                    return
                job, (follower, changes) = self._waiting.popitem(last=False)
                self._running = job
            try:
                while follower.step(changes, job[1]) and not self._stopping:
                    pass
            except Exception as error:  # noqa: BLE001 - whatever an arm or its driver raises is that arm's failure
                self._report(follower.name, error)
            else:
                self._report(follower.name, None)
