"""The tokenizer: every row of what must be findable, and rules for any text."""

import re
import unicodedata
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_core.errors import ConfigError
from memory_core.testing.samples import NASTY_CONTENTS, NASTY_KEYS
from memory_core.text import MAX_TOKEN_CHARS, estimate_tokens, normalise, similarity, tokens, unique_tokens

any_text = st.text(st.characters(), max_size=200)
"""Lone surrogates, controls and unassigned characters included."""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("用户喜欢使用Solon框架写代码", ["使用", "solon", "框架", "框", "代码"]),
        ("家里有一只猫", ["猫"]),
        ("私はPythonで書きます", ["私", "は", "python", "で", "書", "きま", "ます"]),
        ("ＡＢＣ株式会社", ["abc", "株式", "会社"]),
        ("R, C, C++, C#, F# and .NET", ["r", "c", "c++", "c#", "f#", ".net"]),
        ("Python 3.11 on Ubuntu 20.04", ["python", "3.11", "ubuntu", "20.04"]),
        ("3 GB/s", ["3", "gb/s", "gb"]),
        ("node.js and asp.net", ["node.js", "node", "js", "asp.net", "asp", "net"]),
        ("AT&T and R&D", ["at&t", "r&d"]),
        ("it's the user’s", ["it", "user"]),
        ("사용자는 파이썬을", ["사용", "자는", "파이", "파"]),
        ("ﾊﾟｿｺﾝ", ["パソ", "コン", "パ"]),
        ("user-tech-stack user_tech_stack", ["user", "tech", "stack"]),
        ("https://example.org/a/b?x=1", ["https", "exampl", "org", "x", "1"]),
        ("café cafe\u0301 CAFÉ", ["café"]),
        ("Straße STRASSE", ["strass"]),
        ("ภาษาไทย", ["ภา", "ไท"]),
        ("🎉 party", ["🎉", "parti"]),
        ("C++17", ["c++", "17"]),
        ("running runs", ["run"]),
        ("使用.NET框架", ["使用", ".net", "net", "框架"]),
        ("私は.NETで", [".net"]),
        ("데이터.NET", [".net"]),
        ("ไทย.NET", [".net"]),
        ("使用．ＮＥＴ框架", [".net"]),
        ("架构图.png", [".png", "png"]),
        ("用ASP.NET写", ["asp.net", "asp", "net"]),
        ("五星⭐ ⏰⌚ ⏩", ["⭐", "⏰", "⌚", "⏩"]),
        ("⌘K ⬛ ▶ ↩ ⤴ 🅰", ["⌘", "⬛", "▶", "↩", "⤴", "🅰"]),
        ("๓ ٣ 3", ["3"]),
    ],
)
def test_what_must_be_findable_is_a_token(text: str, expected: list[str]) -> None:
    assert set(expected) <= set(tokens(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("使用Solon框架", ["使", "用", "使用", "solon", "框", "架", "框架"]),
        ("猫", ["猫"]),
        ("中A文", ["中", "a", "文"]),
        ("かナ", ["か", "ナ", "かナ"]),
        ("漢かな", ["漢", "か", "な", "かな"]),
        (".net", [".net"]),
        ("a.b.", ["a.b", "a", "b"]),
        ("x's", ["x"]),
        ("文.net", ["文", ".net", "net"]),
        ("a.b.net", ["a.b.net", "a", "b", "net"]),
        ("x_.net", ["x", "net"]),
        ("e\u0301.net", ["é.net", "é", "net"]),
        ("q\u0301.net", ["q\u0301.net", "q\u0301", "net"]),
        ("等...net", ["等", "net"]),
        ("→ • © ’", []),
        ("", []),
        ("— … !! 、。", []),
        ("'; DROP TABLE x; --", ["drop", "tabl", "x"]),
    ],
)
def test_tokens_come_in_order_and_nothing_else_comes(text: str, expected: list[str]) -> None:
    assert tokens(text) == expected


@given(any_text)
def test_no_text_raises_and_tokens_are_clean(text: str) -> None:
    found = tokens(text)
    assert found == tokens(text)
    for token in found:
        assert 0 < len(token) <= MAX_TOKEN_CHARS
        assert not re.search(r"\s", token)
        assert '"' not in token
        assert "\x00" not in token
    assert unique_tokens(text) == list(dict.fromkeys(found))
    assert set(tokens(text, None)) or not found


