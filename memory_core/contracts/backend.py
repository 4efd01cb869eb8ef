"""What a backend's factory is told."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from memory_core.contracts.ports import Clock

if TYPE_CHECKING:
    from memory_core.contracts.embedder import Embedder
    from memory_core.contracts.searcher import MemorySearcher


@dataclass(frozen=True, slots=True)
class ScopePlace:
    """Where one scope lives: its own directory for stores of files, its own namespace for stores on a server.

    Two solutions share a scope exactly when both are equal. `namespace` is empty for a scope that all workspaces
    share.
    """

    name: str
    directory: Path
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class BackendContext:
    """What a backend's factory is told beside its own options.

    `scopes` go from low to high priority. `workspace` is the directory for which the settings were read: relative
    paths in options start there. `index_dir` is a private directory for derived files: it may be deleted at any time,
    and need not exist yet. `cache_dir` is the like, shared by all of the user's indexes; None means `index_dir`.
    `stemmer` is for `memory_core.text.tokens`. `build_searcher` and `build_embedder` let a backend use others by name,
    with the options that the configuration has for them.
    """

    scopes: tuple[ScopePlace, ...]
    index_dir: Path
    clock: Clock
    stemmer: str | None
    build_searcher: "SearcherBuilder"
    build_embedder: "EmbedderBuilder"
    workspace: Path = Path()
    cache_dir: Path | None = None


class SearcherBuilder(Protocol):
    """Builds a searcher by its registered name."""

    def __call__(self, name: str) -> "MemorySearcher": ...  # noqa: D102 - the class says it


class EmbedderBuilder(Protocol):
    """Builds an embedder by its registered name; None means the configured one."""

    def __call__(self, name: str | None = None) -> "Embedder": ...  # noqa: D102 - the class says it
