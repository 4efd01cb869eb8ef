"""The configured searcher for the ledger's lines, by its registered name."""

from collections.abc import Callable
from pathlib import Path

from memory_core.config import Loaded, load_settings
from memory_core.contracts import Clock, MemorySearcher, ScopePlace
from memory_core.ledger.index import SCOPE
from memory_core.plugins.registry import PluginRegistry


def searcher_builder(
    workspace: Path,
    name: str | None,
    clock: Clock,
    loaded: Loaded | None = None,
    registry: PluginRegistry | None = None,
) -> Callable[[], MemorySearcher]:
    """Return a function that builds the searcher `name` (None: the configured one) for this workspace's ledger.

    Nothing is loaded before the function is called; it then raises what `load_settings` and the backend raise.
    """

    def build() -> MemorySearcher:
        from memory_core.loading import ProviderContext
        from memory_core.plugins.registry import get_registry

        settings = loaded or load_settings(workspace, overrides={"searcher": name} if name else None)
        context = ProviderContext(settings, registry or get_registry(), clock)
        return context.searcher([ScopePlace(SCOPE, workspace / "memory")])

    return build
