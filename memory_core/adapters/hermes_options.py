"""What a user of Hermes may set, in `$HERMES_HOME/memory_core.json`; everything else is in `memory.toml` as ever."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from memory_core.errors import ConfigError
from memory_core.model import first_reason
from memory_core.options import Options

NAME = "memory_core"
"""The provider's name: `memory.provider` in Hermes's `config.yaml`, the plugin's folder, and the stem of this file."""


class HermesOptions(Options):
    """`workspace`: where memories and ledger lie, by default in Hermes's home. `user_id`: whose they are, everywhere.

    Without `user_id` a messaging platform's users are kept apart, and the command line uses the shared memories.
    """

    workspace: str = ""
    user_id: str = ""
    ledger: bool = True

    def folder(self, hermes_home: Path) -> Path:
        """Return the workspace; a relative one lies in Hermes's home."""
        return (hermes_home / Path(self.workspace or NAME).expanduser()).absolute()


FIELDS: list[dict[str, Any]] = [
    {"key": "workspace", "description": "Folder for memories and ledger (empty: in Hermes's home)", "default": ""},
    {"key": "user_id", "description": "One user on all platforms (empty: each platform's users apart)", "default": ""},
    {"key": "ledger", "description": "Daily ledger and MEMORY.md", "default": "true", "choices": ["true", "false"]},
]
"""The questions of `hermes memory setup`."""


def load_options(hermes_home: Path) -> HermesOptions:
    """Read the options of a profile; without a file, the defaults.

    Raises:
        ConfigError: The file cannot be read, or says something that is no option.
    """
    path = options_file(hermes_home)
    try:
        said: Any = json.loads(path.read_text("utf-8-sig"))
    except FileNotFoundError:
        return HermesOptions()
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"The options in {path} cannot be read: {error}. Correct or delete the file.") from error
    return _checked(said, str(path))


def save_options(values: Mapping[str, Any], hermes_home: Path) -> None:
    """Write the options; what they do not name keeps its value.

    Raises:
        ConfigError: A value is wrong, or the file cannot be written.
    """
    path = options_file(hermes_home)
    options = _checked({**load_options(hermes_home).model_dump(), **values}, "The setup of memory_core")
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        hermes_home.mkdir(parents=True, exist_ok=True)
        fresh.write_text(options.model_dump_json(indent=2) + "\n", "utf-8")
        fresh.replace(path)
    except OSError as error:
        raise ConfigError(f"The options could not be written to {path}: {error}.") from error


def options_file(hermes_home: Path) -> Path:
    """Return where the options of a profile are."""
    return hermes_home / f"{NAME}.json"


def _checked(said: object, where: str) -> HermesOptions:
    try:
        return HermesOptions.model_validate(said)
    except ValidationError as error:
        names = ", ".join(HermesOptions.model_fields)
        raise ConfigError(f"{where}: {first_reason(error)}. There are: {names}.") from error
