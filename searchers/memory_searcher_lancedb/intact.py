"""Finds files that a crash or a hand has cut short, without reading them: Lance and Arrow files end in a mark."""

import os
from pathlib import Path

_ENDS = {".lance": b"LANC", ".manifest": b"LANC", ".arrow": b"ARROW1"}


def first_damage(folder: Path) -> str | None:
    """Return the name of the first data file or manifest in a table's folder that does not end as it must.

    Raises:
        OSError: The folder cannot be read.
    """
    for part in ("_versions", "data", "_deletions"):
        if not (folder / part).is_dir():
            continue
        with os.scandir(folder / part) as found:
            for item in found:
                mark = _ENDS.get(os.path.splitext(item.name)[1])
                if mark is not None and not _ends_with(item.path, mark):
                    return item.name
    return None


def _ends_with(path: str, mark: bytes) -> bool:
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - len(mark)))
            return file.read() == mark
    except FileNotFoundError:
        return True  # removed by another process' compaction meanwhile
