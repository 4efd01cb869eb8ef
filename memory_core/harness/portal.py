"""An event loop in a thread of its own, for callers that have none."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from memory_core.errors import ConfigError

T = TypeVar("T")


class Portal:
    """Runs coroutines in one loop, started at the first call and kept: connections and tasks outlive a call."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def call(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run `make()` there and return its result, or raise its error.

        Raises:
            ConfigError: An event loop runs in this thread, which would stand still meanwhile.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            raise ConfigError("An event loop runs in this thread: await the asynchronous method instead.")
        return asyncio.run_coroutine_threadsafe(make(), self._started()).result()

    def stop(self) -> None:
        """End the loop; what still runs in it is cancelled. Stopping twice is harmless."""
        with self._lock:
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._serve, args=(self._loop,), name=self._name, daemon=True)
                self._thread.start()
            return self._loop

    @staticmethod
    def _serve(loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
            left = asyncio.all_tasks(loop)
            for task in left:
                task.cancel()
            loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.run_until_complete(loop.shutdown_default_executor())
        finally:
            loop.close()
