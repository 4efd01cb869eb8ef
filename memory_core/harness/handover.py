"""An async generator whose body runs in a task of its own."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")
_END = object()


async def from_task(run: Callable[[Callable[[T], Awaitable[None]]], Awaitable[None]]) -> AsyncGenerator[T, None]:
    """Yield what `run` hands over, one at a time; its function returns when the next one is asked for.

    A generator runs in the context of whoever iterates it: a context variable that it sets is set there too, also while
    it waits at a `yield`, and after it was given up. What a task sets is seen by that task alone.

    Raises what `run` raises, after what it handed over. When the iteration is given up, the task is cancelled and
    awaited.
    """
    handed: asyncio.Queue[object] = asyncio.Queue()

    async def hand_over(item: T) -> None:
        handed.put_nowait(item)
        await handed.join()

    async def body() -> None:
        try:
            await run(hand_over)
        finally:
            handed.put_nowait(_END)

    task = asyncio.create_task(body())
    try:
        while (item := await handed.get()) is not _END:
            yield item  # type: ignore[misc]  # everything but the end was handed over
            handed.task_done()
        await task
    finally:
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # whoever gave up does not want to know
