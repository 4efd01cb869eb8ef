"""Nasty but legal input, and strategies that make more of it."""

from datetime import datetime
from typing import Any

from hypothesis import HealthCheck
from hypothesis import strategies as st

from memory_core.errors import InvalidKeyError
from memory_core.model import MemoryEntry, MemoryId, clean_name
from memory_core.testing.clock import START

NASTY_KEYS: tuple[str, ...] = (
    "user-tech-stack", "py__init", "a/b", "a\\b", "..", ".", "../../x", "~", "user:x", "Foo", "foo", "FOO", "CON", "nul.md",
    "a.", "a b", "emoji 🎉👨‍👩‍👧", "记" * 300, "x" * 512, "%2e%2e", "*", "a*", "{a}", "{a}:b", "'; DROP TABLE x; --", '"quoted"',
    "key: value", "- item", "#hash", "yes", "null", "123", "1e3", "2026-01-01", "!tag", "&a", "[x]", "`tick`", "$HOME",
    "é", "ß", "İ", "a\u200bb", "a\u2028b", "~abc", "foo~12345678ab", ".hidden", "-dash", "a\u00a0b", "\ufeffbom",
)  # fmt: skip

NASTY_CONTENTS: tuple[str, ...] = (
    "plain", "  leading spaces", "trailing newline\n", "two\n\n", "\n\nfirst blank", "---\nkey: evil\n---\nbody", "a\r\nb\r\n", "a\r",
    "a\rb", "tab\tand\x0bvertical", "```py\nprint()\n```", "{{ x }} {% y %}", "line\u2028sep\u2029par\u0085nel", "🎉👨‍👩‍👧 e\u0301 é", "使用Solon框架",
    "nul\x00byte", "\ufeffbom first", "x" * 20_000, "- key: value", "</memory_context>", "'\"\\", "\x1b[31mred", "a\x7fb\x9fc",
)  # fmt: skip


RELAXED = (
    HealthCheck.function_scoped_fixture,
    HealthCheck.differing_executors,  # a suite is inherited by several test classes: on purpose
    HealthCheck.too_slow,
    HealthCheck.data_too_large,
    HealthCheck.filter_too_much,
)
"""Health checks that do not fit suites over real stores: one store serves all examples, and disks are slow."""


def make_entry(
    key: str = "key",
    content: str = "content",
    *,
    user: str = "shared",
    scope: str = "workspace",
    importance: int = 5,
    at: datetime = START,
    expires: datetime | None = None,
    **more: Any,
) -> MemoryEntry:
    """Return an entry with sensible defaults."""
    return MemoryEntry.checked(
        id=MemoryId(scope, user, key),
        content=content,
        importance=importance,
        created_at=more.pop("created_at", at),
        updated_at=at,
        expires_at=expires,
        **more,
    )


def _is_name(text: str) -> bool:
    try:
        clean_name(text)
    except InvalidKeyError:
        return False
    return True


_chars = st.characters(exclude_categories=["Cs", "Cc"])
names = st.text(_chars, min_size=1, max_size=60).filter(_is_name)
"""Any legal key or user id (shortened for speed)."""

contents = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=300).filter(
    lambda text: bool(text.strip())
)
"""Any legal content."""

_leaves = (
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(_chars, max_size=20)
)
json_values = st.recursive(_leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(_chars, max_size=8), inner, max_size=3), max_leaves=8)  # fmt: skip
metadata = st.dictionaries(st.text(_chars, max_size=8), json_values, max_size=4)
"""Any legal metadata."""
