"""Paths of Claude's memory tool and keys of memories: `/memories/notes/style.md` is the key `notes/style.md`."""

from collections.abc import Iterable, Mapping
from urllib.parse import unquote

from memory_core.errors import InvalidKeyError
from memory_core.model import clean_name

ROOT = "/memories"
MAX_LISTED = 1_000
"""Lines of a directory's listing; beyond them it says how many more there are."""
_DEPTH = 2
_STEPS = ("B", "K", "M", "G")


def key_of(path: object) -> str:
    """Return the key that a path names; empty for `/memories` itself.

    Nothing is decoded: a path that would mean another one once decoded (`%2e%2e`, `%2f`) is refused, as are `.`,
    `..`, empty parts, backslashes and control characters.

    Raises:
        InvalidKeyError: It is no path under `/memories`; the sentence says why.
    """
    if not isinstance(path, str):
        raise InvalidKeyError(f"The path must be text, not {type(path).__name__}.")
    if path.rstrip("/") == ROOT:
        return ""
    if not path.startswith(ROOT + "/"):
        raise InvalidKeyError(f"Path must start with {ROOT}, got: {path}")
    key = path.removeprefix(ROOT + "/").removesuffix("/")
    if not all(_plain(part) for part in key.split("/")):
        raise InvalidKeyError(f"Path {path} would escape {ROOT} directory")
    return clean_name(key, "path")


def path_of(key: str) -> str | None:
    """Return the path that shows a key, or None for a key that no path can name."""
    path = f"{ROOT}/{key}"
    try:
        return path if key_of(path) == key else None
    except InvalidKeyError:
        return None


def _plain(part: str) -> bool:
    meant = unquote(part)
    return bool(part.strip()) and meant not in (".", "..") and not set("/\\") & set(meant)


def listing(path: str, base: str, sizes: Mapping[str, int]) -> str:
    """Return what `view` shows of a directory: two levels of it, with sizes, without hidden names.

    Args:
        path: The path as it was asked for.
        base: The directory's key, empty for the root.
        sizes: Bytes by key, of all files.
    """
    prefix = f"{base}/" if base else ""
    items: dict[tuple[str, ...], int] = {}
    total = 0
    for key, size in sizes.items():
        if not key.startswith(prefix):
            continue
        parts = key.removeprefix(prefix).split("/")
        total += size
        if any(part.startswith(".") or part == "node_modules" for part in parts[:_DEPTH]):
            continue
        for depth in range(1, min(len(parts), _DEPTH) + 1):
            name = (*parts[:depth], "") if depth < len(parts) else tuple(parts)
            items[name] = items.get(name, 0) + size
    shown = path.rstrip("/")
    head = f"Here're the files and directories up to 2 levels deep in {shown}, excluding hidden items and node_modules:"
    lines = [f"{human_size(size)}\t{shown}/{'/'.join(name)}" for name, size in sorted(items.items())]
    cut = len(lines) - MAX_LISTED
    more = [f"… and {cut} more; view a directory below."] if cut > 0 else []
    return "\n".join([head, f"{human_size(total)}\t{shown}", *lines[:MAX_LISTED], *more])


def numbered(lines: Iterable[str], first: int = 1) -> str:
    """Return lines with their numbers as the tool writes them: six wide, right-aligned, a tab."""
    return "\n".join(f"{number:>6}\t{line}" for number, line in enumerate(lines, first))


def human_size(size: int) -> str:
    """Return bytes as `0B`, `512B`, `1.5K`, `4K`."""
    step = min(max(size.bit_length() - 1, 0) // 10, len(_STEPS) - 1)
    amount = size / 1024**step
    return f"{amount:.0f}{_STEPS[step]}" if amount == int(amount) else f"{amount:.1f}{_STEPS[step]}"
