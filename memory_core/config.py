"""Settings: arguments over environment over `memory.toml` over defaults.

The file is the nearest `memory.toml`, or `pyproject.toml` with a `[tool.memory-core]` table, upwards from the working
directory, else `memory.toml` in the user's configuration folder. A file found in a project is trusted less than the
user's own: see `memory_core.options`.
"""

import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

from pydantic import BaseModel, ValidationError
from pydantic_settings import EnvSettingsSource

from memory_core.errors import ConfigError, did_you_mean
from memory_core.model import first_reason
from memory_core.options import Options
from memory_core.plugins.registry import Kind, PluginRegistry
from memory_core.settings import APP, ENV_PREFIX, Settings

FILE_NAME = "memory.toml"
OTHER_VARIABLES = frozenset(("MEMORY_CORE_MCP_TOKEN", "MEMORY_CORE_SOAK"))
"""Variables with our prefix that are no settings."""

Origin = Literal["defaults", "user file", "project file"]

TABLES: Mapping[str, Kind] = {
    "storers": "storer",
    "searchers": "searcher",
    "providers": "provider",
    "embedders": "embedder",
    "session_stores": "session_store",
    "filters": "filter",
}
_USER_ONLY_SETTINGS = ("home",)
_USER_ONLY_IN_LEDGER = ("model", "base_url")
"""A project's file may not say where conversations are sent."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """Settings and where they came from.

    `project` is what the project's file set, to be checked by each backend. `layers` are the sources as they were
    read, each with its name, the strongest first.
    """

    settings: Settings
    workspace: Path
    path: Path | None = None
    origin: Origin = "defaults"
    project: Mapping[str, Any] = field(default_factory=dict[str, Any])
    layers: tuple[tuple[str, Mapping[str, Any]], ...] = ()

    def options(self, registry: PluginRegistry, kind: Kind, name: str) -> BaseModel:
        """Return the checked options of one backend.

        Raises:
            UnknownBackendError: There is no such backend.
            ConfigError: An option is unknown, wrong, or set by a project's file that may not set it.
        """
        model = registry.backend(kind, name).options
        table = f"{kind}s"
        if issubclass(model, Options):
            for option, value in self.project.get(table, {}).get(name, {}).items():
                if not model.allowed_in_project(option, value, self.workspace):
                    what = f"`{option}` of [{table}.{name}]"
                    raise ConfigError(f"The project's file {self.path} may not set {what}: {model.project_hint}.")
        try:
            return model.model_validate(self.settings.table(kind, name))
        except ValidationError as error:
            raise ConfigError(_explain(error, model, f"[{table}.{name}]")) from error

    def check(self, registry: PluginRegistry) -> None:
        """Check every table of the configuration, also of backends that are not in use.

        Raises:
            UnknownBackendError, ConfigError: As `options`.
        """
        for table, kind in TABLES.items():
            for name in getattr(self.settings, table):
                self.options(registry, kind, name)


def load_settings(
    cwd: Path | str = ".", config_file: Path | str | None = None, overrides: Mapping[str, Any] | None = None
) -> Loaded:
    """Read and merge the settings that hold in `cwd`.

    Args:
        cwd: The working directory.
        config_file: Read this file instead of looking for one; it is trusted like the user's own.
        overrides: Settings that win over everything, nested as in the file.

    Raises:
        ConfigError: A file cannot be read, or a setting is unknown or wrong; one sentence with the next step.
    """
    workspace = _real(cwd, "working directory")
    path, origin = _find(workspace) if config_file is None else (_real(config_file, "configuration file"), "user file")
    from_file = _read(path) if path is not None else {}
    where = f"{path}" if path is not None else "the settings"
    project: Mapping[str, Any] = from_file if origin == "project file" else {}
    for name in _USER_ONLY_SETTINGS:
        if name in project:
            raise ConfigError(f"The project's file {path} may not set `{name}`: {Options.project_hint}.")
    table = project.get("ledger")
    for name in _USER_ONLY_IN_LEDGER:
        if isinstance(table, dict) and name in table:
            raise ConfigError(f"The project's file {path} may not set `{name}` of [ledger]: {Options.project_hint}.")
    environment = _environment()
    merged = _merge(_merge(from_file, environment), dict(overrides or {}))
    try:
        settings = Settings(**merged)
    except ValidationError as error:
        names = [str(part).lower() for part in error.errors(include_url=False, include_input=False)[0]["loc"]]
        blamed = f"{ENV_PREFIX}{'__'.join(names).upper()}" if _holds(environment, names) else where
        raise ConfigError(_explain(error, Settings, blamed)) from error
    layers = (("argument", dict(overrides or {})), ("environment", environment), (where, from_file))
    return Loaded(settings, workspace, path, origin, project, layers)


def _real(path: Path | str, what: str) -> Path:
    try:
        return Path(path).expanduser().absolute()
    except RuntimeError as error:
        raise ConfigError(f"The {what} {str(path)!r} names a user that there is not.") from error


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False  # a place that cannot be looked at holds no settings for us


def _is_settings_file(path: Path) -> bool:
    """Whether there is a file of that name, which is ours alone.

    Raises:
        ConfigError: Something else has its name: whoever put it there would wonder why it does nothing.
    """
    if _is_file(path):
        return True
    if os.path.lexists(path):
        what = "a directory" if path.is_dir() else "a broken link" if path.is_symlink() else "no regular file"
        raise ConfigError(f"{path} is {what}: settings are read from a file of this name; rename or remove it.")
    return False


def _find(workspace: Path) -> tuple[Path | None, Origin]:
    for folder in (workspace, *workspace.parents):
        if _is_settings_file(folder / FILE_NAME):
            return folder / FILE_NAME, "project file"
        pyproject = folder / "pyproject.toml"
        if _is_file(pyproject) and _table_of_pyproject(pyproject) is not None:
            return pyproject, "project file"
    user_file = user_config_file()
    return (user_file, "user file") if _is_settings_file(user_file) else (None, "defaults")


def user_config_file() -> Path:
    """Return where the user's own configuration file is looked for."""
    from platformdirs import user_config_path

    return user_config_path(APP, appauthor=False) / FILE_NAME


