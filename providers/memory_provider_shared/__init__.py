"""The provider `shared`: one store for many projects and machines; each project has its own scope in it."""

from typing import Any

from pydantic import Field, field_validator

from memory_core.caching import MAX_OPEN_SOLUTIONS
from memory_core.errors import InvalidKeyError
from memory_core.model import clean_name
from memory_core.options import USER_ONLY, Options
from memory_core.plugins import hookimpl

NAME = "shared"


class SharedOptions(Options):
    """`[providers.shared]`: how a project is named in the store, and where stores of files lie.

    `name` is the project's name in the store: wherever it is the same, machines and folders share the scope
    `workspace`. Without it the directory's real path decides. `folder` is for stores of files, and only the user may
    set it: by default `shared` in the user's data folder. `max_open` bounds how many projects are served at once.
    """

    name: str | None = None
    folder: str | None = Field(default=None, min_length=1, json_schema_extra=USER_ONLY)
    max_open: int = Field(default=MAX_OPEN_SOLUTIONS, ge=1)

    @field_validator("name")
    @classmethod
    def _storable(cls, value: str | None) -> str | None:
        try:
            return None if value is None else clean_name(value, "name")
        except InvalidKeyError as error:
            raise ValueError(str(error)) from error


def build(options: SharedOptions, context: Any) -> Any:
    """Build the provider; the implementation is imported only now."""
    from memory_provider_shared.provider import SharedProvider

    return SharedProvider(options, context)


@hookimpl
def register_backends(register: Any) -> None:
    """Register the provider `shared`."""
    register.provider(NAME, build, SharedOptions)


__all__ = ["NAME", "SharedOptions"]
