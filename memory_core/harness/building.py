"""From an engine's arguments to its parts: provider, ledger, compaction."""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Lock
from typing import Any

from memory_core.config import Loaded
from memory_core.context.config import CompactionConfig
from memory_core.contracts import MemorySolutionProvider
from memory_core.errors import ConfigError
from memory_core.ledger.config import MemoryConfig
from memory_core.ledger.ledger import Ledger
from memory_core.ledger.opening import open_ledger, user_folder
from memory_core.loading import load_provider

MAX_USERS = 256


def build_provider(given: Any, workspace: Path, overrides: Mapping[str, Any]) -> MemorySolutionProvider:
    """Return the provider that was given, as class, instance or object with `get(cwd)`; None: the configured one.

    Raises:
        ConfigError: It has no `get`.
    """
    if given is None:
        return load_provider(workspace, overrides=overrides)
    made = given() if isinstance(given, type) else given
    if isinstance(made, MemorySolutionProvider):
        return made
    if not callable(getattr(made, "get", None)):
        raise ConfigError(f"memory_provider is {made!r}; it must have a method `get(cwd)` that returns a solution.")
    return _Adopted(made)


class _Adopted(MemorySolutionProvider):
    """Any object with `get(cwd)` as a provider."""

    def __init__(self, made: Any) -> None:
        self._made = made

    def get(self, cwd: Path | str) -> Any:
        """Ask the object."""
        return self._made.get(cwd)


def given_or_set(loaded: Loaded, **values: int | None) -> dict[str, Any]:
    """Return the talent's settings, those that are None from the configuration."""
    settings = loaded.settings.talent
    return {name: getattr(settings, name) if value is None else value for name, value in values.items()}


class UserLedgers:
    """The ledgers of an engine's users: each has files of its own, opened when first asked for.

    Args:
        workspace: Where they lie; see `memory_core.ledger.opening.user_folder`.
        build: Opens the ledger in a folder.

    """

    def __init__(self, workspace: Path, build: Callable[[Path], Ledger | None]) -> None:
        self._workspace = workspace
        self._build = build
        self._open: OrderedDict[str | None, Ledger | None] = OrderedDict()
        self._lock = Lock()

    def __call__(self, cwd: str, user_id: str | None) -> Ledger | None:
        """Return the ledger of a user; the one that was not used for longest gives up its index for many users."""
        del cwd  # an engine has one workspace
        with self._lock:
            if user_id not in self._open:
                self._open[user_id] = self._build(user_folder(self._workspace, user_id))
            self._open.move_to_end(user_id)
            if len(self._open) > MAX_USERS:
                _close(self._open.popitem(last=False)[1])
            return self._open[user_id]

    def close(self) -> None:
        """Release their indexes."""
        with self._lock:
            while self._open:
                _close(self._open.popitem()[1])


def _close(ledger: Ledger | None) -> None:
    if ledger is not None:
        ledger.close()


def build_ledger(
    given: Ledger | bool,  # noqa: FBT001 - a setting that is handed on
    workspace: Path,
    loaded: Loaded,
    config: MemoryConfig | None,
    model: Any,
    **more: Any,
) -> Ledger | None:
    """Return the ledger that was given, or the configured one with `config` in place of its knobs; None for False."""
    if isinstance(given, Ledger):
        return given
    if not given:
        return None
    if config is None:
        return open_ledger(workspace, model=model, loaded=loaded, **more)
    settings = loaded.settings
    more |= {"locale": settings.locale, "timezone": settings.ledger.timezone}
    return Ledger(workspace, model, config, **more)


def build_compaction(
    given: CompactionConfig | bool,  # noqa: FBT001 - a setting that is handed on
    messages: int,
    ratio: float,
    model: Any,
    interceptor: Any,
) -> CompactionConfig | None:
    """Return the compaction that was given, or one with the engine's own settings; None for False."""
    if isinstance(given, CompactionConfig):
        return given
    if not given:
        return None
    return CompactionConfig(
        trigger_messages=messages,
        trigger_context_ratio=ratio,
        model=model,
        compression_interceptor=interceptor,
    )
