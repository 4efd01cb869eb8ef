"""Finds plugins, loads each in its own `try`, and hands out backends by name.

One broken plugin is named in `failures`, in error messages and in `memory-core plugins`, and breaks nothing else.
"""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Literal

import pluggy
from pydantic import BaseModel, ConfigDict

from memory_core.errors import (
    DuplicateBackendError,
    MissingExtraError,
    PluginError,
    UnknownBackendError,
    did_you_mean,
)
from memory_core.plugins import hookspecs

log = logging.getLogger(__name__)

GROUP = "memory_core"
DISTRIBUTION = "memory-talent"
Kind = Literal["storer", "searcher", "provider", "embedder", "session_store", "filter"]
KINDS: tuple[Kind, ...] = ("storer", "searcher", "provider", "embedder", "session_store", "filter")
Factory = Callable[..., Any]


class NoOptions(BaseModel):
    """The options of a backend that has none."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass(frozen=True, slots=True)
class Backend:
    """A registered backend: `factory(options, context)` builds it."""

    kind: Kind
    name: str
    factory: Factory
    options: type[BaseModel]
    plugin: str
    extra: str | None = None

    def build(self, options: BaseModel, context: Any) -> Any:
        """Call the factory; a missing third-party package becomes an instruction.

        Raises:
            MissingExtraError: The packages of this backend are not installed.
        """
        try:
            return self.factory(options, context)
        except ModuleNotFoundError as error:
            if isinstance(error, MissingExtraError) or (error.name or "").split(".")[0] == "memory_core":
                raise
            how = (
                f"pip install '{DISTRIBUTION}[{self.extra}]'"
                if self.extra
                else f"install what the plugin {self.plugin!r} needs"
            )
            raise MissingExtraError(
                f"The {self.kind} {self.name!r} needs the package {error.name!r}, which is not installed: {how}."
            ) from error


@dataclass(frozen=True, slots=True)
class PluginFailure:
    """Why a plugin, or a part of it, is not in use."""

    plugin: str
    error: PluginError


@dataclass(slots=True)
class Registrar:
    """What a plugin's `register_backends` is given."""

    plugin: str
    backends: dict[tuple[Kind, str], Backend]
    failures: list[PluginFailure]

    def storer(
        self, name: str, factory: Factory, options: type[BaseModel] = NoOptions, *, extra: str | None = None
    ) -> None:
        """Register `factory(options, context: BackendContext) -> MemoryStorer`."""
        self._add("storer", name, factory, options, extra)

    def searcher(
        self, name: str, factory: Factory, options: type[BaseModel] = NoOptions, *, extra: str | None = None
    ) -> None:
        """Register `factory(options, context: BackendContext) -> MemorySearcher`."""
        self._add("searcher", name, factory, options, extra)

    def provider(
        self, name: str, factory: Factory, options: type[BaseModel] = NoOptions, *, extra: str | None = None
    ) -> None:
        """Register `factory(options, context: ProviderContext) -> MemorySolutionProvider`."""
        self._add("provider", name, factory, options, extra)

    def embedder(
        self, name: str, factory: Factory, options: type[BaseModel] = NoOptions, *, extra: str | None = None
    ) -> None:
        """Register `factory(options, context: BackendContext) -> Embedder`."""
        self._add("embedder", name, factory, options, extra)

    def session_store(
        self, name: str, factory: Factory, options: type[BaseModel] = NoOptions, *, extra: str | None = None
    ) -> None:
        """Register `factory(options, context) -> (session_id -> session)`."""
        self._add("session_store", name, factory, options, extra)

    def filter(
        self, name: str, factory: Factory, options: type[BaseModel] = NoOptions, *, extra: str | None = None
    ) -> None:
        """Register `factory(options, context) -> (entry -> entry | None)`: a `before_store` that is off until the
        configuration names it in `filters = [...]`.
        """
        self._add("filter", name, factory, options, extra)

    def _add(self, kind: Kind, name: str, factory: Factory, options: type[BaseModel], extra: str | None) -> None:
        holder = self.backends.get((kind, name))
        if holder is None:
            self.backends[kind, name] = Backend(kind, name, factory, options, self.plugin, extra)
            return
        error = DuplicateBackendError(
            f"The plugin {self.plugin!r} registers the {kind} {name!r}, which {holder.plugin!r} already provides; "
            f"the one of {holder.plugin!r} stays in use."
        )
        self.failures.append(PluginFailure(self.plugin, error))


