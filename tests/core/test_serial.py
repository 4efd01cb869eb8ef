"""The JSON form: lossless, stable, and strict when it is read."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_core.errors import CorruptEntryError
from memory_core.serial import from_fields, from_json, to_fields, to_json
from memory_core.testing import make_entry
from memory_core.testing.clock import START
from memory_core.testing.samples import NASTY_CONTENTS, NASTY_KEYS, contents, metadata, names

moments = st.datetimes(timezones=st.just(UTC))


@given(names, names, names, contents, metadata, st.integers(1, 10), moments, moments, st.none() | moments)
def test_any_entry_round_trips(
    scope: str, user: str, key: str, content: str, extra: dict[str, Any], importance: int,
    created: datetime, updated: datetime, expires: datetime | None,
) -> None:  # fmt: skip
    entry = make_entry(
        key, content, user=user, scope=scope, importance=importance, at=updated, created_at=created, expires=expires,
        metadata=extra, source=content,
    )  # fmt: skip
    line = to_json(entry)
    assert "\n" not in line
    assert from_json(line) == entry
    assert from_json(line.encode()) == entry
    assert from_fields(to_fields(entry)) == entry


@pytest.mark.parametrize("text", [*NASTY_CONTENTS, *NASTY_KEYS], ids=lambda text: ascii(text[:12]))
def test_a_line_stays_one_line_for_every_reader(text: str) -> None:
    line = to_json(make_entry("k", text, source=text, metadata={text: text}))
    assert "\n" not in line
    assert "\r" not in line
    assert from_json(line).content == text


def test_the_form_is_stable() -> None:
    entry = make_entry(
        "k", "中", user="u", importance=7, expires=START + timedelta(days=1), metadata={"a": 1}, source="cli"
    )
    assert to_json(entry) == (
        '{"scope":"workspace","user":"u","key":"k","content":"中","importance":7,'
        '"created":"2026-03-01T12:00:00+00:00","updated":"2026-03-01T12:00:00+00:00",'
        '"expires":"2026-03-02T12:00:00+00:00","source":"cli","metadata":{"a":1}}'
    )


def good() -> dict[str, Any]:
    return to_fields(make_entry("k", "c"))


def test_what_is_optional_may_be_missing() -> None:
    fields = good()
    for name in ("expires", "source", "metadata"):
        del fields[name]
    entry = from_fields(fields)
    assert (entry.expires_at, entry.source, entry.metadata) == (None, "tool", {})


@pytest.mark.parametrize("name", ["scope", "user", "key", "content", "importance", "created", "updated"])
def test_what_is_required_is_named_when_it_is_missing(name: str) -> None:
    fields = good()
    del fields[name]
    with pytest.raises(CorruptEntryError, match=f"lacks '{name}'"):
        from_fields(fields)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("scope", ""), ("user", "a\x00"), ("key", None), ("key", "\ud800"), ("key", ["k"]), ("content", " "), ("content", 3),
        ("importance", 0), ("importance", "high"), ("importance", None), ("created", "yesterday"), ("created", 5), ("created", None),
        ("updated", "2026-01-01T00:00:00"), ("expires", "2026-13-01"), ("expires", 7), ("expires", ["x"]), ("source", 5),
        ("source", None), ("metadata", "x"), ("metadata", [1]), ("metadata", {"a": float("nan")}), ("colour", "red"),
        ("created", "9999-12-31T23:59:59-01:00"), ("updated", "0001-01-01T00:00:00+01:00"), ("expires", "9999-12-31T23:59:59-23:00"),
    ],
    ids=ascii,
)  # fmt: skip
def test_a_wrong_field_is_a_corrupt_entry(name: str, value: Any) -> None:
    with pytest.raises(CorruptEntryError, match="A stored memory"):
        from_fields({**good(), name: value})


@pytest.mark.parametrize(
    "line",
    ["", "{", "nonsense", "{'a': 1}", '{"key": "\\ud800"}', b"\xff\xfe", "[" * 5000, "\x00"],
    ids=lambda x: ascii(x)[:20],
)
def test_what_is_not_json_is_said_so(line: str | bytes) -> None:
    with pytest.raises(CorruptEntryError, match="not JSON"):
        from_json(line)


@pytest.mark.parametrize("line", ["[]", "3", "null", '"text"', "true", "NaN"])
def test_what_is_not_an_object_is_said_so(line: str) -> None:
    with pytest.raises(CorruptEntryError, match=r"not a memory|not JSON"):
        from_json(line)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=5), lambda x: st.lists(x, max_size=3) | st.dictionaries(st.sampled_from([*good(), "x"]), x, max_size=10), max_leaves=12))  # fmt: skip
def test_no_json_raises_anything_else(value: Any) -> None:
    try:
        from_json(json.dumps(value))
    except CorruptEntryError as error:
        assert str(error)  # noqa: PT017 - either outcome is legal


def test_nan_in_metadata_is_refused_when_read() -> None:
    with pytest.raises(CorruptEntryError, match="NaN"):
        from_json(to_json(make_entry()).replace('"metadata":{}', '"metadata":{"a":NaN}'))
