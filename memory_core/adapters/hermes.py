"""Memory for Hermes (`hermes-agent`): its `MemoryProvider` over a talent and a ledger.

What Hermes does with each method is described by its class `agent.memory_provider.MemoryProvider`; see
`memory_core.adapters.hermes_plugin` for how it finds this one. No hook raises: memory that fails is memory that is
missing, and the agent goes on. Hermes's own memory tool is not mirrored: Hermes shows what it holds in every prompt.
"""

import importlib
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from pathlib import Path
from typing import Any

from memory_core.adapters.hermes_flush import FlushWorker
from memory_core.adapters.hermes_messages import Seen, readable, turn_of
from memory_core.adapters.hermes_options import FIELDS, NAME, load_options, save_options
from memory_core.adapters.hermes_serving import Serving, identity, open_serving
from memory_core.config import load_settings
from memory_core.ledger.results import FlushReason, FlushResult
from memory_core.talent.specs import ToolResult

log = logging.getLogger(__name__)

PRE_COMPRESS_WAIT_S = 20.0
"""How long a compression waits for what is flushed before it; afterwards the flush goes on behind it."""
SHUTDOWN_WAIT_S = 30.0
NOT_OPEN = "Memory is not available: it could not be opened. The log says why."


class HermesMemory:
    """The provider of one agent of Hermes.

    Whose memories are used is decided when Hermes starts the agent: by the option `user_id`, else by the platform's
    user, else they are those that everybody shares. The model cannot change it.

    Args:
        model: For the ledger's calls where `memory.toml` names none: anything that `Ledger` takes.
    """

    name = NAME

    def __init__(self, *, model: Any = None) -> None:
        self._model = model
        self._serving: Serving | None = None
        self._worker: FlushWorker | None = None
        self._seen = Seen()
        self._session_id = ""

    # --- life ------------------------------------------------------------------------------------------------------

    def is_available(self) -> bool:
        """Whether the options can be read; opens nothing."""
        try:
            load_options(_hermes_home())
        except Exception as error:  # noqa: BLE001 - Hermes asks a question, it wants no exception
            log.warning("The memory provider %s is not available: %s", NAME, error)
            return False
        return True

    def initialize(self, session_id: str, **kwargs: Any) -> None:
        """Open the memories of the session's user; when that fails nothing is served to anybody."""
        self.shutdown()
        self._session_id = session_id
        try:
            home = Path(kwargs.get("hermes_home") or _hermes_home())
            options = load_options(home)
            self._serving = open_serving(options, home, identity(options, kwargs), self._model)
        except Exception as error:  # noqa: BLE001 - an agent without its memory still answers
            log.error("Memory could not be opened: %s", error)
            return
        # What the scheduler or a subagent says to itself is no conversation with the user.
        primary = kwargs.get("agent_context") in (None, "", "primary") and kwargs.get("platform") != "cron"
        if primary and self._serving.ledger is not None:
            self._worker = FlushWorker(self._serving.ledger)

    def shutdown(self) -> None:
        """Wait for the flushes that were handed over, 30 s at most, and close."""
        worker, self._worker = self._worker, None
        serving, self._serving = self._serving, None
        try:
            left = worker.close(SHUTDOWN_WAIT_S) if worker is not None else 0
            if left:
                log.warning("%d messages were not flushed to the ledger.", left)
            if serving is not None:
                serving.close()
        except Exception as error:  # noqa: BLE001 - closing must not stop Hermes from ending
            log.warning("Memory was not closed cleanly: %s", error)

    def backup_paths(self) -> list[str]:
        """Return where memories are outside Hermes's home."""
        try:
            home = _hermes_home()
            folder = load_options(home).folder(home)
            paths = (folder, load_settings(folder).settings.home_dir.absolute())
            return [str(path) for path in paths if not path.is_relative_to(home.absolute())]
        except Exception as error:  # noqa: BLE001 - a backup of the rest is better than none
            log.warning("The paths of the memories are not known: %s", error)
            return []

    # --- what the model sees ---------------------------------------------------------------------------------------

    def system_prompt_block(self) -> str:
        """Return the rules of upkeep, the ledger's guidance and `MEMORY.md`."""
        return self._text("system prompt", lambda serving: serving.guidance())

    def prefetch(self, query: str, *, session_id: str = "") -> str:
        """Return the memories that fit the user's input and the important ones, as a fenced block, or nothing."""
        del session_id  # the user was settled with `initialize`
        return self._text("prefetch", lambda serving: serving.recall(query))

    def queue_prefetch(self, query: str, *, session_id: str = "") -> None:
        """Do nothing: searching is fast enough to wait for what the user really says next."""

    def get_tool_schemas(self) -> list[dict[str, Any]]:
        """Return the tools' schemas; Hermes asks also before `initialize`, when the default user's are shown."""
        try:
            if self._serving is not None:
                return self._serving.schemas()
            home = _hermes_home()
            shown = open_serving(load_options(home), home, None, self._model)
            try:
                return shown.schemas()
            finally:
                shown.close()
        except Exception as error:  # noqa: BLE001 - an agent without memory tools still answers
            log.error("The memory tools could not be listed: %s", error)
            return []

    def handle_tool_call(self, tool_name: str, args: Mapping[str, Any], **kwargs: Any) -> str:
        """Run a tool and return JSON: `{"result": …}` or `{"error": …}`, each a text for the model."""
        del kwargs
        try:
            done = ToolResult(NOT_OPEN, ok=False)
            if self._serving is not None:
                done = self._serving.toolbox.call(tool_name, args)
        except Exception as error:  # noqa: BLE001 - the model is told, the agent goes on
            log.error("The tool %s failed: %s", tool_name, type(error).__name__)
            done = ToolResult(f"{tool_name} failed: {type(error).__name__}", ok=False)
        return json.dumps({"result" if done.ok else "error": done.text}, ensure_ascii=False)

    # --- what the ledger sees --------------------------------------------------------------------------------------

    def sync_turn(
        self,
        user_content: str,
        assistant_content: str,
        *,
        session_id: str = "",
        messages: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        """Hand a finished turn, with its tool calls when Hermes gives them, to the flush and return at once."""
        self._hand_over(
            lambda: turn_of(messages or (), user_content, assistant_content), session_id or self._session_id, "call"
        )

    def on_pre_compress(self, messages: Sequence[Mapping[str, Any]]) -> str:
        """Flush what is about to be compressed; return the facts for the summary when they come in time."""
        waiting = self._hand_over(lambda: self._seen.without(messages), self._session_id, "compaction")
        try:
            facts = waiting.result(PRE_COMPRESS_WAIT_S).facts if waiting is not None else ()
        except FutureTimeoutError:
            log.info("The flush before a compression goes on behind it.")
            return ""
        return "\n".join(f"- {fact}" for fact in facts)

    def on_session_end(self, messages: Sequence[Mapping[str, Any]]) -> None:
        """Flush what throttling kept back, and what was said since the last turn that was handed over."""
        self._hand_over(lambda: self._seen.after(messages), self._session_id, "call")
        self._hand_over(list, self._session_id, "manual")

    def on_session_switch(
        self,
        new_session_id: str,
        *,
        parent_session_id: str = "",
        reset: bool = False,
        rewound: bool = False,
        **kwargs: Any,
    ) -> None:
        """Go on under another session id; turns that the user took back are not flushed any more."""
        del parent_session_id, kwargs
        if reset:
            self._seen.clear()
        if rewound and self._worker is not None and self._serving is not None:
            self._worker.forget(self._serving.isolation_key(self._session_id))
        self._session_id = new_session_id

    # --- setting up ------------------------------------------------------------------------------------------------

    def get_config_schema(self) -> list[dict[str, Any]]:
        """Return the questions of `hermes memory setup`."""
        return [dict(field) for field in FIELDS]

    def save_config(self, values: Mapping[str, Any], hermes_home: str) -> None:
        """Write the answers to `$HERMES_HOME/memory_core.json`.

        Raises:
            ConfigError: An answer is wrong, or the file cannot be written; Hermes's set-up prints the reason.
        """
        save_options(values, Path(hermes_home))

    # --- parts -----------------------------------------------------------------------------------------------------

    def _text(self, what: str, make: Callable[[Serving], str]) -> str:
        if self._serving is None:
            return ""
        try:
            return make(self._serving)
        except Exception as error:  # noqa: BLE001 - an agent without its memories still answers
            log.warning("The %s of the memory failed: %s", what, error)
            return ""

    def _hand_over(
        self, make: Callable[[], Sequence[Mapping[str, Any]]], session_id: str, reason: FlushReason
    ) -> Future[FlushResult] | None:
        serving, worker = self._serving, self._worker
        if serving is None or worker is None:
            return None
        try:
            messages = make()
            said = readable(messages)
            self._seen.add(messages)
            return worker.submit(said, serving.isolation_key(session_id), reason)
        except Exception as error:  # noqa: BLE001 - a turn that cannot be read must not stop the agent
            log.warning("A turn was not handed to the ledger: %s", error)
            return None


def _hermes_home() -> Path:
    """Return the home of the profile that is active in this context."""
    return Path(importlib.import_module("hermes_constants").get_hermes_home())
