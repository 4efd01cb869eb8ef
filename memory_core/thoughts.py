"""What reasoning models write before their answer when their server does not take it out."""

import re

_CLOSED = re.compile(
    r"\A(?:\s*<think(?:ing)?>.*?</think(?:ing)?>|.*?^[ \t]*</think(?:ing)?>[ \t]*$)\s*",
    re.DOTALL | re.IGNORECASE | re.MULTILINE,
)
_OPEN = re.compile(r"\A\s*<think(?:ing)?>.*\Z", re.DOTALL | re.IGNORECASE)


def without_thoughts(text: str) -> str:
    """Return a model's answer without its thoughts: `<think>…</think>` before it, also when the opening tag is missing.

    An answer that was cut within its thoughts is empty.
    """
    return _OPEN.sub("", _CLOSED.sub("", text, count=1))
