"""Memory for an agent of pydantic-ai that exists already: `Agent(…, capabilities=[MemoryCapability(provider)])`."""

import asyncio
import copy
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import ModelMessage, TextContent
from pydantic_ai.run import AgentRunResult
from pydantic_ai.tools import RunContext

from memory_core.contracts import MemorySolutionProvider
from memory_core.harness.background import Background
from memory_core.harness.scope import RunScope, scope_of
from memory_core.harness.toolset import SpecToolset
from memory_core.ledger.combined import CombinedTalent
from memory_core.ledger.ledger import Ledger
from memory_core.ledger.results import FlushReason
from memory_core.ledger.talent import LedgerTalent
from memory_core.sessions.converters.pydantic_ai import from_pydantic_ai
from memory_core.sessions.messages import Message
from memory_core.talent.specs import ToolSpec
from memory_core.talent.talent import MemoryTalent

C = TypeVar("C")
Instructions = Callable[[RunContext[Any]], Awaitable[str]]

MAX_UNFLUSHED = 400
"""From this many messages on, a throttled flush runs all the same: they are kept in memory until then."""


class MemoryCapability(AbstractCapability[Any]):
    """The five memory tools, and the memories that fit the user's input in the instructions of every request.

    Args:
        memory: A provider, or a talent made of one.
        cwd: The directory whose memories are used.
        session_id: The session that a run belongs to.
        user_id: Use that user's memories and nobody else's. None: shared ones, as the talent is set.
        tools: False leaves out the tools and the rules of upkeep; memories are injected all the same.

    Beside a `LedgerCapability` on the same agent, in either order, the two give one `memory_search` over both; one
    that serves a talent itself (`memory=`) leaves nothing to this one.

    A run's deps win over `cwd`, `session_id` and `user_id`, by attributes or keys of these names. The model can set
    none of them.
    """

    def __init__(
        self,
        memory: MemoryTalent | MemorySolutionProvider,
        *,
        cwd: Path | str = ".",
        session_id: str | None = None,
        user_id: str | None = None,
        tools: bool = True,
    ) -> None:
        self.talent = memory if isinstance(memory, MemoryTalent) else MemoryTalent(memory)
        self.default = RunScope(str(cwd), session_id, user_id)
        self.tools = tools
        self.id = "memory_core_memory"

    def get_toolset(self) -> SpecToolset:
        """Return the tools, asked for again at every step."""
        return SpecToolset("memory_core_memory", self._specs, self._scope, session_of)

    def get_instructions(self) -> Instructions:
        """Return the function that gives the instructions of a request."""
        return self._instructions

    def _scope(self, ctx: RunContext[Any]) -> RunScope:
        return scope_of(ctx.deps, self.default)

    def _specs(self, ctx: RunContext[Any], scope: RunScope) -> Sequence[ToolSpec]:
        ledger = beside(ctx, LedgerCapability)
        if not self.tools or (ledger is not None and ledger.memory is not None):
            return []
        specs = talent_for(self.talent, scope).tools()
        if ledger is None or not ledger.serves_tools:
            return specs
        return ledger.merged(ctx, talent_for(self.talent, scope), scope)

    async def _instructions(self, ctx: RunContext[Any]) -> str:
        ledger = beside(ctx, LedgerCapability)
        if not self.talent.enabled or (ledger is not None and ledger.memory is not None):
            return ""
        scope = self._scope(ctx)
        return await asyncio.to_thread(
            talent_for(self.talent, scope).instruction,
            prompt_text(ctx),
            cwd=scope.cwd,
            session_id=session_of(scope),
            rules=self.tools,
        )


@dataclass(slots=True)
class _Unflushed:
    """What the runs of one isolation key added since the last flush."""

    ledger: Ledger
    scope: RunScope
    messages: list[ModelMessage] = field(default_factory=list[ModelMessage])


