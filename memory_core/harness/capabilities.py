"""Memory for an agent of pydantic-ai that exists already: `Agent(…, capabilities=[MemoryCapability(provider)])`."""

import asyncio
import copy
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import TextContent
from pydantic_ai.run import AgentRunResult
from pydantic_ai.tools import RunContext

from memory_core.contracts import MemorySolutionProvider
from memory_core.harness.background import Background
from memory_core.harness.flushing import Flushes
from memory_core.harness.scope import RunScope, scope_of
from memory_core.harness.toolset import SpecToolset
from memory_core.ledger.combined import CombinedTalent
from memory_core.ledger.ledger import Ledger
from memory_core.ledger.results import FlushReason
from memory_core.ledger.talent import LedgerTalent
from memory_core.sessions.messages import Message
from memory_core.talent.specs import ToolSpec
from memory_core.talent.talent import MemoryTalent

C = TypeVar("C")
Instructions = Callable[[RunContext[Any]], Awaitable[str]]
LedgerOfUser = Callable[[str, str | None], Ledger | None]
"""From a working directory and a user to the ledger of that user, if there is one."""


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
        if ledger is None or not ledger.serves_tools(ctx):
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


class LedgerCapability(AbstractCapability[Any]):
    """The ledger: `MEMORY.md` in the instructions, its tools, and a flush with upkeep after every run.

    The flush runs after the reply, as a task of the same event loop; wait for it with `drain` before the program ends.
    A flush that was throttled or failed is made up for by the next one.

    Args:
        ledger: The ledger, or a function that gives the ledger of a working directory. One without a model uses the
            agent's.
        users: Gives the ledger of a working directory and another user than `user_id`. A ledger's files are for all who
            share it: without this function, runs of other users have none.
        memory: Serve this talent too, as one with the ledger. A `MemoryCapability` beside this one does the same.
        background: Where the flush runs; by default the capability's own.
        cwd, session_id, user_id: As for `MemoryCapability`.
        tools: False leaves out the tools and their guidance.
    """

    def __init__(
        self,
        ledger: Ledger | Callable[[str], Ledger],
        *,
        users: LedgerOfUser | None = None,
        memory: MemoryTalent | None = None,
        background: Background | None = None,
        cwd: Path | str = ".",
        session_id: str | None = None,
        user_id: str | None = None,
        tools: bool = True,
    ) -> None:
        self.talent = LedgerTalent(ledger)
        self.users = users
        self.memory = memory
        self.background = background or Background()
        self.default = RunScope(str(cwd), session_id, user_id)
        self.tools = tools
        self.enabled = True
        self.id = "memory_core_ledger"
        self._flushes = Flushes(self.background)

    def get_toolset(self) -> SpecToolset:
        """Return the tools, asked for again at every step."""
        return SpecToolset("memory_core_ledger", self._specs, self._scope, session_of)

    def get_instructions(self) -> Instructions:
        """Return the function that gives the instructions of a request."""
        return self._instructions

    async def before_run(self, ctx: RunContext[Any]) -> None:
        """Give the agent's model to a ledger that has none; that of this run, if the agent itself has none."""
        ledger = self.ledger(self._scope(ctx))
        if ledger is not None:
            ledger.adopt_model(getattr(ctx.agent, "model", None) or ctx.model)

    async def after_run(self, ctx: RunContext[Any], *, result: AgentRunResult[Any]) -> AgentRunResult[Any]:
        """Start the flush of what the run added, and return without waiting for it."""
        scope = self._scope(ctx)
        ledger = self.ledger(scope)
        if ledger is not None and not ledger.disable_memory_hooks:
            self._flushes.after_run(ledger, scope, result.new_messages())
        return result

    def flush_soon(self, scope: RunScope, messages: Sequence[Message], reason: FlushReason = "compaction") -> None:
        """Start a flush of messages that a compaction takes out of the context; it ignores the throttle."""
        ledger = self.ledger(scope)
        if ledger is not None and not ledger.disable_memory_hooks:
            self._flushes.now(ledger, scope, messages, reason)

    async def drain(self, timeout_s: float | None = None) -> bool:
        """Wait for the flushes under way; return False on a time-out."""
        return await self.background.drain(timeout_s)

    async def finish(self, timeout_s: float | None = None) -> bool:
        """Flush also what throttling kept back, or what failed before, and wait; return False on a time-out."""
        if not await self.background.drain(timeout_s):
            return False
        self._flushes.rest()
        return await self.background.drain(timeout_s)

    def _scope(self, ctx: RunContext[Any]) -> RunScope:
        return scope_of(ctx.deps, self.default)

    def ledger(self, scope: RunScope) -> Ledger | None:
        """Return the ledger that serves a scope; None where there is none for its user, or all is off."""
        if not self.enabled:
            return None
        if scope.user_id == self.default.user_id:
            return self.talent.ledger(scope.cwd)
        return self.users(scope.cwd, scope.user_id) if self.users is not None else None

    def _ledger_talent(self, scope: RunScope) -> LedgerTalent | None:
        ledger = self.ledger(scope)
        return None if ledger is None else LedgerTalent(ledger, budget_tokens=self.talent.budget_tokens)

    def _talent(self, scope: RunScope) -> LedgerTalent | CombinedTalent | MemoryTalent | None:
        memory = None if self.memory is None else talent_for(self.memory, scope)
        files = self._ledger_talent(scope)
        if files is None or memory is None:
            return files or memory
        return CombinedTalent(memory, files)

    def serves_tools(self, ctx: RunContext[Any]) -> bool:
        """Whether the run has the ledger's own tools."""
        return self.tools and self.ledger(self._scope(ctx)) is not None

    def merged(self, ctx: RunContext[Any], memory: MemoryTalent, scope: RunScope) -> Sequence[ToolSpec]:
        """Return the tools of a talent beside, its `memory_search` over this ledger too; each keeps its own scope."""
        here = self._ledger_talent(self._scope(ctx))
        if here is None:
            return memory.tools()
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
        files = self._ledger_talent(scope)
        if files is not None:
            ledger = files.ledger(scope.cwd)
            shown = self.tools or ledger.disable_memory_tools
            parts.append(files.instruction(text, cwd=scope.cwd) if shown else ledger.context_block(files.budget_tokens))
        if self.memory is not None:
            talent = talent_for(self.memory, scope)
            parts.append(talent.instruction(text, cwd=scope.cwd, session_id=session_of(scope), rules=self.tools))
        return "\n\n".join(filter(None, parts))


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
