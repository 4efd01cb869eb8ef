"""The tags around text in a prompt: stored text can neither close them nor open others, and ours are found again.

A block is a line that is nothing but an opening tag, lines, and a line that is nothing but the closing tag. Inside,
every `<` that could begin one of our tags is written `‹`, by the rule of `memory_core.talent.fence`. So a block is
recognised by its structure, and a sentence that merely mentions a tag is left alone.
"""

import re

from memory_core.talent.fence import CONTROLS, TAG, may_open, opening_of

MEMORY_TAG = TAG
TAGS = (MEMORY_TAG, "memory_md", "ledger_file", "todays_ledger", "conversation", "rejected_answer")

_OPENING = re.compile(opening_of(TAGS), re.IGNORECASE)
_CHAT_MARK = re.compile(r"<(?=\|)|(?<=\|)>")
_BLOCK = re.compile(
    rf"^[ \t]*<(?P<tag>{MEMORY_TAG})(?:[ \t][^<>\n]*)?>[ \t]*\n(?:.*\n)*?[ \t]*</(?P=tag)>[ \t]*(?:\n|\Z)", re.MULTILINE
)


def escape_tags(text: str) -> str:
    """Return `text` such that nothing in it can be taken for one of our tags or for a chat template's mark.

    Characters that nobody sees are taken out: tags, and whole sentences, can hide in them.
    """
    text = CONTROLS.sub("", text)
    if not may_open(text):
        return text
    return _CHAT_MARK.sub(lambda match: "‹" if match.group() == "<" else "›", _OPENING.sub("‹", text))


def fence(tag: str, text: str, **attributes: str) -> str:
    """Return `text` as a block of that tag."""
    inner = escape_tags(text).strip("\n")
    named = "".join(f' {name}="{_attribute(value)}"' for name, value in attributes.items())
    return f"<{tag}{named}>\n{inner}\n</{tag}>"


def _attribute(value: str) -> str:
    return re.sub(r"[^\w.\-/:+ ]", "_", value)


def strip_own_blocks(text: str) -> str:
    """Return `text` without the memory blocks that we injected. An opening tag without its end is left as text."""
    return _BLOCK.sub("", text) if f"<{MEMORY_TAG}" in text else text


def strip_tag_lines(text: str) -> str:
    """Return `text` without lines that are nothing but one of our tags, which models like to repeat."""
    alone = re.compile(rf"[ \t]*</?(?:{'|'.join(TAGS)})(?:[ \t][^<>]*)?>[ \t]*", re.IGNORECASE)
    return "\n".join(line for line in text.split("\n") if not alone.fullmatch(line))
