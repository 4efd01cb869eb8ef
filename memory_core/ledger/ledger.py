"""The ledger of one workspace: what engines, talents and the command line call."""

from collections.abc import Callable, Iterable
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from memory_core.clock import SystemClock
from memory_core.contracts import Clock, MemorySearcher, Problem
from memory_core.errors import ConfigError
from memory_core.ledger import undo as undoing
from memory_core.ledger.backups import Backup
from memory_core.ledger.config import MemoryConfig
from memory_core.ledger.consolidate import consolidate
from memory_core.ledger.disk import Places, read_text
from memory_core.ledger.doctor import problems
from memory_core.ledger.flush import flush
from memory_core.ledger.index import MAX_HITS, LedgerHit, LedgerIndex
from memory_core.ledger.inject import DEFAULT_BUDGET_TOKENS, block, check_budget
from memory_core.ledger.job import Job
from memory_core.ledger.maintain import maintain
from memory_core.ledger.models import as_chat_model
from memory_core.ledger.reading import Excerpt, get_lines
from memory_core.ledger.results import ConsolidationResult, FlushReason, FlushResult, MaintenanceReport
from memory_core.ledger.saving import Saved, save
from memory_core.ledger.searching import searcher_builder
from memory_core.ledger.state import LedgerState
from memory_core.ledger.wording import wording_for
from memory_core.locales import language
from memory_core.sessions.messages import Message
from memory_core.tracing import span

MODEL_TIMEOUT_S = 120.0


