"""The same operations for asyncio: one generic facade over threads."""

from collections.abc import Awaitable, Callable
from typing import Any

from memory_core.contracts import MemorySolution


class AsyncMemorySolution:
    """Wraps a `MemorySolution`: every method of the same name, awaitable, run in a worker thread.

    `await AsyncMemorySolution(solution).search("python")` gives what `solution.search("python")` gives and raises what
    it raises. Plain attributes (`scopes`, `default_scope`) are passed through.
    """

    def __init__(self, solution: MemorySolution) -> None:
        self.solution = solution

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.solution, name)
        return self._threaded(value) if callable(value) and not name.startswith("_") else value

    @staticmethod
    def _threaded(method: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
        import asyncio  # here, because it would be a third of this package's import time

        async def call(*args: Any, **kwargs: Any) -> Any:
            return await asyncio.to_thread(method, *args, **kwargs)

        return call
