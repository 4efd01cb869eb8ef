"""A ledger with the settings that hold in its workspace: the `[ledger]` table of `memory.toml` and the environment."""

from pathlib import Path
from typing import Any

from memory_core.clock import SystemClock
from memory_core.config import Loaded, load_settings
from memory_core.contracts import Clock
from memory_core.ledger.config import MemoryConfig
from memory_core.ledger.ledger import Ledger
from memory_core.ledger.models import OpenAICompatibleModel
from memory_core.ledger.searching import searcher_builder
from memory_core.naming import slug
from memory_core.plugins.registry import PluginRegistry

USERS = "users"
_NOT_KNOBS = {"model", "base_url", "timezone"}


def user_folder(workspace: Path, user_id: str | None) -> Path:
    """Return where the ledger of a user lies who must not meet the others; None: the one that everybody shares."""
    return workspace if user_id is None else workspace / USERS / slug(user_id)


def open_ledger(
    workspace: Path | str = ".",
    *,
    model: Any = None,
    loaded: Loaded | None = None,
    registry: PluginRegistry | None = None,
    clock: Clock | None = None,
    **more: Any,
) -> Ledger:
    """Open the ledger of `workspace` as configured.

    Args:
        workspace: The folder that holds `MEMORY.md` and `memory/`.
        model: Wins over the configured model.
        loaded: Settings that were read already.
        registry: The plugins to use; by default every installed one.
        clock: Where the time comes from; by default the system.
        more: Further arguments of `Ledger`.

    Raises:
        ConfigError: A setting is unknown or wrong, or the model is nothing that can be asked.
    """
    folder = Path(workspace).expanduser().absolute()
    loaded = loaded or load_settings(folder)
    settings = loaded.settings.ledger
    config = MemoryConfig.from_mapping(settings.model_dump(exclude=_NOT_KNOBS))
    if model is None and settings.model is not None:
        model = configured_model(settings.model, settings.base_url)
    clock = clock or SystemClock()
    more.setdefault("locale", loaded.settings.locale)
    more.setdefault("timezone", settings.timezone)
    more.setdefault("searcher", searcher_builder(folder, None, clock, loaded, registry))
    return Ledger(folder, model, config, clock, **more)


def configured_model(name: str, base_url: str | None) -> Any:
    """Return the model of that name: at an endpoint when one is given, else of pydantic-ai's provider."""
    return OpenAICompatibleModel(name, base_url) if base_url else name