class Ledger:
    """Daily files, `MEMORY.md`, and the model calls that lead from one to the other.

    Safe for several threads, tasks and processes on one workspace. Nothing is read or written before it is asked for.

    Args:
        workspace: The folder that holds `MEMORY.md` and `memory/`.
        model: The model for flush and consolidation when `config.model` is None: a `ChatModel`, a pydantic-ai model, an
            async function or `"provider:model"`. Without any, saving, searching and injecting work; the rest fails.
        config: The knobs; see `MemoryConfig`.
        clock: Where the time comes from; by default the system.
        timezone: Decides which day is today: a `tzinfo`, a name such as `"Asia/Shanghai"`, or None for the system's.
        locale: `en` or `zh`: the language of prompts, guidance and tool texts.
        sessions: Where transcripts lie, for pruning; by default `<workspace>/sessions`.
        searcher: Makes the searcher of `memory_search`, or names a registered one; by default the configured one.
        model_timeout_s: A model call that takes longer has failed.
        disable_memory_hooks: Flush, consolidation and maintenance do nothing.
        disable_memory_tools: There are no tools and no guidance. With both, nothing is injected either.

    Raises:
        ConfigError: The time zone or the locale is unknown, or the model is nothing that can be asked.
    """

    def __init__(
        self,
        workspace: Path | str,
        model: Any = None,
        config: MemoryConfig | None = None,
        clock: Clock | None = None,
        timezone: tzinfo | str | None = None,
        *,
        locale: str = "en",
        sessions: Path | str | None = None,
        searcher: Callable[[], MemorySearcher] | str | None = None,
        model_timeout_s: float = MODEL_TIMEOUT_S,
        disable_memory_hooks: bool = False,
        disable_memory_tools: bool = False,
    ) -> None:
        self.places = Places(Path(workspace).expanduser().absolute())
        self.config = config or MemoryConfig()
        self.clock = clock or SystemClock()
        self.zone = _zone(timezone)
        self.locale = language(locale)
        self.sessions = Path(sessions) if sessions is not None else self.places.workspace / "sessions"
        self.disable_memory_hooks = disable_memory_hooks
        self.disable_memory_tools = disable_memory_tools
        self._model_timeout_s = model_timeout_s
        chosen = model if self.config.model is None else self.config.model
        self._model = None if chosen is None else as_chat_model(chosen)
        self._state = LedgerState(self.places)
        build = searcher if callable(searcher) else searcher_builder(self.places.workspace, searcher, self.clock)
        self._index = LedgerIndex(self.places, build, self.clock, self.zone)

    @property
    def enabled(self) -> bool:
        """Whether anything is left that is not disabled."""
        return not (self.disable_memory_hooks and self.disable_memory_tools)

    def now(self) -> datetime:
        """Return the present moment in the ledger's time zone."""
        return self.clock.now().astimezone(self.zone)

    def adopt_model(self, model: Any) -> None:
        """Use `model` for flush and consolidation where neither the ledger nor its config was given one.

        Raises:
            ConfigError: It is nothing that can be asked.
        """
        if self._model is None:
            self._model = as_chat_model(model)

    # --- model calls -------------------------------------------------------------------------------------------------

    async def flush(
        self, messages: Iterable[Message], isolation_key: str = "global", *, reason: FlushReason = "call"
    ) -> FlushResult:
        """Extract what is worth keeping from a conversation and append it to today's ledger.

        Never raises for what the model or the disk does: the result says `failed` and why, the failure is logged and
        reported by `problems`. Appended is durable, under a heading with the local time, no block twice.

        Args:
            messages: The conversation, oldest first. System messages, summaries, injected blocks and the memory tools'
                own calls are left out.
            isolation_key: Whose throttle it is: a user, a session, an agent, or all.
            reason: `call` obeys `config.flush_trigger`; the others (before a compaction, in overflow recovery, by
                hand) always run.
        """
        if self.disable_memory_hooks:
            return FlushResult("off")
        with span("memory.flush", reason=reason) as recorded:
            result = await flush(self._job(), messages, isolation_key, reason)
            recorded.set("memory.status", result.status)
            recorded.set("memory.facts", len(result.facts))
        return result

    async def consolidate(self, *, allow_shrink: bool = False) -> ConsolidationResult:
        """Merge the ledgers that changed since the last time into `MEMORY.md`.

        The model's answer is validated, the former file backed up, and an edit that was made meanwhile never
        overwritten. Without changed ledgers no call is made. A `MEMORY.md` that is gone is built anew from all ledgers,
        archived ones too. Never raises for what the model or the disk does.

        Args:
            allow_shrink: Accept an answer that drops more than half of `MEMORY.md`.
        """
        if self.disable_memory_hooks:
            return ConsolidationResult("off")
        with span("memory.consolidate") as recorded:
            result = await consolidate(self._job(), allow_shrink=allow_shrink)
            recorded.set("memory.status", result.status)
            recorded.set("memory.files", len(result.files))
        return result

    async def maintain(self, *, force: bool = False) -> MaintenanceReport:
        """Archive old ledgers, consolidate, prune old transcripts; at most once in `config.consolidation_min_gap`.

        Each step runs whatever happens to the others. `force` ignores the gap.
        """
        if self.disable_memory_hooks:
            return MaintenanceReport(ran=False)
        return await maintain(self._job(), force=force)

    # --- reading -----------------------------------------------------------------------------------------------------

    def context_block(self, budget_tokens: int = DEFAULT_BUDGET_TOKENS) -> str:
        """Return `MEMORY.md` as a block for the prompt, or an empty text when there is nothing or all is disabled.

        Whole entries within the budget; when some are left out, a line says how many and names `memory_search`.

        Raises:
            BudgetError: The budget is negative or too small to hold a block; 0 means no block.
            StorageUnavailableError, CorruptEntryError: `MEMORY.md` is there and cannot be read.
        """
        check_budget(budget_tokens)
        if not self.enabled or not budget_tokens:
            return ""
        memory = read_text(self.places, self.places.memory_md) or ""
        return block(memory, budget_tokens, wording_for(self.locale), searchable=not self.disable_memory_tools).text

    def search(self, text: str, limit: int = MAX_HITS) -> list[LedgerHit]:
        """Return the best lines of `MEMORY.md` and `memory/*.md` for a plain text, best first, at most 30.

        Raises:
            StorageUnavailableError, SearcherError: The files or the index cannot be read.
        """
        return self._index.search(text, limit)

    def get(self, path: str, start_line: int | None = None, end_line: int | None = None) -> Excerpt:
        """Return lines of a memory file, 1-based and inclusive.

        Raises:
            PathRefusedError: The path leaves the workspace's memory, or file or lines are not there.
            StorageUnavailableError, CorruptEntryError: It cannot be read.
        """
        return get_lines(self.places, path, start_line, end_line)

    # --- writing -----------------------------------------------------------------------------------------------------

    def save(self, content: str) -> Saved:
        """Append one fact to today's ledger and to `MEMORY.md`; durable on return.

        Raises:
            InvalidEntryError: It is blank or too long.
            StorageUnavailableError, CorruptEntryError: It could not be written; the message says where it is missing.
        """
        return save(self.places, content, self.now())

    def diff(self) -> str:
        """Return what changed in `MEMORY.md` since before the last consolidation, as a unified diff.

        Raises:
            NothingToUndoError: Nothing has been consolidated yet.
        """
        return undoing.diff(self.places)

    def undo(self, *, force: bool = False) -> Backup:
        """Bring back `MEMORY.md` as it was before the last consolidation; see `memory_core.ledger.undo.undo`.

        Raises:
            NothingToUndoError: There is no backup, or the file was edited since and `force` is False.
            StorageUnavailableError: It could not be written.
        """
        return undoing.undo(self.places, self.clock, force=force)

    def problems(self) -> list[Problem]:
        """Say what is wrong: files that cannot be read, runs that failed, a `MEMORY.md` over its limit."""
        return problems(self._job()) + self._index.problems()

    def close(self) -> None:
        """Release the index. Closing twice is harmless."""
        self._index.close()

    def _job(self) -> Job:
        return Job(
            self.places,
            self._model,
            self.config,
            self.clock,
            self.zone,
            self.locale,
            self._model_timeout_s,
            self._state,
            self.sessions,
        )


def _zone(timezone: tzinfo | str | None) -> tzinfo | None:
    if not isinstance(timezone, str):
        return timezone
    try:
        return ZoneInfo(timezone)
    except (LookupError, ValueError, OSError) as error:  # ZoneInfoNotFoundError is a KeyError
        raise ConfigError(
            f"There is no time zone {timezone!r}; give a name such as 'Europe/Berlin' or 'UTC'."
        ) from error
