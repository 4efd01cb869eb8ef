r"""The one tokenizer: every index, every query and every token estimate goes through this file.

Rules: NFKC and case folding; a change of script is a boundary, so `使用Solon框架` gives `使 用 使用 solon 框 架 框架`;
Han, Kana, Hangul and the other scripts without spaces give single characters and bigrams (Nie, Gao, Zhang & Zhou 2000
found the two together better than either); words of other scripts stay whole. Names with symbols are kept: `c++`, `c#`,
`.net`, `3.11`, `gb/s`; a compound also gives its parts, so `node.js` is found by `node`. Latin words are stemmed with
Snowball (Porter 2001) when a language is given.
"""

import re
import threading
import unicodedata
from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from typing import Any

from memory_core.errors import ConfigError, did_you_mean

TOKENIZER_VERSION = 2
"""Grows whenever the same text would give other tokens; persistent indexes rebuild themselves then."""

MAX_TOKEN_CHARS = 64

HAN = "\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
KANA = "\u3041-\u309f\u30a0-\u30ff\u31f0-\u31ff"
HANGUL = "\u1100-\u11ff\u3130-\u318f\ua960-\ua97f\uac00-\ud7ff"
UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer: no spaces between words
EMOJI = (
    "\u2194-\u2199\u21a9\u21aa\u2300-\u23ff\u25b6\u25c0\u25fb-\u25fe\u2600-\u27bf\u2934\u2935\u2b00-\u2bff"
    "\U0001f004\U0001f0cf\U0001f170-\U0001f19a\U0001f1e6-\U0001f1ff\U0001f300-\U0001faff"
)
"""Emoji and the technical signs beside them (⌘, ⏎); no bullets and plain arrows, which only order a text."""
_DENSE = HAN + KANA + HANGUL + UNSPACED


def _marks() -> str:
    r"""Return the combining marks of the alphabetic scripts, which `\w` leaves out, as ranges for a regex class."""
    marks = [chr(c) for c in range(0x0300, 0x1E00) if unicodedata.category(chr(c)) in ("Mn", "Mc")]
    return "".join(mark for mark in marks if not re.match(f"[{_DENSE}]", mark))


@lru_cache(maxsize=1)
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str], re.Pattern[str]]:
    """Compile the token pattern, the one for ASCII text, what splits compounds, and a character of a dense script."""
    letter = f"(?:[^\\W_{_DENSE}]|[{_marks()}])"

    def word(letter: str, dense: str) -> re.Pattern[str]:
        dot = rf"(?:(?<![._])(?<!{letter})\.(?={letter}))?"  # of `.net`, also beside a dense script
        return re.compile(dense + rf"(?P<word>{dot}{letter}+(?:[.'/&]{letter}+)*(?:\+\+|\#)?)")

    dense = f"(?P<han>[{HAN}]+)|(?P<kana>[{KANA}]+)|(?P<hangul>[{HANGUL}]+)|(?P<unspaced>[{UNSPACED}]+)|"
    dense += f"(?P<emoji>[{EMOJI}])|"
    return word(letter, dense), word("[a-z0-9]", ""), re.compile(r"[./'&]"), re.compile(f"[{_DENSE}]")


class _Stemmers(threading.local):
    """Snowball stemmers are not safe to share between threads: one each."""

    def __init__(self) -> None:
        self.by_language: dict[str, Callable[[str], str]] = {}


_stemmers = _Stemmers()


def _stemmer(language: str) -> Callable[[str], str]:
    known = _stemmers.by_language.get(language)
    if known is None:
        import Stemmer  # type: ignore[import-not-found]  # a compiled module without type information

        snowball: Any = Stemmer
        try:
            stem: Callable[[str], str] = snowball.Stemmer(language).stemWord
        except KeyError as error:
            names: list[str] = snowball.algorithms()
            hint = did_you_mean(language, names) or f" There are: {', '.join(names)}."
            raise ConfigError(f"There is no stemmer for {language!r}.{hint}") from error
        known = _stemmers.by_language[language] = stem
    return known


