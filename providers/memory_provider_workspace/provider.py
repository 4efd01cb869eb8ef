"""One solution per working directory: scope `user` in the user's data folder, scope `workspace` in the directory."""

from pathlib import Path

from memory_core.caching import CachingProvider
from memory_core.contracts import MemorySolution, ScopePlace
from memory_core.loading import ProviderContext
from memory_core.naming import path_namespace
from memory_provider_workspace import WorkspaceOptions


class WorkspaceProvider(CachingProvider):
    """Scopes, low to high: `user` (`<home>/memory`) and `workspace` (`<cwd>/.memory-core/memory`)."""

    def __init__(self, options: WorkspaceOptions, context: ProviderContext) -> None:
        super().__init__(options.max_open)
        self._options = options
        self._context = context

    def build(self, cwd: Path) -> MemorySolution:
        """Build the solution for one directory; nothing is written before the first memory."""
        scopes = (
            ScopePlace("user", self._context.home / "memory"),
            ScopePlace("workspace", cwd / self._options.folder / "memory", path_namespace(cwd)),
        )
        return self._context.solution(scopes, self.scopes_default())
