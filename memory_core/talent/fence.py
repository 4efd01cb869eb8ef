"""Putting stored text into a prompt so that it stays data.

Stored text is somebody's words: it may hold headings, closing tags, fake tool calls, or orders to the model. Here it
becomes one line inside a fence that it cannot close, and the fence can be recognised, and removed, by its structure:
its tag carries a mark that no stored text can carry, because `<` before one of our tags is always written as `‹`.
"""

import re
from collections.abc import Iterable

TAG = "memory_context"
"""The element around everything that this library injects."""

_BREAKS = re.compile(r"[\r\n\v\f\x1c-\x1e\x85\u2028\u2029]+[ \t]*")
# Terminal and text controls, what turns the direction of text, halves of characters, which no answer can be sent with,
# and what nobody sees: soft hyphens, spaces without width, tag characters in which whole sentences can hide. The
# joiners stay: emoji and some scripts need them.
CONTROLS = re.compile(
    r"[\x00-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f\xad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff"
    r"\ufff9-\ufffb\U000e0000-\U000e007f\ud800-\udfff]"
)
OPENERS = "<\uff1c\ufe64"
"""What a reader may take for the beginning of a tag: `<`, full-width and small."""
_INVISIBLE = (
    r"[\s\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    r"\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]*"
)
_FULL = str.maketrans({chr(c): f"[{chr(c)}{chr(c + 0xFEE0)}]" for c in range(ord("_"), ord("z") + 1)})


def _loose(tag: str) -> str:
    """Return a pattern for a tag's name with invisible characters between the letters, in either width."""
    return _INVISIBLE.join(char.translate(_FULL) for char in tag)


def opening_of(tags: Iterable[str]) -> str:
    """Return the pattern of what could open or close one of these tags; match it whatever the case.

    White space, invisible characters between the letters, and letters in full width do not hide it. Only the first
    character is taken.
    """
    names = "|".join(map(_loose, tags))
    return f"[{OPENERS}](?={_INVISIBLE}[/\uff0f]?{_INVISIBLE}(?:{names}))"


def may_open(text: str) -> bool:
    """Whether a tag could begin anywhere in `text`: most texts have none, and need no pattern."""
    return any(opener in text for opener in OPENERS)


_OWN_TAG = re.compile(rf"{opening_of((TAG,))}|<(?={_INVISIBLE}/?{_INVISIBLE}\|)", re.IGNORECASE)
_TAG_LIKE = re.compile(rf"<(?={_INVISIBLE}/?{_INVISIBLE}[A-Za-z!?|])|{opening_of((TAG,))}", re.IGNORECASE)
# What opens a block ends its line, and what is inside cannot close it. An opening tag alone in its line without an end
# goes to the end of the text; one that a sentence mentions is no block.
_BLOCK = re.compile(
    rf"<{TAG}(?:[ \t][^<>\n]*)?>[ \t]*\n(?:.*?</{TAG}>)|^[ \t]*<{TAG}(?:[ \t][^<>\n]*)?>[ \t]*$(?!.*</{TAG}>).*",
    re.DOTALL | re.IGNORECASE | re.MULTILINE,
)


def one_line(text: str) -> str:
    """Return `text` as one harmless line: breaks become ` ⏎ `, controls vanish, tags cannot open or close."""
    plain = CONTROLS.sub("", text).strip()
    line = _BREAKS.sub(" ⏎ ", plain)
    return _TAG_LIKE.sub("‹", line) if may_open(line) else line


def quoted(text: str) -> str:
    """Return `text` in a fence of its own, line breaks and markup kept; only what could close the fence is changed."""
    return f"<{TAG}>\n{_OWN_TAG.sub('‹', CONTROLS.sub('', text))}\n</{TAG}>"


def fenced(lines: list[str], label: str) -> str:
    """Return the block for the prompt: `lines` (already made by `one_line`) in a fence, with a label above them."""
    return "\n".join([f"<{TAG}>", label, *lines, f"</{TAG}>"])


def strip_blocks(text: str) -> str:
    """Return `text` without any block that this library injected; one that begins a line and never ends goes whole."""
    return _BLOCK.sub("", text) if TAG in text.lower() else text


def has_block(text: str) -> bool:
    """Whether `text` holds a block that this library injected."""
    return _BLOCK.search(text) is not None


def shorten(text: str, limit: int) -> str:
    """Return `text` as one line of at most `limit` characters, `…` in place of what was cut."""
    line = " ".join(CONTROLS.sub("", text).split())
    line = _TAG_LIKE.sub("‹", line)
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"
