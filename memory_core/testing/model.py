"""A scripted language model: a `ChatModel` for tests, of this library and of yours."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from memory_core.contracts import ModelReply


@dataclass(frozen=True, slots=True)
class ModelCall:
    """What the model was asked."""

    system: str
    user: str
    max_output_tokens: int


ReplyFunction: TypeAlias = Callable[[ModelCall], "str | ModelReply | Awaitable[str | ModelReply]"]
Step: TypeAlias = str | ModelReply | BaseException | ReplyFunction
"""One step of a script: text, a whole reply, an error to raise, or a function of the call, plain or async."""


class FakeModel:
    """Answers with the given steps, one a call; the last step repeats for ever.

    Attributes:
        calls: Every call so far, in order; a call counts also when its step raises or is cancelled.
        delay_s: Each answer takes that long.
    """

    def __init__(self, *script: Step, delay_s: float = 0.0) -> None:
        self.calls: list[ModelCall] = []
        self.delay_s = delay_s
        self._script: Sequence[Step] = script or ("NO_REPLY",)

    async def complete(self, system: str, user: str, max_output_tokens: int) -> ModelReply:
        """Give the next scripted answer."""
        call = ModelCall(system, user, max_output_tokens)
        step = self._script[min(len(self.calls), len(self._script) - 1)]
        self.calls.append(call)
        if self.delay_s:
            await asyncio.sleep(self.delay_s)
        if isinstance(step, BaseException):
            raise step
        answer = step(call) if callable(step) else step
        if isinstance(answer, Awaitable):
            answer = await answer
        return ModelReply(answer) if isinstance(answer, str) else answer
