"""What the model accepts, refuses and normalises."""

import unicodedata
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from memory_core.errors import InvalidEntryError, InvalidKeyError
from memory_core.model import (
    MAX_METADATA_DEPTH,
    ChangeBatch,
    MemoryEntry,
    MemoryId,
    SearchHit,
    SearchQuery,
    clean_name,
    hit_order,
    listing_order,
)
from memory_core.testing import make_entry
from memory_core.testing.clock import START
from memory_core.testing.samples import NASTY_CONTENTS, NASTY_KEYS, names


@pytest.mark.parametrize("key", NASTY_KEYS, ids=ascii)
def test_any_sensible_name_is_legal_and_stays_as_it_is(key: str) -> None:
    assert clean_name(key) == unicodedata.normalize("NFC", key).strip()


@given(names)
def test_cleaning_a_name_twice_changes_nothing(name: str) -> None:
    once = clean_name(name)
    assert clean_name(once) == once
    assert once == unicodedata.normalize("NFC", once)
    assert once == once.strip()


@given(st.text(st.characters(), max_size=40))
def test_cleaning_gives_a_name_or_the_one_error(text: str) -> None:
    try:
        name = clean_name(text)
    except InvalidKeyError as error:
        assert str(error).startswith("The key ")  # noqa: PT017 - either outcome is legal, both are checked
    else:
        assert name
        assert not {unicodedata.category(char) for char in name} & {"Cc", "Cs"}


@pytest.mark.parametrize(
    "bad", ["", " ", "\n", "\u3000", "\x00", "a\x00b", "a\nb", "\ud800", "a\udfff", "a\x7fb", "a\x85b"]
)
@pytest.mark.parametrize("field", ["scope", "user_id", "key"])
def test_a_name_that_cannot_be_stored_is_refused_in_each_field(bad: str, field: str) -> None:
    with pytest.raises(InvalidKeyError, match=field.replace("_", " ")):
        MemoryId(**{"scope": "workspace", "user_id": "shared", "key": "k", field: bad})


@pytest.mark.parametrize("bad", [None, 3, b"k", ["k"], True])
def test_a_name_is_text(bad: Any) -> None:
    with pytest.raises(InvalidKeyError, match="must be text"):
        clean_name(bad)


def test_the_length_is_counted_after_normalisation() -> None:
    assert len(clean_name("x" * 512)) == 512
    assert clean_name("  " * 300 + "x") == "x"
    assert clean_name("e\u0301" * 512) == "é" * 512
    for long in ("x" * 513, "é" * 513, "记" * 513):
        with pytest.raises(InvalidKeyError, match="513 characters; at most 512"):
            clean_name(long)


def test_an_id_is_normalised_and_never_joined() -> None:
    assert MemoryId("s", "u", " cafe\u0301 ") == MemoryId("s", "u", "café")
    assert len({MemoryId("a.b", "c", "d"), MemoryId("a", "b.c", "d"), MemoryId("a", "b", "c.d")}) == 3
    assert sorted([MemoryId("b", "a", "a"), MemoryId("a", "z", "z")])[0].scope == "a"


@pytest.mark.parametrize("content", NASTY_CONTENTS, ids=lambda text: ascii(text[:12]))
def test_content_is_kept_to_the_byte(content: str) -> None:
    assert make_entry("k", content).content == content


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("content", "", "blank"),
        ("content", " \n\u3000", "blank"),
        ("content", "a\ud800", "lone surrogate"),
        ("content", 5, "content"),
        ("content", None, "content"),
        ("importance", 0, "from 1 to 10"),
        ("importance", 11, "from 1 to 10"),
        ("importance", "eight", "importance"),
        ("importance", 7.5, "importance"),
        ("importance", float("nan"), "importance"),
        ("importance", None, "importance"),
        ("created_at", datetime(2026, 1, 1), "created_at"),
        ("updated_at", "yesterday", "updated_at"),
        ("expires_at", datetime(2026, 1, 1), "expires_at"),
        ("created_at", datetime.max.replace(tzinfo=timezone(timedelta(hours=-1))), "created_at"),
        ("expires_at", datetime.min.replace(tzinfo=timezone(timedelta(hours=1))), "expires_at"),
        ("source", "\ud800", "lone surrogate"),
        ("metadata", {"a": float("nan")}, "NaN"),
        ("metadata", {"a": [float("inf")]}, "infinity"),
        ("metadata", {"a": "\ud800"}, "lone surrogate"),
        ("metadata", {"\udfff": 1}, "lone surrogate"),
        ("metadata", {"a": object()}, "metadata"),
        ("metadata", {1: 2}, "metadata"),
        ("metadata", [1], "metadata"),
        ("metadata", {"a": 10**5000}, "metadata"),
        ("user_id", "somebody", "user_id"),
    ],
    ids=lambda value: value if isinstance(value, str) and value.isascii() and value.isprintable() else "value",
)
def test_a_wrong_field_is_one_sentence_that_names_it(field: str, value: Any, said: str) -> None:
    fields: dict[str, Any] = {"id": MemoryId("s", "u", "k"), "content": "c", "created_at": START, "updated_at": START}
    with pytest.raises(InvalidEntryError, match=said) as caught:
        MemoryEntry.checked(**{**fields, field: value})
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("This memory cannot be stored: ")


