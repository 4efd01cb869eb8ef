"""What other people's programs say, fit for a page: one line, without addresses and paths of this machine."""

import re


def masked(text: str) -> str:
    """Return `text` in one line of at most 300 characters; addresses and absolute paths become `…`."""
    line = " ".join(text.split())
    line = re.sub(r"\b\w+://\S+", "…", line)
    line = re.sub(r"(?<![\w.])(?:[A-Za-z]:\\|/)[\w.+@-]+(?:[\\/][\w.+@-]*)+", "…", line)
    return line[:300]
