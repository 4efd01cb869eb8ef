"""The engine: one agent with sessions, memory, ledger and a bounded context.

Over the three capabilities of this package; it adds sessions, their order, and what happens after the reply.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from pydantic_ai import Agent
from pydantic_ai.messages import PartDeltaEvent, PartStartEvent, TextPart, TextPartDelta
from pydantic_ai.run import AgentRunResult, AgentRunResultEvent

from memory_core.config import load_settings
from memory_core.context.config import CompactionConfig, ToolResultEvictionConfig
from memory_core.context.plan import Plan
from memory_core.errors import ConfigError
from memory_core.harness.background import Background
from memory_core.harness.building import UserLedgers, build_compaction, build_ledger, build_provider, given_or_set
from memory_core.harness.capabilities import LedgerCapability, MemoryCapability
from memory_core.harness.context import HISTORY, Compacted, ContextCapability
from memory_core.harness.ending import EngineEnding
from memory_core.harness.handover import from_task
from memory_core.harness.portal import Portal
from memory_core.harness.queueing import KeyedQueue
from memory_core.harness.running import Reply, Run
from memory_core.harness.scope import CURRENT, RunScope
from memory_core.harness.settings import EngineSettings
from memory_core.ledger.config import MemoryConfig
from memory_core.ledger.ledger import Ledger
from memory_core.ledger.opening import user_folder
from memory_core.ledger.results import FlushReason
from memory_core.plugins.registry import get_registry
from memory_core.sessions.converters.pydantic_ai import to_pydantic_ai
from memory_core.sessions.loading import build_sessions
from memory_core.sessions.memory import temporary_session
from memory_core.sessions.messages import Message
from memory_core.sessions.session import DEFAULT_WINDOW, AgentSession, SessionProvider
from memory_core.sessions.transcript import TranscriptLog
from memory_core.talent.talent import MemoryTalent

log = logging.getLogger(__name__)

PERMISSION = "memory"
"""The name under which the memory tools are allowed."""
DEFAULT_COMPRESSION_MESSAGES = 40
DEFAULT_COMPRESSION_RATIO = 0.75

SessionLike: TypeAlias = "AgentSession | str | None"


class HarnessEngine(EngineSettings, EngineEnding):
    """An agent with a memory.

    Prompts on one session run one after another, in the order in which they came; on different sessions side by side.
    A reply is returned when it is stored in its session; flush, transcript and upkeep run after it. A prompt that fails
    leaves the session as it was. Close the engine (`await engine.close()`, `async with`, `close_sync`): that waits for
    the work after the replies.

    Args:
        workspace: The directory that the agent works in; whose memories are used.
        home: Where sessions and the user's own memories lie; relative paths start at the workspace. By default the
            configured one.
        model: The model, as instance or `"provider:model"` of pydantic-ai (`openai-chat:…` for servers that speak
            OpenAI's chat API).
        instructions, tools, toolsets, capabilities, output_type: For the agent, as pydantic-ai's `Agent` takes them.
        session_provider: Any callable that gives the session of an id; by default the configured store.
        memory_provider: Gives the memories of a directory; by default the configured one. May be a class, or any object
            with `get(cwd)`.
        memory_enabled: Off means off: no memory is read, written, injected or flushed.
        memory_relevance_count, memory_priority_count, memory_summary_length: See `MemoryTalent`.
        memory_session_isolation: Keep the memories of each session apart.
        memory_model: Flushes and consolidates; by default the agent's.
        memory: The knobs of the ledger.
        ledger: A ledger of your own, or False for none.
        session_window_size: How many messages of its session a new prompt carries.
        compression_max_messages, compression_max_context_ratio: When the context is compacted; 0 is off.
        compression_model: Writes the summaries; by default the agent's.
        compression_interceptor: A strategy or callable that replaces the summary.
        compaction: All knobs of compaction at once, instead of the four before; False: never, and an overflow is
            raised.
        tool_result_eviction: Which tool results move to files; False: none.
        window_tokens: The model's window; None takes 128,000.
        permissions: Names of the tools that are allowed; None allows all. Without `memory` the agent has no memory
            tools.
        disable_memory_hooks: No flush, no upkeep.
        disable_memory_tools: No memory tools and no guidance; with both, nothing is injected either.
        user_id: Whose memories and transcripts; None: everybody's.

    Raises:
        ConfigError, BudgetError: A setting is wrong.
        UnknownBackendError, MissingExtraError: A backend is not there.
    """

    def __init__(
        self,
        workspace: Path | str = ".",
        home: Path | str | None = None,
        *,
        model: Any = None,
        instructions: Any = None,
        tools: Sequence[Any] = (),
        toolsets: Sequence[Any] | None = None,
        capabilities: Sequence[Any] = (),
        output_type: Any = str,
        session_provider: SessionProvider | None = None,
        memory_provider: Any = None,
        memory_enabled: bool = True,
        memory_relevance_count: int | None = None,
        memory_priority_count: int | None = None,
        memory_summary_length: int | None = None,
        memory_session_isolation: bool = False,
        memory_model: Any = None,
        memory: MemoryConfig | None = None,
        ledger: Ledger | bool = True,
        session_window_size: int = DEFAULT_WINDOW,
        compression_max_messages: int = DEFAULT_COMPRESSION_MESSAGES,
        compression_max_context_ratio: float = DEFAULT_COMPRESSION_RATIO,
        compression_model: Any = None,
        compression_interceptor: Any = None,
        compaction: CompactionConfig | bool = True,
        tool_result_eviction: ToolResultEvictionConfig | bool = True,
        window_tokens: int | None = None,
        permissions: Collection[str] | None = None,
        disable_memory_hooks: bool = False,
        disable_memory_tools: bool = False,
        user_id: str | None = None,
        overrides: Mapping[str, Any] | None = None,
    ) -> None:
        self.workspace = Path(workspace).expanduser().absolute()
        changed = dict(overrides or {})
        if home is not None:
            changed["home"] = str(self.workspace / Path(home).expanduser())
        loaded = load_settings(self.workspace, None, changed)
        self.home = loaded.settings.home_dir
        self.user_id = user_id
        self.session_window_size = session_window_size
        self.background = Background()
        self._queue = KeyedQueue()
        self._portal = Portal("memory-core engine")
        self._closed = False
        self._memory_enabled = memory_enabled
        self._compacted: dict[str, list[Compacted]] = {}
        self._transcripts = TranscriptLog(self.home / "sessions")
        self._sessions = session_provider or build_sessions(loaded, get_registry())

        tools_allowed = not disable_memory_tools and (permissions is None or PERMISSION in permissions)
        nothing = disable_memory_hooks and not tools_allowed
        self._own_provider = memory_provider is None
        self._provider = build_provider(memory_provider, self.workspace, changed)
        self.memory_talent = MemoryTalent(
            self._provider,
            locale=loaded.settings.locale,
            session_isolation=memory_session_isolation,
            enabled=memory_enabled and not nothing,
            **given_or_set(
                loaded,
                relevance_count=memory_relevance_count,
                priority_count=memory_priority_count,
                summary_length=memory_summary_length,
            ),
        )
        self._nothing = nothing
        build = partial(
            build_ledger,
            loaded=loaded,
            config=memory,
            model=memory_model,
            sessions=self.home / "sessions",
            disable_memory_hooks=disable_memory_hooks,
            disable_memory_tools=not tools_allowed,
        )
        self._ledger = build(ledger, user_folder(self.workspace, user_id))
        self._user_ledgers = UserLedgers(self.workspace, partial(build, True)) if ledger is True else None
        self._own_ledger = not isinstance(ledger, Ledger)
        self._ledger_capability: LedgerCapability | None = None
        remembering: Any
        if self._ledger is None:
            remembering = MemoryCapability(self.memory_talent, cwd=self.workspace, tools=tools_allowed)
        else:
            remembering = self._ledger_capability = LedgerCapability(
                self._ledger,
                memory=self.memory_talent,
                users=self._user_ledgers,
                background=self.background,
                cwd=self.workspace,
                user_id=user_id,
                tools=tools_allowed,
            )
            self._ledger_capability.enabled = memory_enabled
        eviction = ToolResultEvictionConfig() if tool_result_eviction is True else tool_result_eviction or None
        self.context = ContextCapability(
            build_compaction(
                compaction,
                compression_max_messages,
                compression_max_context_ratio,
                compression_model,
                compression_interceptor,
            ),
            eviction,
            root=self.home,
            window_tokens=window_tokens,
            model=compression_model,
            before=self._before_compaction,
            on_compacted=lambda done: self._compacted[done.scope.session_id or ""].append(done),
        )
        self.agent: Agent[Any, Any] = Agent(
            model,
            output_type=output_type,
            instructions=instructions,
            tools=tools,
            toolsets=toolsets,
            capabilities=[remembering, self.context, *capabilities],
        )

    # --- prompting ---------------------------------------------------------------------------------------------------

    def get_session(self, session_id: str) -> AgentSession:
        """Return the session of that id, new or restored."""
        return self._sessions(session_id)

    async def prompt(
        self, text: Any, *, session: SessionLike = None, model: Any = None, deps: Any = None, user_id: str | None = None
    ) -> Reply:
        """Ask the agent, and return its reply when it is stored in the session.

        Args:
            text: What the user says: a text, or what pydantic-ai takes as a prompt.
            session: A session or its id. None: a temporary one that leaves no history.
            model: Another model for this prompt.
            deps: For tools of your own; the engine does not look into it.
            user_id: Another user for this prompt.

        Raises:
            Exception: What the model raised. The session is then as it was.
            StorageUnavailableError: The session could not be read or written.
        """
        async with self._run(session, user_id) as run:
            result = await self.agent.run(text, message_history=run.history, model=model, deps=deps)
            return await run.finish(result)

    def stream(
        self, text: Any, *, session: SessionLike = None, model: Any = None, deps: Any = None, user_id: str | None = None
    ) -> AsyncGenerator[str, None]:
        """Ask the agent and yield the text of its reply as it comes.

        The session is stored when the last piece has been taken; a stream that breaks off, or is given up, leaves it as
        it was. Raises as `prompt`.
        """

        async def run_and_hand_over(hand_over: Callable[[str], Awaitable[None]]) -> None:
            async with self._run(session, user_id) as run:
                result: AgentRunResult[Any] | None = None
                events = self.agent.run_stream_events(text, message_history=run.history, model=model, deps=deps)
                async with events as stream:
                    async for event in stream:
                        if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
                            if event.part.content:
                                await hand_over(event.part.content)
                        elif isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
                            await hand_over(event.delta.content_delta)
                        elif isinstance(event, AgentRunResultEvent):
                            result = event.result
                if result is not None:
                    await run.finish(result)

        return from_task(run_and_hand_over)

    def prompt_sync(self, text: Any, **more: Any) -> Reply:
        """The same as `prompt` for callers without an event loop; several threads may call it at once.

        Raises:
            ConfigError: An event loop runs in this thread: await `prompt` there.
        """
        return self._portal.call(lambda: self.prompt(text, **more))

    # --- parts -------------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _run(self, session: SessionLike, user_id: str | None) -> AsyncGenerator[Run, None]:
        if self._closed:
            raise ConfigError("The engine is closed; make a new one.")
        temporary = session is None
        if session is None:
            opened: AgentSession = temporary_session()
        elif isinstance(session, str):
            opened = await asyncio.to_thread(self._sessions, session)
        else:
            opened = session
        scope = RunScope(str(self.workspace), opened.session_id, user_id or self.user_id)
        async with self._queue.turn(opened.session_id):
            stored = await asyncio.to_thread(opened.latest, self.session_window_size)
            done = self._compacted[opened.session_id] = []
            history = to_pydantic_ai(stored)
            token = CURRENT.set(scope)
            # What has nothing to say is left out of the history; then nothing is known of what stands for what.
            known = HISTORY.set(tuple(zip(history, stored, strict=True)) if len(history) == len(stored) else ())
            try:
                yield Run(
                    self.context, self.background, self.log_messages, opened, scope, stored, history, done, temporary
                )
            finally:
                CURRENT.reset(token)
                HISTORY.reset(known)
                self._compacted.pop(opened.session_id, None)

    async def _before_compaction(self, scope: RunScope, plan: Plan, reason: FlushReason) -> None:
        config = self.context.compaction
        assert config is not None
        if config.offload_before_compact and scope.session_id is not None:
            await asyncio.to_thread(self.log_messages, scope, plan.compacted)
        if config.flush_before_compact and self._ledger_capability is not None:
            self._ledger_capability.flush_soon(scope, plan.compacted, reason)

    def log_messages(self, scope: RunScope, messages: Sequence[Message]) -> None:
        """Add messages to the transcript of the scope's session; those that it has are left out."""
        assert scope.session_id is not None
        owner = {} if scope.user_id is None else {"user_id": scope.user_id}
        self._transcripts.write(scope.session_id, messages, **owner)
