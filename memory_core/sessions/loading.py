"""From settings to sessions: the configured store, the transcript beside it, and the search over transcripts."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from memory_core.clock import SystemClock
from memory_core.config import Loaded, load_settings
from memory_core.contracts import Clock, ScopePlace
from memory_core.loading import ProviderContext
from memory_core.plugins.registry import PluginRegistry, get_registry
from memory_core.sessions.search import TranscriptSearch
from memory_core.sessions.session import SessionProvider
from memory_core.sessions.transcript import TranscriptLog

FOLDER = "sessions"


@dataclass(frozen=True, slots=True)
class SessionStoreContext:
    """What a session store's factory is told beside its own options.

    `directory` is `<home>/sessions`; it need not exist yet. `workspace` is what relative paths start from.
    """

    directory: Path
    workspace: Path
    clock: Clock


def session_directory(loaded: Loaded) -> Path:
    """Return where transcripts, and sessions in files, lie unless configured otherwise: `<home>/sessions`."""
    return loaded.settings.home_dir / FOLDER


def load_sessions(
    cwd: Path | str = ".",
    *,
    config_file: Path | str | None = None,
    overrides: Mapping[str, Any] | None = None,
    registry: PluginRegistry | None = None,
    clock: Clock | None = None,
) -> SessionProvider:
    """Return the session store that the configuration names (`session_store = …`), as a callable.

    Raises:
        ConfigError: A setting is unknown or wrong.
        UnknownBackendError, MissingExtraError: The store is not there.

    """
    return build_sessions(load_settings(cwd, config_file, overrides), registry or get_registry(), clock)


def build_sessions(loaded: Loaded, registry: PluginRegistry, clock: Clock | None = None) -> SessionProvider:
    """Return the session store that loaded settings name; raises as `load_sessions`."""
    name = loaded.settings.session_store
    context = SessionStoreContext(session_directory(loaded), loaded.workspace, clock or SystemClock())
    provider: SessionProvider = registry.backend("session_store", name).build(
        loaded.options(registry, "session_store", name), context
    )
    return provider


def build_transcript_search(
    transcripts: TranscriptLog, loaded: Loaded, registry: PluginRegistry, clock: Clock | None = None
) -> TranscriptSearch:
    """Return a search over `transcripts` with the configured searcher; its index lies apart from that of memories.

    Raises:
        ConfigError, UnknownBackendError, MissingExtraError: The searcher is not there or wrongly configured.

    """
    used = clock or SystemClock()
    scopes = (ScopePlace(FOLDER, transcripts.directory),)
    searcher = ProviderContext(loaded, registry, used).searcher(scopes)
    return TranscriptSearch(transcripts, searcher, used)
