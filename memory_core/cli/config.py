"""`config show`: the settings in force, where each comes from, and no secrets."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click
from pydantic import BaseModel, SecretBytes, SecretStr

from memory_core.cli.output import plain, print_json, say
from memory_core.cli.state import State, pass_state, shared_options

if TYPE_CHECKING:
    from memory_core.config import Loaded

MASK = "********"
_SECRET_NAME = re.compile(
    r"(?:^|[_-])(?:pass(?:word|wd|phrase)?|secret|token|credentials?|auth|(?:api|access|private|secret)[_-]?keys?|key)$",
    re.IGNORECASE,
)
_URL_PASSWORD = re.compile(r"(?P<head>[a-z][a-z0-9+.-]*://[^\s/?#@:]*:)[^\s/?#]*(?=@)", re.IGNORECASE)
_URL_SECRET = re.compile(r"(?P<head>[?&](?:password|passwd|secret|token|api_?key|key)=)[^&#\s]+", re.IGNORECASE)


@click.group()
def config() -> None:
    """Show the settings in force and where they come from."""


@config.command("show")
@shared_options("cwd", "json")
@pass_state
def show(state: State) -> None:
    """Print the settings in force and where each of them comes from; secrets are masked.

    \b
    memory-core config show
    MEMORY_CORE_LOCALE=zh memory-core config show --json
    """
    from memory_core.config import user_config_file

    loaded = state.load()
    rows = list(_rows(loaded))
    if state.as_json:
        print_json(
            {
                "file": str(loaded.path) if loaded.path is not None else None,
                "workspace": str(loaded.workspace),
                "settings": [{"name": name, "value": value, "from": origin} for name, value, origin in rows],
            }
        )
        return
    if loaded.path is None:
        say(f"# No file: neither memory.toml upwards from {loaded.workspace} nor {user_config_file()}.")
    else:
        say(f"# File: {loaded.path} ({loaded.origin})")
    lines = [(f"{name} = {_toml(value)}", origin) for name, value, origin in rows]
    width = min(60, max(len(line) for line, _ in lines))
    for line, origin in lines:
        say(f"{line:<{width}}  # {origin}")


def _rows(loaded: "Loaded") -> Iterator[tuple[str, Any, str]]:
    """Yield (dotted name, value to show, where it comes from)."""
    from memory_core.config import TABLES
    from memory_core.plugins import get_registry

    registry = get_registry()
    loaded.check(registry)
    settings = loaded.settings
    for name in type(settings).model_fields:
        if name in TABLES:
            continue
        value = getattr(settings, name)
        if name == "home":
            value = settings.home_dir
        yield from _flat(loaded, (name,), value)
    for table, kind in TABLES.items():
        used: str | list[str] | None = getattr(settings, kind, None)
        in_use = used if isinstance(used, list) else [used or ""]
        named = {name for name in in_use if name in registry.names(kind)}
        for name in sorted({*getattr(settings, table), *named}):
            yield from _flat(loaded, (table, name), loaded.options(registry, kind, name))


def _flat(loaded: "Loaded", path: tuple[str, ...], value: object) -> Iterator[tuple[str, Any, str]]:
    inner = _fields(value)
    if inner:
        for name, item in inner.items():
            yield from _flat(loaded, (*path, name), item)
    else:
        yield ".".join(path), {} if isinstance(value, dict) else masked(path[-1], value), _origin(loaded, path)


def _fields(value: object) -> dict[str, object]:
    """Return what a table or an options model holds; nothing for a plain value."""
    if isinstance(value, BaseModel):
        return {name: getattr(value, name) for name in type(value).model_fields}
    items = cast("dict[object, object]", value).items() if isinstance(value, dict) else ()
    return {str(name): item for name, item in items}


def _origin(loaded: "Loaded", path: tuple[str, ...]) -> str:
    for origin, layer in loaded.layers:
        inner: Any = layer
        for name in path:
            inner = _step(inner, name)
        if inner is not None:
            return origin
    return "default"


def _step(layer: Any, name: str) -> Any:
    if not isinstance(layer, Mapping):
        return None
    found = {str(key): value for key, value in cast("Mapping[object, Any]", layer).items()}
    return found.get(name)


def masked(name: str, value: object) -> Any:
    """Return `value` as it may be shown: secrets by type, by name, and passwords within URLs are masked."""
    if isinstance(value, SecretStr | SecretBytes):
        return MASK if value.get_secret_value() else ""
    if isinstance(value, list | tuple | set | frozenset):
        return [masked(name, item) for item in cast("Iterable[object]", value)]
    if value is None or isinstance(value, bool):
        return value
    if _SECRET_NAME.search(name) and value != "":
        return MASK
    if isinstance(value, int | float):
        return value
    text = str(value) if not isinstance(value, Path) else value.as_posix()
    return _URL_SECRET.sub(rf"\g<head>{MASK}", _URL_PASSWORD.sub(rf"\g<head>{MASK}", text))


def _toml(value: Any) -> str:
    """Return a value as it would stand in memory.toml; what TOML cannot say is left out."""
    return "(not set)" if value is None else plain(json.dumps(value, ensure_ascii=False))