def test_the_error_does_not_repeat_the_memory() -> None:
    with pytest.raises(InvalidEntryError) as caught:
        make_entry("k", "my password is hunter2\ud800")
    assert "hunter2" not in str(caught.value)


def test_metadata_has_a_depth() -> None:
    def nested(depth: int) -> dict[str, Any]:
        return {"a": nested(depth - 1)} if depth > 1 else {"a": 1}

    assert make_entry(metadata=nested(MAX_METADATA_DEPTH - 1))
    for depth in (MAX_METADATA_DEPTH + 1, 150, 900):
        with pytest.raises(InvalidEntryError, match="metadata"):
            make_entry(metadata=nested(depth))
    cyclic: dict[str, Any] = {}
    cyclic["self"] = cyclic
    with pytest.raises(InvalidEntryError, match="metadata"):
        make_entry(metadata=cyclic)


def test_an_entry_is_frozen_and_says_it_with_pydantic_s_error_too() -> None:
    entry = make_entry()
    with pytest.raises(ValidationError):
        entry.content = "other"  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(ValidationError):
        MemoryEntry(id=entry.id, content=" ", created_at=START, updated_at=START)


def test_metadata_never_decides_ownership() -> None:
    entry = make_entry(user="a", metadata={"user_id": "b", "scope": "user", "key": "x"})
    assert entry.id == MemoryId("workspace", "a", "key")
    assert not SearchQuery("b", "x", 5, START).admits(entry)


def test_times_become_utc() -> None:
    tokyo = datetime(2026, 3, 1, 9, 0, 0, 123456, tzinfo=timezone(timedelta(hours=9)))
    entry = make_entry(at=tokyo, expires=tokyo + timedelta(days=1))
    assert entry.updated_at == tokyo
    assert entry.updated_at.tzinfo is UTC
    assert entry.expires_at is not None
    assert entry.expires_at.tzinfo is UTC


def test_the_moment_of_expiry_itself_counts_as_gone() -> None:
    entry = make_entry(expires=START)
    assert not entry.expired(START - timedelta(microseconds=1))
    assert entry.expired(START)
    assert not make_entry().expired(datetime.max.replace(tzinfo=UTC))


def test_a_query_admits_by_owner_scope_importance_and_expiry() -> None:
    entry = make_entry("k", user="u", importance=5, expires=START + timedelta(seconds=1))
    query = SearchQuery("u", "", 0, START)
    assert query.admits(entry)
    assert SearchQuery("u", "", 0, START, scopes=("workspace",), min_importance=5).admits(entry)
    for other in (
        SearchQuery("U", "", 0, START),
        SearchQuery("u", "", 0, START, scopes=("user",)),
        SearchQuery("u", "", 0, START, scopes=()),
        SearchQuery("u", "", 0, START, min_importance=6),
        SearchQuery("u", "", 0, START + timedelta(seconds=1)),
    ):
        assert not other.admits(entry)


def test_orders_are_total() -> None:
    old, new = START - timedelta(days=1), START
    entries = [
        make_entry("b", importance=9, at=old),
        make_entry("a", importance=5, at=new, scope="user"),
        make_entry("a", importance=5, at=new),
        make_entry("b", importance=5, at=new),
        make_entry("0", importance=5, at=old),
    ]
    assert sorted([*entries[2:], *entries[:2]], key=listing_order) == entries
    hits = [SearchHit(entries[4], 0.9), *(SearchHit(entry, 0.5) for entry in entries[:4])]
    assert sorted([*hits[2:], *hits[:2]], key=hit_order) == hits


def test_a_batch_is_true_when_there_is_something_to_do() -> None:
    assert not ChangeBatch([], [], "1")
    assert ChangeBatch([], [], "1", complete=True)
    assert ChangeBatch([], [], "1", more=True)
    assert ChangeBatch([make_entry()], [], "1")
    assert ChangeBatch([], [make_entry().id], "1")
