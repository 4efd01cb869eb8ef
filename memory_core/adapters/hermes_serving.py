"""What one agent of Hermes is served with: the talents of one user in one workspace."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memory_core.adapters.hermes_options import HermesOptions
from memory_core.adapters.toolbox import Toolbox
from memory_core.config import load_settings
from memory_core.contracts import MemorySolutionProvider
from memory_core.errors import StorageUnavailableError
from memory_core.ledger.combined import CombinedTalent
from memory_core.ledger.ledger import Ledger
from memory_core.ledger.opening import open_ledger, user_folder
from memory_core.ledger.talent import LedgerTalent
from memory_core.loading import load_provider
from memory_core.model import SHARED_USER_ID, clean_name
from memory_core.naming import joined
from memory_core.talent import MemoryTalent, ToolContext
from memory_core.talent.wording import wording

"""The folder of the named users' ledgers: a ledger is a set of files, so each user has one of their own."""


def identity(options: HermesOptions, given: Mapping[str, Any]) -> str | None:
    """Return whose memories an agent uses, or None for the shared ones, from what Hermes passes to `initialize`.

    The option wins. On a messaging platform it is the platform's user, and where that is not known the chat: somebody
    unknown never gets the shared memories.
    """
    if options.user_id:
        return options.user_id
    platform = given.get("platform") or "platform"
    if given.get("user_id"):
        return f"{platform}:{given['user_id']}"
    chat = given.get("chat_id") or given.get("gateway_session_key")
    return f"{platform}:chat:{chat}" if chat else None


@dataclass(frozen=True, slots=True)
class Serving:
    """Open talents and tools, bound to one user."""

    provider: MemorySolutionProvider
    talent: MemoryTalent
    ledger_talent: LedgerTalent | None
    toolbox: Toolbox
    user: str | None

    @property
    def ledger(self) -> Ledger | None:
        """The user's ledger."""
        return None if self.ledger_talent is None else self.ledger_talent.ledger()

    def schemas(self) -> list[dict[str, Any]]:
        """Return the tools as bare function schemas, the form that Hermes wraps itself."""
        return [spec.openai()["function"] for spec in self.toolbox.specs()]

    def guidance(self) -> str:
        """Return what stays the same through a session."""
        parts: list[str] = []
        if self.talent.enabled:
            words = wording(self.talent.locale)
            scopes = self.provider.scopes_description(self.talent.locale)
            parts += [words.heading, words.rules.format(scopes=scopes)]
        if self.ledger_talent is not None:
            parts.append(self.ledger_talent.instruction())
        return "\n\n".join(filter(None, parts))

    def recall(self, query: str) -> str:
        """Return the block of memories for an input."""
        context = self.toolbox.context
        return self.talent.instruction(query, cwd=context.cwd, session_id=context.session_id, rules=False)

    def isolation_key(self, session_id: str) -> str:
        """Return whose throttle a flush counts for."""
        return joined(self.user or SHARED_USER_ID, session_id or "tmp")

    def close(self) -> None:
        """Close the ledger's index and the stores."""
        if self.ledger is not None:
            self.ledger.close()
        self.provider.close()


def open_serving(options: HermesOptions, hermes_home: Path, user: str | None, model: Any) -> Serving:
    """Open the workspace for a user; no store is touched before it is needed.

    Raises:
        ConfigError, PluginError: A setting is wrong, or a backend is missing.
        InvalidKeyError: The user id cannot be stored.
        StorageUnavailableError: The workspace cannot be made.
    """
    workspace = options.folder(hermes_home)
    user_id = None if user is None else clean_name(user, "user id")
    files = user_folder(workspace, user_id)
    try:
        (files if options.ledger else workspace).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageUnavailableError(f"The workspace {workspace} cannot be made: {error}.") from error
    loaded = load_settings(workspace)
    settings = loaded.settings
    provider = load_provider(workspace)
    talent = MemoryTalent(
        provider,
        locale=settings.locale,
        session_isolation=user_id is not None,
        **settings.talent.model_dump(exclude={"session_isolation"}),
    )
    context = ToolContext(str(workspace), user_id)
    # Off means off: without the talent the ledger is not served either, as over MCP.
    if not (options.ledger and talent.enabled):
        return Serving(provider, talent, None, Toolbox([talent.tools], context), user_id)
    ledger = open_ledger(files, loaded=loaded)
    if model is not None:
        ledger.adopt_model(model)
    ledger_talent = LedgerTalent(ledger, locale=settings.locale)
    combined = CombinedTalent(talent, ledger_talent)
    return Serving(provider, talent, ledger_talent, Toolbox([combined.tools], context), user_id)
