"""Recognises our own injected text by its structure, so that it is not stored as if somebody had said it."""

import re
from functools import lru_cache
from string import Formatter

from memory_core.talent.fence import TAG, has_block
from memory_core.talent.wording import wording

LOCALES = ("en", "zh")


def own_words(content: str) -> str | None:
    """Return what of an injected block `content` holds, or None when it holds nothing of one.

    Either the block's fence, or a line in the form in which each memory is injected.
    """
    if has_block(content):
        return f"<{TAG}>"
    match = _line_pattern().search(content)
    return match.group() if match else None


@lru_cache(maxsize=1)
def _line_pattern() -> re.Pattern[str]:
    """Return a pattern for the beginning of an injected line, in every locale."""
    fields = {
        "time": r"\d{4}-\d\d-\d\d \d\d:\d\d",
        "scope": r"[^\]\n]{1,80}",
        "key": r"[^\n]{1,512}?",
        "importance": r"\d{1,2}",
    }
    patterns: list[str] = []
    for locale in LOCALES:
        parts = [
            re.escape(literal.lstrip("- ") if not place else literal) + fields.get(field or "", "")
            for place, (literal, field, _, _) in enumerate(Formatter().parse(wording(locale).line))
        ]
        patterns.append("".join(parts))
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns))
