"""Reads what the benchmarks wrote; what is not there, or cannot be read, is said and is no error."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Results:
    """The files by their name without `.json`; `unreadable` says what is wrong with the others."""

    files: Mapping[str, Any]
    unreadable: tuple[str, ...] = field(default=())

    def one(self, name: str) -> Json | None:
        """Return the object in that file; None if there is no such file or it holds no object."""
        found = self.files.get(name)
        return cast("Json", found) if isinstance(found, dict) else None

    def family(self, prefix: str) -> dict[str, Json]:
        """Return the objects in `PREFIX.json` and in all `PREFIX-….json` and `PREFIX_….json`, by name."""
        names = [name for name in self.files if name == prefix or name.startswith((f"{prefix}-", f"{prefix}_"))]
        return {name: found for name in sorted(names) if (found := self.one(name)) is not None}

    def rows(self, name: str) -> list[Json]:
        """Return the rows of a file that is a list of rows, or holds one under `rows`."""
        found = self.files.get(name)
        inner: Any = cast("Json", found).get("rows") if isinstance(found, dict) else found
        if not isinstance(inner, list):
            return []
        return [cast("Json", row) for row in cast("list[object]", inner) if isinstance(row, dict)]


def load(folder: Path) -> Results:
    """Read all `*.json` of a folder; a folder that does not exist has none."""
    files: dict[str, Any] = {}
    unreadable: list[str] = []
    for path in sorted(folder.glob("*.json")):
        try:
            files[path.stem] = json.loads(path.read_text("utf-8"))
        except (OSError, ValueError) as error:
            unreadable.append(f"{path.name} cannot be read: {type(error).__name__}")
    return Results(files, tuple(unreadable))
