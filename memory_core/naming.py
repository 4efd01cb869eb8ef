"""Names that are safe where they go: readable file names for any key, and short names for paths."""

import os
import re
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path

MAX_SLUG_BYTES = 120
_UNSAFE = re.compile(r"[^\w.-]+")
_RESERVED = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?", re.IGNORECASE)


def short_hash(text: str | bytes, size: int = 5) -> str:
    """Return `2 × size` hexadecimal digits that stand for `text`."""
    return blake2b(text.encode() if isinstance(text, str) else text, digest_size=size).hexdigest()


def joined(*names: str) -> str:
    """Return one text for several names, with `/` between them; different names never give the same one."""
    return "/".join(name.replace("%", "%25").replace("/", "%2F") for name in names)


@lru_cache(maxsize=4096)
def slug(name: str) -> str:
    """Return a readable file name (without ending) for `name`, the same on every file system.

    Letters of every script stay. Where the name had to change, is reserved somewhere, or could meet another one on a
    file system that folds case, `~` and a short hash follow: two names never share a slug. At most 132 bytes of UTF-8;
    never empty, never starting or ending with a dot.
    """
    plain = _UNSAFE.sub("-", name).strip(".-_ ") or "memory"
    if len(plain.encode()) > MAX_SLUG_BYTES:
        plain = plain.encode()[:MAX_SLUG_BYTES].decode(errors="ignore").rstrip(".-_ ")
    exact = plain == name and name == name.casefold() and not _RESERVED.fullmatch(name)
    return plain if exact else f"{plain}~{short_hash(name)}"


def path_namespace(path: Path) -> str:
    """Return a short name for a directory: its own name, readable, and a hash of its real path."""
    real = path.resolve()
    plain = _UNSAFE.sub("-", real.name).strip(".-_ ")[:40] or "root"
    return f"{plain}-{short_hash(os.fsencode(real))}"
