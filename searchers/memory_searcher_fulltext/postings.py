"""Which entries have a term, and how often, read from the index in one step outside of Python."""

import json
import sqlite3
from collections import Counter
from collections.abc import Sequence


def quoted(term: str) -> str:
    """Return an FTS5 expression for a term as it is: a quoted string, so that nothing in it is syntax."""
    return '"' + term.replace('"', '""') + '"'


def frequency(db: sqlite3.Connection, term: str) -> tuple[int, int]:
    """Return how many entries have a term, and how often it occurs in all of them together."""
    row = db.execute("SELECT doc, cnt FROM terms WHERE term = ?", (term,)).fetchone()
    return row if row is not None else (0, 0)


def postings(db: sqlite3.Connection, term: str, *, repeated: bool) -> tuple[Sequence[int], dict[int, int]]:
    """Return the rows that have a term once, and those that have it more often, with how often.

    Args:
        db: The index.
        term: As in its vocabulary.
        repeated: Whether some entry has the term more than once; where that is known not to be so, asking is cheaper.

    """
    if not repeated:
        found = db.execute("SELECT json_group_array(rowid) FROM fts WHERE fts MATCH ?", (quoted(term),))
        return json.loads(found.fetchone()[0]), {}
    found = db.execute("SELECT json_group_array(doc) FROM instances WHERE term = ?", (term,))
    counts: Counter[int] = Counter(json.loads(found.fetchone()[0]))
    return (
        [row for row, count in counts.items() if count == 1],
        {row: count for row, count in counts.items() if count > 1},
    )
