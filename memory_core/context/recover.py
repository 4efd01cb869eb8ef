"""When the model says that the context is too long after all: one forced compaction, one retry."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from memory_core.context.compact import Compaction
from memory_core.context.overflow import is_overflow
from memory_core.sessions.messages import Message

T = TypeVar("T")
Send: TypeAlias = Callable[[Sequence[Message]], Awaitable[T]]
Force: TypeAlias = Callable[[Sequence[Message]], Awaitable[Compaction]]
"""Compacts although no trigger fired, with a flush if there is one: `compact(…, force=True, before=flush)`."""


@dataclass(frozen=True, slots=True)
class Recovered(Generic[T]):
    """The model's answer, the history that it was given, and the compaction that was needed, if one was."""

    value: T
    messages: list[Message]
    compaction: Compaction | None = None


async def with_recovery(send: Send[T], messages: Sequence[Message], force: Force | None = None) -> Recovered[T]:
    """Send `messages`; on an overflow compact once and send once more.

    Raises:
        Exception: What `send` raised: when it is no overflow, when `force` is None, when the compaction failed or
            changed nothing, and when the second attempt fails.
    """
    try:
        return Recovered(await send(messages), list(messages))
    except Exception as error:
        if force is None or not is_overflow(error):
            raise
        compaction = await force(messages)
        if compaction.failure or compaction.messages == list(messages):
            raise
    return Recovered(await send(compaction.messages), compaction.messages, compaction)


def with_recovery_sync(
    send: Callable[[Sequence[Message]], T],
    messages: Sequence[Message],
    force: Callable[[Sequence[Message]], Compaction] | None = None,
) -> Recovered[T]:
    """The same for callers without an event loop.

    Raises:
        Exception: As `with_recovery`.
    """
    try:
        return Recovered(send(messages), list(messages))
    except Exception as error:
        if force is None or not is_overflow(error):
            raise
        compaction = force(messages)
        if compaction.failure or compaction.messages == list(messages):
            raise
    return Recovered(send(compaction.messages), compaction.messages, compaction)
