"""One solution per working directory: scope `user` in the user's data folder, scope `workspace` in the directory."""

import os
from pathlib import Path

from memory_core.caching import CachingProvider
from memory_core.contracts import MemorySolution, ScopePlace
from memory_core.errors import ConfigError
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
        """Build the solution for one directory; nothing is written before the first memory.

        Raises:
            ConfigError: Its folder for memories is a link that leads out of it.
        """
        folder = cwd / self._options.folder / "memory"
        _check_links(folder, cwd)
        scopes = (
            ScopePlace("user", self._context.home / "memory"),
            ScopePlace("workspace", folder, path_namespace(cwd)),
        )
        return self._context.solution(scopes, self.scopes_default())


def _check_links(folder: Path, cwd: Path) -> None:
    """Refuse a folder inside the workspace that leads out of it: links come with a cloned repository, as settings do.

    A folder that lies elsewhere by its name was named by the user: a project's file may not name such a one.
    """
    if not Path(os.path.normpath(folder)).is_relative_to(cwd):
        return
    try:
        real = folder.resolve()
    except (OSError, RuntimeError) as error:  # links in a ring
        raise ConfigError(f"The folder for memories {folder} cannot be found: {error}. Remove the link.") from error
    if not real.is_relative_to(cwd.resolve()):
        raise ConfigError(
            f"The folder for memories {folder} is a link out of the workspace, to {real}: remove the link, or name "
            "that directory in your own configuration file, as `folder` of [providers.workspace]."
        )
