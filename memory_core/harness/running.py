"""One prompt of an engine: what it carries, and what is done when the agent has answered."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic_ai.messages import ModelMessage
from pydantic_ai.run import AgentRunResult
from pydantic_ai.usage import RunUsage

from memory_core.context.evict import plan_eviction
from memory_core.errors import MemoryCoreError
from memory_core.harness.background import Background
from memory_core.harness.context import Compacted, ContextCapability
from memory_core.harness.scope import RunScope
from memory_core.sessions.converters.pydantic_ai import from_pydantic_ai
from memory_core.sessions.messages import Message
from memory_core.sessions.session import AgentSession

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Reply:
    """What the agent answered. `str(reply)` is the text.

    `messages` are those that the prompt added to its session, the prompt itself first.
    """

    output: Any
    session_id: str
    messages: list[Message] = field(repr=False)
    result: AgentRunResult[Any] = field(repr=False)

    @property
    def usage(self) -> RunUsage:
        """The tokens and requests that it took."""
        return self.result.usage

    def __str__(self) -> str:
        return str(self.output)


@dataclass(frozen=True, slots=True)
class Run:
    """One prompt under way, in its turn."""

    context: ContextCapability
    background: Background
    log_messages: Callable[[RunScope, Sequence[Message]], None]
    session: AgentSession
    scope: RunScope
    stored: list[Message]
    history: list[ModelMessage]
    compacted: list[Compacted]
    temporary: bool

    async def finish(self, result: AgentRunResult[Any]) -> Reply:
        """Store what the prompt added, shorten the session by what was compacted, start the work that comes after.

        Once begun all of it is done, also when the caller is cancelled meanwhile; the cancellation goes on afterwards.
        """
        work = asyncio.ensure_future(self._finished(result))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            await asyncio.wait([work])
            raise

    async def _finished(self, result: AgentRunResult[Any]) -> Reply:
        added = await asyncio.to_thread(self._store, result)
        if not self.temporary:
            self.background.submit(
                "transcript",
                lambda: asyncio.to_thread(self.log_messages, self.scope, added),
                f"transcript {self.session.session_id}",
            )
        return Reply(result.output, self.session.session_id, added, result)

    def _store(self, result: AgentRunResult[Any]) -> list[Message]:
        added = from_pydantic_ai(result.new_messages())
        eviction = self.context.eviction
        results = self.context.results
        kept = added
        if eviction is not None and results is not None:
            planned = plan_eviction(added, eviction)
            try:
                results.write(planned.files)
                kept = planned.messages
            except MemoryCoreError as error:
                log.warning("Large tool results stay in the session: %s", error)
        self.session.append(kept)
        done = self.compacted
        summaries = [one.summary for one in done if one.summary is not None]
        if summaries and not self.temporary:
            # Only what the session had before this prompt: its pairs are whole, and their ids are those it stored.
            gone = {message.id for one in done for message in one.messages} & {message.id for message in self.stored}
            self.session.replace(gone, [summaries[-1]])
        return added
