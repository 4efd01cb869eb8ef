"""What a caller gives: a clock, a language model. Anything that fits will do."""

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, runtime_checkable


@runtime_checkable
class Clock(Protocol):
    """Where the time comes from; tests pass a `FakeClock`."""

    def now(self) -> datetime:
        """Return the present moment, aware, in UTC."""
        ...


@dataclass(frozen=True, slots=True)
class ModelReply:
    """What a language model answered, and why it stopped (`"stop"`, `"length"`, …)."""

    text: str
    finish_reason: str = "stop"


class ChatModel(Protocol):
    """A language model for the library's own calls (flush, consolidation, summaries)."""

    async def complete(self, system: str, user: str, max_output_tokens: int) -> ModelReply:
        """Answer `user` under the rules of `system`."""
        ...