def _new_manager() -> pluggy.PluginManager:
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    return manager


@dataclass(slots=True)
class PluginRegistry:
    """All plugins and backends of this process. `load` fills it from entry points; tests call `register`."""

    manager: pluggy.PluginManager = field(default_factory=_new_manager)
    failures: list[PluginFailure] = field(default_factory=list[PluginFailure])
    plugins: dict[str, str] = field(default_factory=dict[str, str])
    _backends: dict[tuple[Kind, str], Backend] = field(default_factory=dict[tuple[Kind, str], Backend])

    def load(self) -> None:
        """Load every installed plugin, our own first, so that nobody can take a built-in name away."""
        found = sorted(entry_points(group=GROUP), key=lambda point: (_distribution(point) != DISTRIBUTION, point.name))
        for point in found:
            if point.name in self.plugins:
                self._fail(point.name, PluginError(f"Two installed packages provide a plugin named {point.name!r}."))
                continue
            try:
                plugin = point.load()
            except (Exception, SystemExit) as error:  # noqa: BLE001 - a plugin may raise anything
                self._fail(point.name, PluginError(f"The plugin {point.name!r} cannot be imported: {_one_line(error)}"))
                continue
            self.register(plugin, point.name, _distribution(point))

    def register(self, plugin: object, name: str, distribution: str = "") -> None:
        """Add one plugin object; what is wrong with it goes to `failures`."""
        registrar = Registrar(name, self._backends, self.failures)
        if self.manager.has_plugin(name):
            self._fail(name, PluginError(f"There is already a plugin named {name!r}; the first one stays in use."))
            return
        before = dict(self._backends)
        try:
            self.manager.register(plugin, name=name)
            self.manager.check_pending()
            for hook in self._hooks("register_backends", plugin):
                hook.function(register=registrar)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - see load
            self._backends.clear()
            self._backends.update(before)
            if self.manager.has_plugin(name):
                self.manager.unregister(name=name)
            self._fail(name, PluginError(f"The plugin {name!r} cannot be used: {_one_line(error)}"))
            return
        self.plugins[name] = distribution

    def backend(self, kind: Kind, name: str) -> Backend:
        """Return the backend of that name.

        Raises:
            UnknownBackendError: There is none; the message lists those there are, and plugins that failed to load.
        """
        found = self._backends.get((kind, name))
        if found is not None:
            return found
        names = self.names(kind)
        broken = f" Plugins that failed to load: {', '.join(f.plugin for f in self.failures)}." if self.failures else ""
        raise UnknownBackendError(
            f"There is no {kind} {name!r}.{did_you_mean(name, names)} "
            f"Installed are: {', '.join(names) or 'none'}.{broken}"
        )

    def names(self, kind: Kind) -> list[str]:
        """Return the names of all backends of that kind, sorted."""
        return sorted(name for backend_kind, name in self._backends if backend_kind == kind)

    def backends(self) -> list[Backend]:
        """Return all backends, by kind and name."""
        return [self._backends[key] for key in sorted(self._backends)]

    def hooks(self, name: str) -> Iterator[tuple[str, Callable[..., Any]]]:
        """Yield (plugin name, function taking keyword arguments) for each implementation of a hook, in call order."""
        for implementation in self._hooks(name):
            yield implementation.plugin_name, _accepting(implementation)

    def _hooks(self, name: str, plugin: object = None) -> list[pluggy.HookImpl]:
        found = reversed(getattr(self.manager.hook, name).get_hookimpls())
        return [hook for hook in found if plugin is None or hook.plugin is plugin]

    def _fail(self, plugin: str, error: PluginError) -> None:
        log.warning("%s", error)
        self.failures.append(PluginFailure(plugin, error))


def _accepting(implementation: pluggy.HookImpl) -> Callable[..., Any]:
    """Call a hook with the arguments that it asks for, as pluggy does."""

    def call(**arguments: Any) -> Any:
        return implementation.function(*(arguments[name] for name in implementation.argnames))

    return call


def _distribution(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else ""


def _one_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


@lru_cache(maxsize=1)
def get_registry() -> PluginRegistry:
    """Return the registry with every installed plugin; loaded once a process."""
    registry = PluginRegistry()
    registry.load()
    return registry
