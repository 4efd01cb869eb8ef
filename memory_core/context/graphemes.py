"""Cuts at grapheme borders: what a reader sees as one character (UAX #29) is never split.

Combining marks, ZWJ sequences, flags, variation selectors, Hangul syllables and CR LF stay whole. The segmentation is
wcwidth's; here is only how to reach the border near a position without walking through the whole text.
"""

from collections.abc import Callable

_MAX_BACKTRACK = 4_096
_FLAGS = ("\U0001f1e6", "\U0001f1ff")


def head(text: str, limit: int) -> str:
    """Return the longest start of `text` of at most `limit` characters that ends at a grapheme border.

    A first grapheme that is longer than `limit` gives an empty text.
    """
    if limit >= len(text):
        return text
    if limit <= 0:
        return ""
    return text[: _border(text, limit)[0]]


def tail(text: str, limit: int) -> str:
    """Return the longest end of `text` of at most `limit` characters that starts at a grapheme border."""
    if limit >= len(text):
        return text
    if limit <= 0:
        return ""
    return text[_border(text, len(text) - limit)[1] :]


def middle_cut(text: str, keep_chars: int, notice: Callable[[int], str]) -> str:
    """Return `keep_chars` characters of each end with `notice(characters left out)` between them.

    `text` itself when that would not be shorter.
    """
    if len(text) <= 2 * keep_chars:
        return text
    first, last = head(text, keep_chars), tail(text, keep_chars)
    cut = f"{first}\n{notice(len(text) - len(first) - len(last))}\n{last}"
    return cut if len(cut) < len(text) else text


def _border(text: str, at: int) -> tuple[int, int]:
    """Return the nearest borders at or before, and at or after `at`; both are `at` when it is one itself."""
    if text[at - 1].isascii() and text[at].isascii() and not (text[at - 1] == "\r" and text[at] == "\n"):
        return at, at
    start = border = _safe_start(text, at)
    for grapheme in _window(text, start, at):
        following = border + len(grapheme)
        if following == at:
            return at, at
        if following > at:
            return border, following
        border = following
    return border, len(text)


def _window(text: str, start: int, at: int) -> list[str]:
    """Return the graphemes from `start` to one that reaches beyond `at`, looking no farther than needed."""
    from wcwidth import iter_graphemes

    width = at - start + 64
    while True:
        found = list(iter_graphemes(text[start : start + width]))
        # The last one may go on behind the window: it is only to be trusted at the end of the text.
        if sum(map(len, found[:-1])) > at - start or start + width >= len(text):
            return found
        width *= 2


def _safe_start(text: str, at: int) -> int:
    """Return a position before `at` where a grapheme surely starts: a plain letter behind another."""
    for position in range(at - 1, max(0, at - _MAX_BACKTRACK), -1):
        char = text[position]
        if ("\x20" <= char <= "\x7e" or "\u3041" <= char <= "\u3096" or "\u4e00" <= char <= "\u9fff") and (
            "\x20" <= text[position - 1] <= "\x7e" or "\u4e00" <= text[position - 1] <= "\u9fff"
        ):
            return position
    position = max(0, at - _MAX_BACKTRACK)
    while position > 0 and _FLAGS[0] <= text[position] <= _FLAGS[1]:
        position -= 1  # flags pair up from the start of their run, however long it is
    return position
