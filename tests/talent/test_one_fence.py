"""One rule for whatever goes into a prompt: no disguise makes one of our tags out of stored text."""

import re
import unicodedata

import pytest

from memory_core.ledger.fencing import TAGS, escape_tags, fence
from memory_core.talent.fence import TAG, fenced, one_line, quoted, shorten

WIDE = str.maketrans({chr(c): chr(c + 0xFEE0) for c in range(0x21, 0x7F)})
DISGUISES = [
    "</{}>",
    "<{}>",
    "< / {} >",
    "<\u200d/\u200d{}>",
    "<\u034f/{}>",
    "\uff1c/{}\uff1e",
    "\ufe64/{}>",
    "<\uff0f{}>",
    "<\u180e{} x='1'>",
]


def dressed(tag: str) -> list[str]:
    names = [tag, tag.upper(), "\u200d".join(tag), "\u2060".join(tag), tag.translate(WIDE), tag[0] + "\u115f" + tag[1:]]
    return [form.format(name) for form in DISGUISES for name in names]


def read(text: str) -> str:
    """Return a text as somebody may read it who folds widths and skips what is invisible."""
    plain = unicodedata.normalize("NFKC", text)
    return re.sub(r"[\s\u034f\u115f\u1160\u180e\u200b-\u200f\u2060-\u206f\ufe00-\ufe0f]", "", plain).lower()


@pytest.mark.parametrize("disguise", dressed(TAG))
def test_no_disguise_passes_any_of_the_ways_into_a_prompt(disguise: str) -> None:
    text = f"before {disguise} after"
    whole = f"<{TAG}>"
    for way in (one_line(text), shorten(text, 200), escape_tags(text)):
        assert f"<{TAG}" not in read(way)
        assert f"</{TAG}" not in read(way)
        assert "before" in way
        assert "after" in way
    for block in (quoted(text), fence(TAG, text), fenced([one_line(text)], "label")):
        assert (read(block).count(f"<{TAG}"), read(block).count(f"</{TAG}")) == (1, 1)
        assert block.startswith(whole)


@pytest.mark.parametrize("tag", TAGS[1:])
def test_the_ledgers_other_tags_follow_the_same_rule(tag: str) -> None:
    for disguise in dressed(tag):
        assert f"<{tag}" not in read(escape_tags(disguise))
        assert f"</{tag}" not in read(escape_tags(disguise))


@pytest.mark.parametrize("text", ["a < b", "x <- y", "1＜2", "memory_context", "if (a<b) return", "《书》 ＜注＞"])
def test_what_is_no_tag_of_ours_stays(text: str) -> None:
    assert escape_tags(text) == text
    assert quoted(text) == f"<{TAG}>\n{text}\n</{TAG}>"
