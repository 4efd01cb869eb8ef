"""First come, first served, by key: one at a time within a key, side by side across keys, whatever loop or thread."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from concurrent.futures import Future
from contextlib import asynccontextmanager
from threading import Lock


class KeyedQueue:
    """Serialises work by key. Tasks of different event loops may wait for each other; a cancelled one gives way."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._waiting: dict[str, deque[Future[None]]] = {}

    @asynccontextmanager
    async def turn(self, key: str) -> AsyncGenerator[None, None]:
        """Wait for the turn of this key and hold it."""
        await self._enter(key)
        try:
            yield
        finally:
            self._leave(key)

    async def _enter(self, key: str) -> None:
        with self._lock:
            waiting = self._waiting.get(key)
            if waiting is None:
                self._waiting[key] = deque()
                return
            mine: Future[None] = Future()
            waiting.append(mine)
        try:
            await asyncio.wrap_future(mine)
        except asyncio.CancelledError:
            # Cancelling the wrapper cancels `mine`, unless the turn was given in the same moment: hand it on then.
            if mine.done() and not mine.cancelled():
                self._leave(key)
            raise

    def _leave(self, key: str) -> None:
        with self._lock:
            waiting = self._waiting[key]
            while waiting:
                following = waiting.popleft()
                if following.set_running_or_notify_cancel():
                    following.set_result(None)
                    return
            del self._waiting[key]