def _table_of_pyproject(path: Path) -> object:
    try:
        table: object = tomllib.loads(path.read_text("utf-8")).get("tool", {}).get(APP)
    except (OSError, ValueError, AttributeError, RecursionError):
        return None  # somebody else's file: not ours to complain about
    return table


def _read(path: Path) -> dict[str, Any]:
    try:
        content = tomllib.loads(path.read_text("utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"The configuration file {path} cannot be read: {error.strerror or error}.") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(
            f"The configuration file {path} is not valid TOML: {' '.join(str(error).split())}."
        ) from error
    table = _table_of_pyproject(path) if path.name == "pyproject.toml" else content
    if not isinstance(table, dict):
        raise ConfigError(f"The configuration file {path} has no table [tool.{APP}].")
    return cast("dict[str, Any]", table)


def _environment() -> dict[str, Any]:
    for variable in os.environ:
        if variable.startswith(ENV_PREFIX) and variable not in OTHER_VARIABLES:
            name = variable.removeprefix(ENV_PREFIX).split("__")[0].lower()
            if name not in Settings.model_fields:
                raise ConfigError(f"The environment variable {variable} sets nothing.{_known(name, Settings)}")
    try:
        return dict(EnvSettingsSource(Settings)())
    except ValueError as error:
        field_of = re.search(r"field \"(\w+)\"", str(error))
        which = f"variable {ENV_PREFIX}{field_of[1].upper()}" if field_of else f"variables {ENV_PREFIX}…"
        raise ConfigError(
            f'The environment {which} cannot be read: lists and tables are written as JSON there, such as ["redact"].'
        ) from error


def _holds(layer: Mapping[str, Any], names: Sequence[str]) -> bool:
    """Whether a layer sets what `names` lead to."""
    found: Any = layer
    for name in names:
        if not isinstance(found, Mapping):
            return True  # it was set above, as a whole
        lowered = {str(key).lower(): value for key, value in cast("Mapping[object, Any]", found).items()}
        if name not in lowered:
            return False
        found = lowered[name]
    return bool(names)


def _merge(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(under)
    for name, value in over.items():
        below = merged.get(name)
        if name == "ttl" and isinstance(below, dict) and isinstance(value, dict):
            merged[name] = {str(k): v for k, v in (*below.items(), *value.items())}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        else:
            merged[name] = _merge(below, value) if isinstance(below, dict) and isinstance(value, dict) else value  # pyright: ignore[reportUnknownArgumentType]
    return merged


def _known(name: str, model: type[BaseModel]) -> str:
    names = sorted(model.model_fields)
    return did_you_mean(name, names) or f" There are: {', '.join(names) or 'none'}."


def _explain(error: ValidationError, model: type[BaseModel], where: str) -> str:
    problem = error.errors(include_url=False, include_input=False)[0]
    if problem["type"] == "extra_forbidden":
        names = [str(part) for part in problem["loc"]]
        inner = model
        for name in names[:-1]:
            annotation = inner.model_fields[name].annotation if name in inner.model_fields else None
            if isinstance(annotation, type) and issubclass(annotation, BaseModel):
                inner = annotation
        return f"{where}: there is no setting `{'.'.join(names)}`.{_known(names[-1], inner)}"
    return f"{where}: {first_reason(error).rstrip('.')}."