class LedgerCapability(AbstractCapability[Any]):
    """The ledger: `MEMORY.md` in the instructions, its tools, and a flush with upkeep after every run.

    The flush runs after the reply, as a task of the same event loop; wait for it with `drain` before the program ends.
    A flush that was throttled or failed is made up for by the next one.

    Args:
        ledger: The ledger, or a function that gives the ledger of a working directory. One without a model uses the
            agent's.
        memory: Serve this talent too, as one with the ledger. A `MemoryCapability` beside this one does the same.
        background: Where the flush runs; by default the capability's own.
        cwd, session_id, user_id: As for `MemoryCapability`.
        tools: False leaves out the tools and their guidance.
    """

    def __init__(
        self,
        ledger: Ledger | Callable[[str], Ledger],
        *,
        memory: MemoryTalent | None = None,
        background: Background | None = None,
        cwd: Path | str = ".",
        session_id: str | None = None,
        user_id: str | None = None,
        tools: bool = True,
    ) -> None:
        self.talent = LedgerTalent(ledger)
        self.memory = memory
        self.background = background or Background()
        self.default = RunScope(str(cwd), session_id, user_id)
        self.tools = tools
        self.enabled = True
        self.id = "memory_core_ledger"
        self._unflushed: dict[str, _Unflushed] = {}

    def get_toolset(self) -> SpecToolset:
        """Return the tools, asked for again at every step."""
        return SpecToolset("memory_core_ledger", self._specs, self._scope, session_of)

    def get_instructions(self) -> Instructions:
        """Return the function that gives the instructions of a request."""
        return self._instructions

    async def before_run(self, ctx: RunContext[Any]) -> None:
        """Give the agent's model to a ledger that has none."""
        if self.enabled:
            self.talent.ledger(self._scope(ctx).cwd).adopt_model(ctx.model)

    async def after_run(self, ctx: RunContext[Any], *, result: AgentRunResult[Any]) -> AgentRunResult[Any]:
        """Start the flush of what the run added, and return without waiting for it."""
        if self.enabled:
            scope = self._scope(ctx)
            ledger = self.talent.ledger(scope.cwd)
            if not ledger.disable_memory_hooks:
                key = scope.isolation_key
                self._unflushed.setdefault(key, _Unflushed(ledger, scope)).messages += result.new_messages()
                self.background.submit("flush", lambda: self._flush(key), key)
        return result

    def flush_soon(self, scope: RunScope, messages: Sequence[Message], reason: FlushReason = "compaction") -> None:
        """Start a flush of messages that a compaction takes out of the context; it ignores the throttle."""
        ledger = self.talent.ledger(scope.cwd)
        if self.enabled and not ledger.disable_memory_hooks:
            kept = list(messages)
            self.background.submit(
                "flush before compaction", lambda: self._flush_now(ledger, scope, kept, reason), scope.isolation_key
            )

    async def drain(self, timeout_s: float | None = None) -> bool:
        """Wait for the flushes under way; return False on a time-out."""
        return await self.background.drain(timeout_s)

    async def finish(self, timeout_s: float | None = None) -> bool:
        """Flush also what throttling kept back, or what failed before, and wait; return False on a time-out."""
        if not await self.background.drain(timeout_s):
            return False
        for key in list(self._unflushed):
            self.background.submit("last flush", partial(self._flush_rest, key), key)
        return await self.background.drain(timeout_s)

    def _scope(self, ctx: RunContext[Any]) -> RunScope:
        return scope_of(ctx.deps, self.default)

    def _talent(self, scope: RunScope) -> LedgerTalent | CombinedTalent | MemoryTalent | None:
        memory = None if self.memory is None else talent_for(self.memory, scope)
        if not self.enabled:
            return memory
        return self.talent if memory is None else CombinedTalent(memory, self.talent)

    @property
    def serves_tools(self) -> bool:
        """Whether the ledger's own tools are on, wherever it is."""
        return self.enabled and self.tools

    def merged(self, ctx: RunContext[Any], memory: MemoryTalent, scope: RunScope) -> Sequence[ToolSpec]:
        """Return the tools of a talent beside, its `memory_search` over this ledger too; each keeps its own scope."""
        place = self._scope(ctx).cwd
        here = LedgerTalent(lambda _cwd: self.talent.ledger(place))
        names = {spec.name for spec in memory.tools()}
        return [spec for spec in CombinedTalent(memory, here).tools(scope.cwd) if spec.name in names]

    def _specs(self, ctx: RunContext[Any], scope: RunScope) -> Sequence[ToolSpec]:
        talent = self._talent(scope) if self.tools else None
        if talent is None:
            return []
        specs = talent.tools() if isinstance(talent, MemoryTalent) else talent.tools(scope.cwd)
        keyed = beside(ctx, MemoryCapability) if self.memory is None else None
        if keyed is None or not (keyed.tools and keyed.talent.enabled):
            return specs
        return [spec for spec in specs if spec.name != "memory_search"]  # it is in the merged one

    async def _instructions(self, ctx: RunContext[Any]) -> str:
        scope = self._scope(ctx)
        return await asyncio.to_thread(self._both, prompt_text(ctx), scope)

    def _both(self, text: str, scope: RunScope) -> str:
        parts: list[str] = []
        if self.enabled:
            ledger = self.talent.ledger(scope.cwd)
            shown = self.tools or ledger.disable_memory_tools
            parts.append(
                self.talent.instruction(text, cwd=scope.cwd)
                if shown
                else ledger.context_block(self.talent.budget_tokens)
            )
        if self.memory is not None:
            talent = talent_for(self.memory, scope)
            parts.append(talent.instruction(text, cwd=scope.cwd, session_id=session_of(scope), rules=self.tools))
        return "\n\n".join(filter(None, parts))

    async def _flush(self, key: str) -> None:
        waiting = self._unflushed.get(key)
        if waiting is None:
            return
        natives = list(waiting.messages)
        reason: FlushReason = "manual" if len(natives) > MAX_UNFLUSHED else "call"
        result = await waiting.ledger.flush(await asyncio.to_thread(from_pydantic_ai, natives), key, reason=reason)
        if result.status == "failed":
            self.background.failed("flush", result.error)
        if result.status not in ("throttled", "failed"):
            self._forget(key, natives)
        report = await waiting.ledger.maintain()
        for error in report.errors:
            self.background.failed("upkeep", error)

    async def _flush_rest(self, key: str) -> None:
        waiting = self._unflushed.get(key)
        if waiting is not None:
            natives = list(waiting.messages)
            await self._flush_now(
                waiting.ledger, waiting.scope, await asyncio.to_thread(from_pydantic_ai, natives), "manual"
            )
            self._forget(key, natives)

    async def _flush_now(
        self, ledger: Ledger, scope: RunScope, messages: Sequence[Message], reason: FlushReason
    ) -> None:
        result = await ledger.flush(messages, scope.isolation_key, reason=reason)
        if result.status == "failed":
            self.background.failed(f"flush ({reason})", result.error)

    def _forget(self, key: str, flushed: Sequence[ModelMessage]) -> None:
        waiting = self._unflushed[key]
        gone = {id(message) for message in flushed}
        waiting.messages = [message for message in waiting.messages if id(message) not in gone]
        if not waiting.messages:
            del self._unflushed[key]


def beside(ctx: RunContext[Any], kind: type[C]) -> C | None:
    """Return the run's first capability of a kind."""
    found: list[C] = []
    if ctx.root_capability is not None:
        ctx.root_capability.apply(lambda one: found.append(one) if isinstance(one, kind) else None)
    return found[0] if found else None


def talent_for(talent: MemoryTalent, scope: RunScope) -> MemoryTalent:
    """Return the talent that serves a scope: for a user of their own, one that keeps users apart."""
    if scope.user_id is None:
        return talent
    own = copy.copy(talent)
    own.session_isolation = True
    return own


def session_of(scope: RunScope) -> str | None:
    """Return what a talent takes as the session: with a user, the user's id, by which it keeps users apart."""
    return scope.user_id or scope.session_id


def prompt_text(ctx: RunContext[Any]) -> str:
    """Return the text of the user's prompt; empty when there is none."""
    prompt = ctx.prompt
    if prompt is None or isinstance(prompt, str):
        return prompt or ""
    texts = (part if isinstance(part, str) else part.content for part in prompt if isinstance(part, str | TextContent))
    return "\n".join(texts)
