"""From settings to running objects: backends by name, a solution from scopes, a provider from a directory."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from memory_core.clock import SystemClock
from memory_core.config import Loaded, load_settings
from memory_core.contracts import (
    BackendContext,
    Clock,
    Embedder,
    MemorySearcher,
    MemorySolution,
    MemorySolutionProvider,
    MemoryStorer,
    ScopePlace,
)
from memory_core.errors import ConfigError
from memory_core.hooks import Hooks
from memory_core.plugins.registry import PluginRegistry, get_registry
from memory_core.solution import StandardSolution


@dataclass(frozen=True, slots=True)
class ProviderContext:
    """What a provider's factory is told: the settings, and how to build a solution for given scopes.

    `cache` is where derived data of all solutions is kept; by default in `home`.
    """

    loaded: Loaded
    registry: PluginRegistry
    clock: Clock
    cache: Path | None = None

    @property
    def home(self) -> Path:
        """The user's data folder."""
        return self.loaded.settings.home_dir

    def solution(self, scopes: Sequence[ScopePlace], default_scope: str) -> MemorySolution:
        """Build the configured store and index over `scopes` (low to high priority).

        Raises:
            PluginError, ConfigError: A backend is unknown, incomplete or wrongly configured.
        """
        settings = self.loaded.settings
        builder = _Builder(self, tuple(scopes))
        storer = builder.storer(settings.storer)
        try:
            searcher = builder.searcher(settings.searcher)
            filters = [(name, builder.build("filter", name)) for name in settings.filter]
        except BaseException:
            storer.close()
            raise
        return StandardSolution(
            storer,
            searcher,
            [place.name for place in scopes],
            default_scope=default_scope,
            clock=self.clock,
            ttl=settings.ttl,
            hooks=Hooks(self.registry, filters),
        )

    def searcher(self, scopes: Sequence[ScopePlace], name: str | None = None) -> MemorySearcher:
        """Build one searcher alone, by default the configured one: for other things than memories, for measuring.

        Raises:
            PluginError, ConfigError: As `solution`.
        """
        return _Builder(self, tuple(scopes)).searcher(name or self.loaded.settings.searcher)


class _Builder:
    """Builds the backends of one solution; a searcher may ask it for its arms and embedder."""

    def __init__(self, context: ProviderContext, scopes: tuple[ScopePlace, ...]) -> None:
        self._context = context
        self._scopes = scopes
        self._stack: list[str] = []
        parts = "\0".join(f"{place.name}\0{place.directory}\0{place.namespace}" for place in scopes)
        name = blake2b(f"{context.loaded.settings.storer}\0{parts}".encode(), digest_size=8).hexdigest()
        self._index_root = context.home / "index" / name

    def build(self, kind: Any, name: str) -> Any:
        backend = self._context.registry.backend(kind, name)
        options = self._context.loaded.options(self._context.registry, kind, name)
        return backend.build(
            options,
            BackendContext(
                scopes=self._scopes,
                index_dir=self._index_root / name,
                clock=self._context.clock,
                stemmer=self._context.loaded.settings.stemmer,
                build_searcher=self.searcher,
                build_embedder=self.embedder,
                workspace=self._context.loaded.workspace,
                cache_dir=self._context.cache or self._context.home / "cache",
            ),
        )

    def storer(self, name: str) -> MemoryStorer:
        storer: MemoryStorer = self.build("storer", name)
        return storer

    def searcher(self, name: str) -> MemorySearcher:
        if name in self._stack:
            raise ConfigError(f"The searcher {name!r} is one of its own arms: {' → '.join([*self._stack, name])}.")
        self._stack.append(name)
        try:
            searcher: MemorySearcher = self.build("searcher", name)
            return searcher
        finally:
            self._stack.pop()

    def embedder(self, name: str | None = None) -> Embedder:
        name = name or self._context.loaded.settings.embedder
        if name is None:
            known = ", ".join(self._context.registry.names("embedder")) or "none installed"
            raise ConfigError(
                f"This searcher needs an embedder: set `embedder = …` in memory.toml (there are: {known})."
            )
        embedder: Embedder = self.build("embedder", name)
        return embedder


def load_provider(
    cwd: Path | str = ".",
    *,
    config_file: Path | str | None = None,
    overrides: Mapping[str, Any] | None = None,
    registry: PluginRegistry | None = None,
    clock: Clock | None = None,
) -> MemorySolutionProvider:
    """Return the provider that the configuration in force at `cwd` names.

    Args:
        cwd: Where to look for `memory.toml`.
        config_file: Use this file instead.
        overrides: Settings that win over the environment and the file, nested as in the file.
        registry: The plugins to use; by default every installed one.
        clock: Where the time comes from; by default the system.

    Raises:
        ConfigError: A setting is unknown or wrong.
        UnknownBackendError, MissingExtraError: A backend is not there.
    """
    loaded = load_settings(cwd, config_file, overrides)
    registry = registry or get_registry()
    loaded.check(registry)
    for kind in ("storer", "searcher"):
        registry.backend(kind, getattr(loaded.settings, kind))
    for filter_name in loaded.settings.filter:
        registry.backend("filter", filter_name)
    name = loaded.settings.provider
    context = ProviderContext(loaded, registry, clock or SystemClock())
    provider: MemorySolutionProvider = registry.backend("provider", name).build(
        loaded.options(registry, "provider", name), context
    )
    return provider
