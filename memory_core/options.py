"""The base of every backend's options model, and the mark for options that only the user may set.

A project's `memory.toml` comes with a cloned repository: it is somebody else's text. Options that would send
memories elsewhere, or reach outside the workspace, are therefore taken only from the user's own configuration file,
the environment, or arguments.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

from pydantic import BaseModel, ConfigDict

from memory_core.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    from memory_core.contracts import BackendContext

USER_ONLY: dict[str, Any] = {"user_level": "always"}
"""`Field(json_schema_extra=USER_ONLY)`: never taken from a project's file (credentials, servers)."""

INSIDE_WORKSPACE: dict[str, Any] = {"user_level": "outside"}
"""`Field(json_schema_extra=INSIDE_WORKSPACE)`: from a project's file only as a path within the workspace."""


class Options(BaseModel):
    """Options of a backend: frozen, unknown keys refused, passwords as `SecretStr` (masked by `config show`)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    project_hint: ClassVar[str] = (
        "set it in your own configuration file or in the environment (while a project has a file, yours is read with "
        "--config)"
    )

    @classmethod
    def allowed_in_project(cls, name: str, value: Any, workspace: Path) -> bool:
        """Whether a project's file may set the option `name` to `value`; a room may override this."""
        field = cls.model_fields.get(name)
        extra = field.json_schema_extra if field is not None else None
        mark = cast("dict[str, Any]", extra).get("user_level") if isinstance(extra, dict) else None
        if mark == "always":
            return False
        return mark != "outside" or _inside(value, workspace)


def _inside(value: Any, workspace: Path) -> bool:
    if isinstance(value, dict):
        return all(_inside(item, workspace) for item in cast("dict[str, Any]", value).values())
    if not isinstance(value, str) or value.startswith("~"):
        return False
    try:
        return (workspace / value).resolve().is_relative_to(workspace.resolve())
    except (OSError, ValueError):
        return False


def placed(path: str, workspace: Path) -> str:
    """Return a path option as an absolute path: `~` is the user's folder, a relative path starts in the workspace.

    What is no local path (`s3://…`) comes back as it is.
    """
    return path if "://" in path else str(workspace / Path(path).expanduser())


def placed_scopes(directories: Mapping[str, str], context: "BackendContext") -> dict[str, Path]:
    """Return scope → directory: where a store's `directories` puts it, else where the provider does.

    Names of scopes that this provider does not have are left alone: another one may have them.

    Raises:
        ConfigError: One of them is a misspelt name.
    """
    places = {place.name: place.directory for place in context.scopes}
    for name in directories:
        meant = did_you_mean(name, places) if name not in places else ""
        if meant:
            raise ConfigError(f"`directories` names the scope {name!r}, which there is not.{meant}")
    elsewhere = {name: context.workspace / Path(path).expanduser() for name, path in directories.items()}
    return {name: elsewhere.get(name, place) for name, place in places.items()}


def placed_model(model: str, workspace: Path) -> str:
    """Return a model option: the absolute path when there is such a directory, else the name as it is."""
    folder = Path(placed(model, workspace))
    return str(folder) if folder.is_dir() else model
