"""What a row of the table is, and how filters are said without a word of SQL.

One row per entry. A user's cursor is a row too, so that entries and cursor are written in one commit; its `user` is
blank, which no entry's is. Rows are identified by `uid`, a hash of scope, user and key: no text of anybody's becomes
part of an id.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from importlib import import_module
from typing import Any, TypeAlias

import numpy as np

from memory_core.model import MemoryEntry, MemoryId
from memory_core.serial import from_json, to_json
from memory_core.vectors import Vectors

pa: Any = import_module("pyarrow")  # without type stubs every expression with it would be an error
ArrowTable: TypeAlias = Any
ArrowSchema: TypeAlias = Any

FORMAT = 1
METADATA_KEY = b"memory_core"
NEVER = 2**63 - 1
LISTED = ("uid", "scope", "key", "importance", "updated")
LISTING_ORDER = [
    ("importance", "descending"),
    ("updated", "descending"),
    ("key", "ascending"),
    ("scope", "ascending"),
]
"""The contract's order of listings, for Arrow."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Row:
    """An entry and its vector; None when the text had nothing to embed."""

    entry: MemoryEntry
    vector: Vectors | None


def uid_of(id: MemoryId) -> str:
    """Return the row id of an entry: 32 hexadecimal digits. Names hold no NUL, so the joined text is unambiguous."""
    return _digest(f"e\0{id.scope}\0{id.user_id}\0{id.key}")


def cursor_uid(user_id: str) -> str:
    """Return the row id of a user's cursor."""
    return _digest(f"c\0{user_id}")


def _digest(text: str) -> str:
    return blake2b(text.encode(), digest_size=16).hexdigest()


def micros(moment: datetime) -> int:
    """Return a moment as whole microseconds since 1970."""
    return (moment - _EPOCH) // _MICROSECOND


def schema(model_id: str, dim: int) -> ArrowSchema:
    """Return the table's schema; its metadata names format, model and dimension."""
    fields = [
        pa.field("uid", pa.string()),
        pa.field("user", pa.string()),
        pa.field("scope", pa.string()),
        pa.field("key", pa.string()),
        pa.field("importance", pa.int32()),
        pa.field("updated", pa.int64()),
        pa.field("expires", pa.int64()),
        pa.field("entry", pa.string()),
        pa.field("vector", pa.list_(pa.float32(), dim)),
    ]
    about = json.dumps({"format": FORMAT, "model": model_id, "dim": dim})
    return pa.schema(fields, metadata={METADATA_KEY: about.encode()})


def about(schema: ArrowSchema) -> dict[str, Any]:
    """Return what `schema` wrote into the metadata; empty when it is not a table of ours."""
    try:
        metadata: dict[bytes, bytes] = schema.metadata or {}
        found: dict[str, Any] = json.loads(metadata.get(METADATA_KEY, b"{}"))
    except ValueError:
        return {}
    return found


def to_arrow(rows: Iterable[Row], cursors: Iterable[tuple[str, str]], schema: ArrowSchema) -> ArrowTable:
    """Return rows and (user, cursor) pairs as a table to be written."""
    records = [
        {
            "uid": uid_of(row.entry.id),
            "user": row.entry.id.user_id,
            "scope": row.entry.id.scope,
            "key": row.entry.id.key,
            "importance": row.entry.importance,
            "updated": micros(row.entry.updated_at),
            "expires": micros(row.entry.expires_at) if row.entry.expires_at is not None else NEVER,
            "entry": to_json(row.entry),
            "vector": row.vector,
        }
        for row in rows
    ]
    records += [
        {"uid": cursor_uid(user), "user": "", "scope": "", "key": "", "importance": 0, "updated": 0, "expires": 0,
         "entry": cursor, "vector": None}
        for user, cursor in cursors
    ]  # fmt: skip
    return pa.Table.from_pylist(records, schema=schema)


def entry_of(text: str) -> MemoryEntry:
    """Return the entry of a row.

    Raises:
        CorruptEntryError: The row was not written by us.
    """
    return from_json(text)


def owned(
    user_id: str,
    *,
    now: datetime | None = None,
    scopes: Sequence[str] | None = None,
    min_importance: int | None = None,
) -> Any:
    """Return the filter for one user's entries as an expression; values are literals in a tree, never SQL text."""
    from lancedb.expr import col, lit

    condition = col("user") == lit(user_id)
    if now is not None:
        condition = condition & (col("expires") > lit(micros(now)))
    if scopes is not None:
        condition = condition & col("scope").isin([lit(scope) for scope in scopes])
    if min_importance is not None:
        condition = condition & (col("importance") >= lit(min_importance))
    return condition


def among(uids: Iterable[str]) -> Any:
    """Return the filter for rows with one of these ids."""
    from lancedb.expr import col, lit

    return col("uid").isin([lit(uid) for uid in uids])


def sampled(user_id: str, share: float) -> Any:
    """Return the filter for a random sample of one user's entries: ids are hashes, so a range of them is one."""
    from lancedb.expr import col, lit

    below = f"{min(int(share * 16**8), 16**8 - 1):08x}"
    condition = col("user") == lit(user_id)
    return condition if share >= 1 else condition & (col("uid") < lit(below))


def vectors_of(table: ArrowTable) -> tuple[list[str], Vectors]:
    """Return ids and vectors of a result with the columns `uid` and `vector`; rows without a vector are left out."""
    nothing = np.empty((0, 0), np.float32)
    if table is None or not len(table):
        return [], nothing
    table = table.filter(table["vector"].is_valid())
    if not len(table):
        return [], nothing
    column = table["vector"].combine_chunks()
    vectors: Vectors = column.flatten().to_numpy(zero_copy_only=False).reshape(len(table), -1)
    return table["uid"].to_pylist(), vectors
