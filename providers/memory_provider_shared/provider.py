"""One store for everybody: scope `user` is common to all projects, scope `workspace` is the project's own."""

from pathlib import Path

from memory_core.caching import CachingProvider
from memory_core.contracts import MemorySolution, ScopePlace
from memory_core.loading import ProviderContext
from memory_core.naming import path_namespace, slug
from memory_provider_shared import SharedOptions

_NAMED = "@"
"""Begins the namespace of a project with a configured name; a path's namespace never begins so."""


class SharedProvider(CachingProvider):
    """Scopes, low to high: `user` and `workspace`, both below one folder or on one server.

    Whose memories they are is not the provider's matter: every entry belongs to a user id, and no user sees another's.
    """

    def __init__(self, options: SharedOptions, context: ProviderContext) -> None:
        super().__init__(options.max_open)
        self._name = options.name
        self._context = context
        self._folder = (
            context.home / "shared" if options.folder is None else Path(options.folder).expanduser().absolute()
        )

    def build(self, cwd: Path) -> MemorySolution:
        """Build the solution for one directory; nothing is written before the first memory."""
        if self._name is None:
            namespace = folder = path_namespace(cwd)
        else:
            namespace, folder = _NAMED + self._name, _NAMED + slug(self._name)
        scopes = (
            ScopePlace("user", self._folder / "user"),
            ScopePlace("workspace", self._folder / "workspaces" / folder, namespace),
        )
        return self._context.solution(scopes, self.scopes_default())
