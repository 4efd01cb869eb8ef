"""Recognises our own injected text by its structure, so that it is not stored as if somebody had said it."""

import re

_FENCE = re.compile(r"</?memory_context\b[^>\n]{0,200}>", re.IGNORECASE)


def own_words(content: str) -> str | None:
    """Return the marker of an injected block that `content` holds, or None when it holds none."""
    match = _FENCE.search(content)
    return match.group() if match else None
