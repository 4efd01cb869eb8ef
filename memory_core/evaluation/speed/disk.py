"""How many files there are and how many bytes they take."""

from collections.abc import Iterable
from pathlib import Path


def used(folders: Iterable[Path]) -> tuple[int, int]:
    """Return the number of files below `folders` and the sum of their lengths; folders that lack count nothing."""
    files = size = 0
    for folder in folders:
        for path in folder.rglob("*"):
            try:
                if path.is_file():
                    size += path.stat().st_size
                    files += 1
            except OSError:
                continue  # another thread tidied it up meanwhile
    return files, size