@pytest.mark.parametrize("text", [*NASTY_KEYS, *NASTY_CONTENTS], ids=lambda text: ascii(text[:12]))
def test_nasty_text_has_the_same_tokens_in_index_and_query(text: str) -> None:
    assert tokens(text) == tokens(unicodedata.normalize("NFC", text)) == tokens(unicodedata.normalize("NFD", text))


@given(st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), max_size=40))
def test_full_width_text_is_ascii_text(text: str) -> None:
    wide = "".join(chr(ord(char) + 0xFEE0) for char in text)
    assert normalise(wide) == normalise(text)
    assert tokens(wide) == tokens(text)


@given(st.lists(st.sampled_from(["solon", "框架", "かな", "한글", "ไทย", "3.11", "c++"]), min_size=1, max_size=6))
def test_a_change_between_dense_and_spaced_script_is_a_boundary(words: list[str]) -> None:
    """Joined or spaced: the words of other scripts beside dense ones are the same."""
    dense = {"框架", "かな", "한글", "ไทย"}
    joined = words[0]
    for before, word in pairwise(words):
        joined += word if (before in dense) != (word in dense) else " " + word
    assert tokens(joined) == tokens(" ".join(words))


@given(any_text)
def test_case_does_not_matter(text: str) -> None:
    if text.casefold() == text.upper().casefold():  # a few letters have no way back
        assert tokens(text.upper()) == tokens(text)


def test_long_words_are_cut_the_same_way_everywhere() -> None:
    assert tokens("x" * 500, None) == ["x" * MAX_TOKEN_CHARS]
    assert all(len(token) <= MAX_TOKEN_CHARS for token in tokens("a." * 500 + "b/" * 500))
    assert tokens("x" * 100)[0] == tokens("X" * 90)[0]


def test_every_part_of_a_long_compound_is_a_token() -> None:
    parts = [f"part{n}" for n in range(60)]
    for sign in "./'&":
        found = tokens(sign.join(parts), None)
        assert found == [sign.join(parts)[:MAX_TOKEN_CHARS], *parts]
    assert tokens("a/" + "x" * 500 + "/b's", None)[1:] == ["a", "x" * MAX_TOKEN_CHARS, "b"]


def test_a_hundred_thousand_characters_of_anything_take_linear_time() -> None:
    for text in (
        "a." * 50_000,
        "." * 100_000,
        "'" * 100_000,
        "a+" * 50_000,
        "框" * 100_000,
        "\u0301" * 100_000,
        "框.a" * 30_000,
        "a/b'" * 25_000,
    ):
        tokens(text)


def test_the_stemmer_is_a_choice() -> None:
    assert tokens("running", None) == ["running"]
    assert tokens("bücher", "german") == ["buch"]
    with pytest.raises(ConfigError, match=r"no stemmer for 'englich'\. Did you mean 'english'\?"):
        tokens("x", "englich")
    with pytest.raises(ConfigError, match="There are: arabic"):
        tokens("x", "klingon!")


def test_threads_stem_side_by_side() -> None:
    words = [f"running walked {n} coffees" for n in range(200)]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(tokens, words)) == [tokens(word) for word in words]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a", 1),
        (" ", 1),
        ("a" * 400, 100),
        ("框" * 100, 80),
        ("か" * 100, 75),
        ("한" * 100, 80),
        ("abcd框架框架框", 5),
    ],
)
def test_the_token_estimate(text: str, expected: int) -> None:
    assert estimate_tokens(text) == expected


@given(any_text, any_text)
def test_the_estimate_grows_with_the_text(one: str, other: str) -> None:
    both = estimate_tokens(one + other)
    assert both >= max(estimate_tokens(one), estimate_tokens(other))
    assert both <= estimate_tokens(one) + estimate_tokens(other)


@given(any_text, any_text)
def test_similarity_is_symmetric_and_bounded(one: str, other: str) -> None:
    assert similarity(one, other) == similarity(other, one)
    assert 0.0 <= similarity(one, other) <= 1.0
    assert similarity(one, one) == (1.0 if tokens(one) else 0.0)