def normalise(text: str) -> str:
    """Return `text` as it is compared: NFKC, case folded, typographic apostrophes made plain."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFKC", text).casefold().replace("\u2019", "'")


def tokens(text: str, stemmer: str | None = "english") -> list[str]:
    """Return the tokens of `text` in their order, with repeats.

    No text raises; text without letters, digits or emoji gives an empty list. A token holds no white space and at
    most 64 characters.

    Args:
        text: Any text.
        stemmer: A Snowball language for Latin words, or None to leave them as they are.

    Raises:
        ConfigError: There is no stemmer of that name.
    """
    any_pattern, ascii_pattern, splitter, dense = _patterns()
    plain = normalise(text)
    stem = _stemmer(stemmer) if stemmer else None
    found: list[str] = []
    add = found.append
    for match in (ascii_pattern if plain.isascii() else any_pattern).finditer(plain):
        piece = match.group()
        if match.lastgroup != "word":
            if match.lastgroup == "emoji":
                add(piece)
            else:
                found.extend(piece)
                found.extend(map("".join, pairwise(piece)))
            continue
        if piece.isalnum():
            add(stem(piece[:MAX_TOKEN_CHARS]) if stem else piece[:MAX_TOKEN_CHARS])
            continue
        piece = piece.removesuffix("'s")
        parts = splitter.split(piece.lstrip("."))
        whole = piece.isalnum()
        if not whole:
            add(piece[:MAX_TOKEN_CHARS])
        # After a dense script a dot may also end a sentence or begin a file's ending: the word itself must be found.
        if whole or len(parts) > 1 or (piece[0] == "." and dense.match(plain, match.start() - 1)):
            for part in parts:
                if part:
                    add(stem(part[:MAX_TOKEN_CHARS]) if stem else part[:MAX_TOKEN_CHARS])
    return found


def unique_tokens(text: str, stemmer: str | None = "english") -> list[str]:
    """Return the different tokens of `text` in the order in which they first appear."""
    return list(dict.fromkeys(tokens(text, stemmer)))


WIDE = "\u00b7\u2010-\u2027\u3000-\u3004\u3008-\u3020\u3030-\u303f\uff00-\uffef"  # typographic and full-width signs
# Tokens a character, as measured on the o200k vocabulary (docs/context.md); everything else counts as Latin.
_WEIGHTS = ((HAN + HANGUL + WIDE, 0.8), (KANA, 0.75), (UNSPACED, 0.6), (EMOJI, 1.0))
_LATIN_WEIGHT = 0.25


@lru_cache(maxsize=1)
def _weight_patterns() -> tuple[tuple[re.Pattern[str], float], ...]:
    return tuple((re.compile(f"[{ranges}]+"), weight) for ranges, weight in _WEIGHTS)


def estimate_tokens(text: str) -> int:
    """Return about how many model tokens `text` costs, rounded up; 0 only for empty text.

    Han, Hangul, typographic and full-width signs count 0.8 a character, Kana 0.75, Latin and all else 0.25.
    """
    if text.isascii():
        return -int(-len(text) * _LATIN_WEIGHT // 1)
    total, rest = 0.0, len(text)
    unknown = rest - len(text.encode("ascii", "ignore"))
    for pattern, weight in _weight_patterns():
        count = sum(map(len, pattern.findall(text)))
        total += count * weight
        rest -= count
        unknown -= count
        if not unknown:
            break  # most texts are of one script: no need to look for the others
    return -int(-(total + rest * _LATIN_WEIGHT) // 1)


def similarity(one: str, other: str) -> float:
    """Return how alike two texts are, 0..1: the Jaccard index of their token sets."""
    left, right = set(tokens(one)), set(tokens(other))
    return len(left & right) / len(left | right) if left and right else 0.0
