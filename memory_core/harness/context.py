"""A context that fits, for an agent of pydantic-ai: compaction, truncation, pruning, eviction, overflow recovery.

Only what is sent changes; the history of the run stays whole. Within a run a summary is made once and kept, so that the
next request goes on from it. `on_compacted` tells the caller, who may shorten the stored session by it.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import RetryModelRequest
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import ModelRequestContext
from pydantic_ai.tools import RunContext

from memory_core.context.compact import Compaction, compact
from memory_core.context.config import CompactionConfig, ToolResultEvictionConfig
from memory_core.context.evict import plan_eviction
from memory_core.context.files import LargeResults, read_tool_text
from memory_core.context.overflow import is_overflow
from memory_core.context.plan import Plan
from memory_core.context.tokens import MessageSizer
from memory_core.errors import MemoryCoreError
from memory_core.harness.scope import RunScope, scope_of
from memory_core.harness.toolset import SpecToolset
from memory_core.ledger.models import as_chat_model
from memory_core.ledger.results import FlushReason
from memory_core.sessions.converters.pydantic_ai import from_pydantic_ai, to_pydantic_ai
from memory_core.sessions.messages import Message
from memory_core.talent.specs import ToolContext, ToolResult, ToolSpec, check_arguments, parse_whole

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Compacted:
    """A compaction that took place in a run: which messages gave way, and the summary that stands for them."""

    scope: RunScope
    messages: tuple[Message, ...]
    summary: Message | None
    overflow: bool


OnCompacted: TypeAlias = Callable[[Compacted], None]
BeforeCompacted: TypeAlias = Callable[[RunScope, Plan, FlushReason], Awaitable[None]]
"""Called before messages leave the context: scope, plan, and `overflow` when the model refused it as too long."""


History: TypeAlias = Sequence[tuple[ModelMessage, Message]]
HISTORY: ContextVar[History] = ContextVar("memory_core_history", default=())
"""The history of the prompt that an engine runs at the moment, with the stored messages that it was made of: what was
converted once need not be converted back."""


class ContextCapability(AbstractCapability[Any]):
    """Keeps what is sent to the model within bounds.

    Args:
        compaction: When to compact and how; None: never, and an overflow goes to the caller.
        eviction: Which tool results move to files; None: none.
        root: Where those files lie; needed with `eviction`.
        window_tokens: The model's window; None takes 128,000.
        model: Writes the summaries when `compaction.model` is None; by default the agent's own model.
        before: Called before messages leave the context. Its error is logged and stops that compaction.
        on_compacted: Called after a compaction.
        cwd, session_id, user_id: As for `MemoryCapability`; they go to the two callbacks.
    """

    def __init__(
        self,
        compaction: CompactionConfig | None = None,
        eviction: ToolResultEvictionConfig | None = None,
        *,
        root: Path | str | None = None,
        window_tokens: int | None = None,
        model: Any = None,
        before: BeforeCompacted | None = None,
        on_compacted: OnCompacted | None = None,
        cwd: Path | str = ".",
        session_id: str | None = None,
        user_id: str | None = None,
    ) -> None:
        self.compaction = compaction
        self.eviction = eviction
        self.window_tokens = window_tokens
        self.model = model
        self.default = RunScope(str(cwd), session_id, user_id)
        self.id = "memory_core_context"
        self.size = MessageSizer()
        self.results = None if eviction is None else LargeResults(Path(root or cwd), eviction)
        self.before = before
        self.on_compacted = on_compacted

    async def for_run(self, ctx: RunContext[Any]) -> "ContextCapability":
        """Return the capability of one run, with what was compacted in it."""
        del ctx
        return _RunContextCapability(self, HISTORY.get())

    def get_toolset(self) -> SpecToolset | None:
        """Return the tool that reads evicted results back, when results are evicted."""
        if self.results is None or self.results.config.read_tool is None:
            return None
        spec = _read_tool(self.results, self.results.config.read_tool)
        return SpecToolset(
            "memory_core_context", lambda _ctx, _scope: [spec], lambda ctx: scope_of(ctx.deps, self.default)
        )


class _RunContextCapability(ContextCapability):
    """One run. `_kept` stands for the first `_covered` messages of the run's history."""

    def __init__(self, whole: ContextCapability, history: History) -> None:
        super().__init__(
            whole.compaction,
            whole.eviction,
            root=None if whole.results is None else whole.results.root,
            window_tokens=whole.window_tokens,
            model=whole.model,
            before=whole.before,
            on_compacted=whole.on_compacted,
        )
        self.default = whole.default
        self.size = whole.size
        self._known: dict[int, tuple[ModelMessage, Message]] = {}
        self._same: dict[int, ModelMessage] = {}
        self._seen = 0
        self._kept: list[Message] | None = None
        self._covered = 0
        self._sent: list[Message] = []
        self._recovered_step = -1
        stored = [message for _, message in history]
        evicted = stored if self.eviction is None else plan_eviction(stored, self.eviction).messages
        for (native, message), made in zip(history, evicted, strict=True):
            if made is message:  # what must be evicted goes the whole way, and its file is written
                self._know(native, message, message)

    async def for_run(self, ctx: RunContext[Any]) -> ContextCapability:
        del ctx
        return self

    async def prepare_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        natives = request_context.messages
        current = self._current(natives)
        if self.compaction is not None:
            done = await self._compact(ctx, request_context, current, force=False)
            if done is not None:
                if done.compacted:
                    self._kept, self._covered = done.messages, len(natives)
                current = done.messages
        self._sent = current
        messages = self._native(current)
        if len(messages) == len(natives) and all(a is b for a, b in zip(messages, natives, strict=True)):
            return request_context
        return replace(request_context, messages=messages)

    async def on_model_request_error(
        self, ctx: RunContext[Any], *, request_context: ModelRequestContext, error: Exception
    ) -> ModelResponse:
        if self.compaction is None or self._recovered_step == ctx.run_step or not is_overflow(error):
            raise error
        self._recovered_step = ctx.run_step
        done = await self._compact(ctx, request_context, self._sent, force=True)
        if done is None or done.failure or done.messages == self._sent:
            raise error
        log.info("The model refused %d messages as too long; %d are sent now", len(self._sent), len(done.messages))
        self._kept, self._covered = done.messages, self._seen
        raise RetryModelRequest from error

    def _current(self, natives: Sequence[ModelMessage]) -> list[Message]:
        """Return the history to go on with: what a compaction left, and what was said since."""
        self._seen = len(natives)
        if self._kept is None or self._covered > len(natives):
            self._kept, self._covered = None, 0
            return self._neutral(natives)
        return [*self._kept, *self._neutral(natives[self._covered :])]

    def _neutral(self, natives: Sequence[ModelMessage]) -> list[Message]:
        fresh = [native for native in natives if id(native) not in self._known]
        plain = from_pydantic_ai(fresh)
        made = plain if self.results is None else self._evicted(plain, self.results)
        for native, whole, message in zip(fresh, plain, made, strict=True):
            self._know(native, whole, message)
        return [self._known[id(native)][1] for native in natives]

    def _know(self, native: ModelMessage, whole: Message, message: Message) -> None:
        """Remember what stands for a native message: the whole of it, or what an eviction left."""
        self._known[id(native)] = (native, message)
        if message is whole:
            self._same[id(message)] = native

    def _evicted(self, messages: list[Message], results: LargeResults) -> list[Message]:
        eviction = plan_eviction(messages, self.eviction)
        if not eviction.files:
            return messages
        try:
            results.write(eviction.files)
        except MemoryCoreError as error:
            log.warning("Large tool results stay in the context: %s", error)
            return messages
        return eviction.messages

    def _native(self, messages: Sequence[Message]) -> list[ModelMessage]:
        """Return native messages; one that nobody changed is the very object that came."""
        natives: list[ModelMessage] = []
        for message in messages:
            known = self._same.get(id(message))
            natives += [known] if known is not None else to_pydantic_ai([message])
        return natives

    async def _compact(
        self, ctx: RunContext[Any], request_context: ModelRequestContext, messages: list[Message], *, force: bool
    ) -> Compaction | None:
        assert self.compaction is not None
        scope = scope_of(ctx.deps, self.default)

        async def before(plan: Plan) -> None:
            if self.before is not None:
                await self.before(scope, plan, "overflow" if force else "compaction")

        chosen = self.compaction.model or self.model or request_context.model
        try:
            done = await compact(
                messages,
                self.compaction,
                self.window_tokens,
                as_chat_model(chosen),
                force=force,
                size=self.size,
                before=before,
            )
        except MemoryCoreError as error:
            log.warning("A compaction was not made: %s", error)
            return None
        if done.compacted and self.on_compacted is not None:
            old = {message.id for message in messages}
            made = [message for message in done.messages if message.kind == "summary" and message.id not in old]
            gone = done.plan.earlier + done.plan.compacted
            self.on_compacted(Compacted(scope, gone, made[0] if made else None, force))
        return done


def _read_tool(results: LargeResults, name: str) -> ToolSpec:
    number = {"type": "integer", "minimum": 0}
    schema = {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "The path that the notice in the result names."},
            "start_line": {**number, "description": "First line, from 1."},
            "end_line": {**number, "description": "Last line, inclusive."},
            "offset": {**number, "description": "Where to go on in a line that was cut."},
        },
        "required": ["path"],
        "additionalProperties": False,
    }

    def run(arguments: Any, context: ToolContext) -> ToolResult:
        del context
        wrong = check_arguments(schema, arguments)
        if wrong is not None:
            return ToolResult(f"Nothing was read: {wrong}.", {"error": wrong}, ok=False)
        numbers: dict[str, int] = {}
        for field in ("start_line", "end_line", "offset"):
            value = arguments.get(field)
            if value is None:
                continue
            parsed = parse_whole(value, 0, 1_000_000_000)
            if parsed is None:
                reason = f"{field} must be a whole number"
                return ToolResult(f"Nothing was read: {reason}.", {"error": reason}, ok=False)
            numbers[field] = parsed
        return ToolResult(read_tool_text(results, str(arguments["path"]), **numbers))

    return ToolSpec(name, "Read a tool result that was too long for the context, page by page.", schema, run)
