"""The structure of ledger files: entries, units, written blocks, names of files."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memory_core.ledger.blocks import (
    as_bullet,
    block_hashes,
    clean_text,
    entries,
    format_block,
    ledger_date,
    lines_of,
    units,
)

from .texts import texts

NOW = datetime(2026, 6, 2, 12, 0, tzinfo=UTC)


facts = st.lists(texts.filter(lambda text: any(char.isalnum() for char in text)), min_size=1, max_size=5)


def test_entries_are_whole() -> None:
    text = (
        "# Memory\n\nA paragraph\nof two lines.\n\n## User\n- tea\n  with milk\n\n  and a second paragraph\n"
        "  - nested\n- Basel\n\n```\n# no heading\n\n- no bullet\n```\n1. one\n2. two\n"
    )
    found = [(entry.line, entry.heading, entry.text.split("\n")[0]) for entry in entries(text)]
    assert found == [
        (1, True, "# Memory"),
        (3, False, "A paragraph"),
        (6, True, "## User"),
        (7, False, "- tea"),
        (12, False, "- Basel"),
        (14, False, "```"),
        (19, False, "1. one"),
        (20, False, "2. two"),
    ]
    assert entries(text)[3].end == 11


def test_units_are_bullets_and_lines() -> None:
    text = (
        "# 2026-06-02\n\n## 12:00:00 +02:00 · saved\n\n- tea\n  with milk\n- a\n  - nested\n\n"
        "## People\nplain\nlines\n-\n"
    )
    assert [(unit.line, unit.text) for unit in units(text)] == [
        (5, "tea with milk"),
        (7, "a"),
        (8, "nested"),
        (10, "People"),
        (11, "plain"),
        (12, "lines"),
    ]


@given(texts)
def test_every_line_is_in_one_entry_at_most_and_text_is_never_changed(text: str) -> None:
    lines = lines_of(text)
    last = 0
    for entry in entries(text):
        assert entry.line > last
        last = entry.end
        assert entry.text == "\n".join(lines[entry.line - 1 : entry.end])
    inside = {n for entry in entries(text) for n in range(entry.line, entry.end + 1)}
    assert all(not line.strip() for n, line in enumerate(lines, 1) if n not in inside)


@given(facts)
def test_a_written_block_is_recognised_again(written: list[str]) -> None:
    block = format_block(written, NOW)
    assert block_hashes(block) <= block_hashes(f"# 2026-06-02\n\n- else\n\n{block}\n## 13:00:00 +00:00\n\n- more\n")


@example("```\nnever closed")
@example("a\n~~~\n# x")
@given(texts.filter(lambda text: bool(clean_text(text).strip())))
def test_saved_text_is_one_entry(text: str) -> None:
    bullet = as_bullet(text)
    assert len(entries(f"- before\n{bullet}\n- after")) == 3
    assert all(line == "" or line.startswith(("- ", "  ")) for line in bullet.split("\n"))


def test_headings_carry_the_offset() -> None:
    moment = NOW.astimezone(timezone(-timedelta(hours=3, minutes=30)))
    assert format_block(["a"], moment).startswith("## 08:30:00 -03:30\n\n- a\n")


@pytest.mark.parametrize(
    ("name", "is_ledger"),
    [
        ("2026-06-02.md", True),
        ("2026-02-30.md", False),
        ("2026-6-2.md", False),
        ("notes.md", False),
        ("2026-06-02.md~", False),
    ],
)
def test_names_of_ledgers(name: str, is_ledger: bool) -> None:
    assert (ledger_date(name) is not None) == is_ledger
