"""The text of one file: what is written is read back to the byte, and what people type is understood or reported."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_core.errors import CorruptEntryError
from memory_core.testing import make_entry
from memory_core.testing.samples import NASTY_CONTENTS, NASTY_KEYS, contents, metadata, names
from memory_storer_markdown.frontmatter import Parsed, parse, render

moments = st.datetimes(timezones=st.just(UTC))


def front(head: str, body: str = "text\n") -> Parsed:
    return parse(f"---\n{head}\n---\n{body}")


def same(entry: Any, parsed: Parsed) -> bool:
    return (
        parsed.content, parsed.key, parsed.user, parsed.importance, parsed.created, parsed.updated, parsed.expires, parsed.source,
        parsed.metadata or {},
    ) == (
        entry.content, entry.id.key, entry.id.user_id, entry.importance, entry.created_at, entry.updated_at, entry.expires_at,
        entry.source, entry.metadata,
    )  # fmt: skip


@settings(deadline=None)
@given(
    names, names, contents, metadata, st.integers(1, 10), moments, moments, st.none() | moments, contents | st.just("")
)
def test_any_entry_round_trips_through_its_file(
    key: str, user: str, content: str, extra: dict[str, Any], importance: int, created: datetime, updated: datetime,
    expires: datetime | None, source: str,
) -> None:  # fmt: skip
    entry = make_entry(
        key,
        content,
        user=user,
        importance=importance,
        at=updated,
        created_at=created,
        expires=expires,
        metadata=extra,
        source=source,
    )
    text = render(entry)
    assert same(entry, parse(text))
    assert same(entry, parse(render(entry, parse(text).extra)))


@pytest.mark.parametrize("text", [*NASTY_KEYS, *NASTY_CONTENTS], ids=lambda text: ascii(text[:14]))
def test_nasty_text_round_trips_in_every_field(text: str) -> None:
    entry = make_entry("k", text, source=text, metadata={text: text, "list": [text], "deep": {text: {text: None}}})
    assert same(entry, parse(render(entry)))
    if text in NASTY_KEYS:
        entry = make_entry(text, text, user=text)
        assert same(entry, parse(render(entry)))


@pytest.mark.parametrize("name", ["yes", "No", "on", "OFF", "y", "null", "Null", "~", "true", "1", "1.5", "1e3", "0x1F", "0o7", "1_000", "12:30:45",
                                  "2026-01-01", "2026-01-01T00:00:00Z", ".inf", "nan", "<<", "=", "-", "?", "!x", "a: b", "a #b", "never"])  # fmt: skip
def test_names_that_mean_something_in_yaml_stay_text(name: str) -> None:
    entry = make_entry(name, "c", user=name, source=name, metadata={name: name})
    assert same(entry, parse(render(entry)))


# --- what people type ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("bom", ["", "\ufeff"])
def test_a_bom_and_crlf_change_nothing(newline: str, bom: str) -> None:
    text = bom + newline.join(["---", "key: k", "importance: 7", "---", "one", "two", ""])
    parsed = parse(text)
    assert (parsed.key, parsed.importance, parsed.content) == ("k", 7, "one\ntwo")


def test_crlf_inside_the_body_of_an_lf_file_is_content() -> None:
    assert parse("---\nkey: k\n---\na\r\nb\r\n").content == "a\r\nb\r"


@pytest.mark.parametrize(
    ("head", "field", "value"),
    [
        ("key: user-drink", "key", "user-drink"), ("key:   'it''s'  ", "key", "it's"), ('key: "a\\u00e9"', "key", "aé"), ("key: 123", "key", "123"),
        ("key: yes", "key", "yes"), ("key: 2026-01-01", "key", "2026-01-01"), ("key:", "key", None), ("key: ~", "key", None),
        ("key: null", "key", None), ("user: null", "user", None), ("source: null", "source", None), ('source: ""', "source", ""),
        ("key: >\n  folded\n  text", "key", "folded text\n"), ("importance: 8", "importance", 8), ("importance: '8'", "importance", 8),
        ("importance: 8.0", "importance", 8), ("importance:", "importance", None), ("importance: null", "importance", None),
        ("created: 2026-01-31", "created", datetime(2026, 1, 31, tzinfo=UTC)), ("created: 2026-01-31 09:00", "created", datetime(2026, 1, 31, 9, tzinfo=UTC)),
        ("created: 2026-01-31T09:00:00+09:00", "created", datetime(2026, 1, 31, tzinfo=UTC)), ("updated: '2026-01-31T09:00Z'", "updated", datetime(2026, 1, 31, 9, tzinfo=UTC)),
        ("expires: never", "expires", None), ("expires: Never", "expires", None), ("expires:", "expires", None), ("expires: null", "expires", None),
        ("metadata:", "metadata", None), ("metadata: {a: yes, b: 1, c: [x, 1.5, null, true]}", "metadata", {"a": "yes", "b": 1, "c": ["x", 1.5, None, True]}),
        ("metadata:\n  day: 2026-01-01\n  1: one", "metadata", {"day": "2026-01-01", "1": "one"}), ("", "key", None), ("# only a comment", "key", None),
        ("key: a # comment", "key", "a"), ("{key: k, importance: 3}", "importance", 3),
    ],
)  # fmt: skip
def test_what_people_write_is_understood(head: str, field: str, value: Any) -> None:
    assert getattr(front(head), field) == value


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("---\nkey: k\n", "line 1: .*never closed"), ("---", "line 1"), ("---\nkey: k\n--- more\ntext", "never closed"),
        ("---\n- a\n- b\n---\n", "line 2: .*a list"), ("---\njust words\n---\n", "line 2: .*plain text"), ("---\n5\n---\n", "line 2: .*plain text"),
        ("---\nkey: a\nkey: b\n---\n", "line 3: `key` is given twice"), ("---\nkey: [a\n---\n", "line . *: the front matter is not valid YAML"),
        ("---\nkey: a\n\timportance: 5\n---\n", "line 3: the front matter is not valid YAML"), ("---\nkey: 'open\n---\n", "line . *: the front matter"),
        ("---\nimportance: high\n---\n", "line 2: `importance` is 'high'"), ("---\nkey: k\nimportance: 0\n---\n", "line 3: `importance`"),
        ("---\nimportance: 5.5\n---\n", "importance"), ("---\nimportance: nan\n---\n", "importance"), ("---\nimportance: yes\n---\n", "importance"),
        ("---\ncreated: yesterday\n---\n", "line 2: `created` is 'yesterday'"), ("---\nexpires: 0001-01-01T00:00:00+09:00\n---\n", "expires"),
        ("---\nexpires: no\n---\n", "expires"), ("---\nkey: [a]\n---\n", "line 2: `key` must be one text"), ("---\nuser: {a: 1}\n---\n", "user"),
        ("---\nmetadata: text\n---\n", "line 2: `metadata` must be a mapping"), ("---\nmetadata: [1]\n---\n", "mapping"),
        ("---\nmetadata: {a: !!float x}\n---\n", "line 2"), ("---\nmetadata: !!python/object:os.system {}\n---\n", "line 2"),
        ("---\nmetadata: {? [a, b] : c}\n---\n", "line 2"), ("---\nmetadata: !!binary '@@'\n---\n", "line 2"),
        ("---\nkey: k\n...\nkey: l\n---\n", "not valid YAML"), ("---\nkey: \x01\n---\n", "not valid YAML"),
    ],
    ids=lambda text: ascii(text[4:24]),
)  # fmt: skip
def test_what_cannot_be_understood_names_the_line(text: str, said: str) -> None:
    with pytest.raises(CorruptEntryError, match=said) as caught:
        parse(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "head",
    [
        "a: &a [x,x]\nb: &b [*a,*a]\nmetadata: {z: *b}",
        "a: &a [lol,lol,lol,lol,lol,lol,lol,lol,lol]\n" + "".join(f"{chr(98 + n)}: &{chr(98 + n)} [" + ",".join([f"*{chr(97 + n)}"] * 9) + "]\n" for n in range(9)),
        "x: &x\n  <<: *x",
        "key: *nowhere",
    ],
    ids=["small", "bomb", "cycle", "undefined"],
)  # fmt: skip
def test_aliases_are_refused_before_they_grow(head: str) -> None:
    with pytest.raises(CorruptEntryError, match="aliases"):
        front(head)


def test_stars_and_ampersands_in_text_are_no_aliases() -> None:
    assert front("key: a*b & c\nsource: '*x'").key == "a*b & c"


@pytest.mark.parametrize(
    "deep", ["[" * 50_000, "{a: " * 50_000, "- " * 50_000, "? " * 50_000], ids=["lists", "maps", "dashes", "questions"]
)
def test_deep_nesting_is_reported(deep: str) -> None:
    for head in (deep, f"metadata: {deep}", f"other: {deep}"):
        with pytest.raises(CorruptEntryError):
            front(head)


# --- bodies --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ("just text\n", "just text"), ("just text", "just text"), ("text\r\n", "text"), ("a\n\n", "a\n"), ("--\nkey: k\n--\n", "--\nkey: k\n--"),
        ("# Title\n---\nmore\n", "# Title\n---\nmore"), (" ---\nkey: k\n---\n", " ---\nkey: k\n---"), ("----\nx\n", "----\nx"),
    ],
)  # fmt: skip
def test_a_file_without_front_matter_is_all_content(text: str, content: str) -> None:
    assert parse(text) == Parsed(content)


@pytest.mark.parametrize(
    "body", ["---\n", "a\n---\nb\n---\n", "---\nkey: evil\n---\nsecond\n", "--- \n", "```\n---\n```\n", "\n\n---\n"]
)
def test_fences_in_the_body_are_body(body: str) -> None:
    parsed = front("key: k", body)
    assert parsed.key == "k"
    assert parsed.content == body.removesuffix("\n")


# --- unknown fields ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "extra",
    [
        "tags: [a, b]\n", "aliases:\n  - one\n  - two\n", "note: |\n  line one\n\n  line two\n", "author: 'Ann' # who\n", "a.b: 1\nc: {d: e}\n",
        "cssclass: x\n# a comment after it\n", "'quoted key': yes\n", "? complex\n: value\n", "created_by: x\n", "text: >-\n  folded\n  more\n",
        "when: !!timestamp 2026-01-01\n", "bin: !!binary aGVsbG8=\n", "obj: !!python/object:x {}\n",
    ],
)  # fmt: skip
@pytest.mark.parametrize("place", ["before", "between", "after"])
def test_unknown_fields_are_kept_as_they_stand(extra: str, place: str) -> None:
    known = ["key: k\n", "importance: 7\n"]
    known.insert({"before": 0, "between": 1, "after": 2}[place], extra)
    parsed = parse("---\n" + "".join(known) + "---\nbody\n")
    assert (parsed.key, parsed.importance) == ("k", 7)
    assert parsed.extra == extra
    again = parse(render(make_entry("k2", "new body"), parsed.extra))
    assert (again.key, again.extra, again.content) == ("k2", extra, "new body")


@pytest.mark.parametrize(
    ("head", "kept"),
    [
        ("# first\nkey: k\n", "# first\n"),
        ("key: k\n# about importance\nimportance: 7\n", "# about importance\n"),
        ("key: k\n\n# one\n\n# two\n\nimportance: 7\n# last\n", "# one\n# two\n# last\n"),
        ("# only comments\n\n# here\n", "# only comments\n# here\n"),
        ("key: 'a\n  # no comment\n  b'\n# yes\n", "# yes\n"),
        ("key: a\nsource: |\n  x\n  # no comment\n# yes\n", "# yes\n"),
        ("metadata:\n  a: 1\n# yes\nkey: k\n", "# yes\n"),
        ("key: k\n# before it\ntags: [a]\n# after it\nimportance: 7\n# last\n", "# before it\ntags: [a]\n# after it\n# last\n"),
        ("key: k\r\n# windows\r\nimportance: 7\r\n", "# windows\n"),
    ],
)  # fmt: skip
def test_comments_on_lines_of_their_own_are_kept(head: str, kept: str) -> None:
    parsed = parse(f"---\n{head}---\nbody\n")
    assert parsed.extra == kept
    once = render(make_entry("k", "body"), parsed.extra)
    assert parse(once).extra == kept
    assert render(make_entry("k", "body"), parse(once).extra) == once


@pytest.mark.parametrize(
    "value",
    [
        "x",
        "[a, {b: c}]",
        "!!timestamp 2026-01-01",
        "!!set {a, b}",
        "!!float nan",
        "2026-01-01",
        "!!binary aGVsbG8=",
        "!thing x",
    ],
)
def test_unknown_fields_in_braces_are_kept_or_reported(value: str) -> None:
    try:
        parsed = front(f"{{key: k, other: {value}}}")
    except CorruptEntryError as error:
        assert "line 2" in str(error)  # noqa: PT017 - either outcome is legal
    else:
        assert parsed.extra.startswith("other: ")
        assert parse(render(make_entry("k"), parsed.extra)).extra == parsed.extra


@pytest.mark.parametrize("mark", ["\u2028", "\u2029", "\x85", "\r"], ids=ascii)
def test_rare_line_ends_in_the_head_do_not_shift_the_lines(mark: str) -> None:
    try:
        parsed = front(f"note: 'a{mark}b'\nkey: k\nother: x")
    except CorruptEntryError:
        return
    assert parsed.key == "k"
    again = parse(render(make_entry("k2"), parsed.extra))
    assert again.key == "k2"
    assert again.extra == parsed.extra
    assert "other: x" in parsed.extra
    assert "key: k\n" not in parsed.extra


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=300))
def test_no_text_raises_anything_else(text: str) -> None:
    for candidate in (
        text,
        f"---\n{text}",
        f"---\n{text}\n---\nbody",
        f"---\nkey: {text}\n---\nbody",
        f"---\nmetadata: {text}\n---\nbody",
    ):
        try:
            parsed = parse(candidate)
            parse(render(make_entry("k"), parsed.extra))
        except CorruptEntryError as error:
            assert "\n" not in str(error)  # noqa: PT017 - either outcome is legal


@settings(deadline=None)
@given(st.lists(st.sampled_from(["---", "key: k", "- a", "*a", "&a b", "x: &y z", "!!set {a}", "{", "}", "[", "]", "? a", ": b", "|", ">", "'", '"', "#", "\t", "%TAG", "...", "!", "@", "`", "metadata: {a: b}", "importance: 5", " "]), max_size=12), st.sampled_from(["\n", " ", "\r\n", "\x85"]))  # fmt: skip
def test_no_yaml_raises_anything_else(parts: list[str], joint: str) -> None:
    try:
        parsed = parse("---\n" + joint.join(parts) + "\n---\nbody\n")
        parse(render(make_entry("k"), parsed.extra))
    except CorruptEntryError as error:
        assert "\n" not in str(error)  # noqa: PT017 - either outcome is legal
