"""LangGraph's `BaseStore` over a solution: long-term memory of a graph in any of our stores (extra `langchain`)."""

import asyncio
import math
from collections.abc import Iterable, Iterator
from datetime import timedelta
from threading import Lock, RLock
from typing import Any
from weakref import WeakKeyDictionary

from memory_core.adapters.langgraph_items import FIELD, item_text, matches, memory_key, passes, plain
from memory_core.clock import SystemClock
from memory_core.contracts import Clock, MemorySolution
from memory_core.errors import InvalidEntryError, MissingExtraError
from memory_core.model import HOT_IMPORTANCE, SHARED_USER_ID, MemoryEntry
from memory_core.policy import FOREVER

try:
    from langgraph.store.base import (
        BaseStore,
        GetOp,
        Item,
        ListNamespacesOp,
        Op,
        PutOp,
        Result,
        SearchItem,
        SearchOp,
        TTLConfig,
    )
except ModuleNotFoundError as error:
    raise MissingExtraError(
        f"The LangGraph store needs the package {error.name!r}: pip install 'memory-talent[langchain]'."
    ) from error

SOURCE = "langgraph"
_FIRST_PAGE = 64
_WORTH = 0.01  # of a lifetime: what less has passed of, is not refreshed, so that reading often does not write often
_WRITING: WeakKeyDictionary[MemorySolution, RLock] = WeakKeyDictionary()  # whoever writes items of a solution takes it
_NEW_LOCK = Lock()
_FOREVER_MINUTES = 1_000 * 366 * 24 * 60
"""What lives for more than a thousand years lives for ever."""


class SolutionStore(BaseStore):
    """Items of a graph as memories of one user in one scope. Safe for threads, tasks and several processes.

    One thing is not: a read that refreshes a TTL writes, and may then undo what another process just wrote to the same
    item. Where several processes share items with TTLs, `refresh_on_read` should be False.

    An item is a memory whose key is its namespace and key joined by `/`, and whose content is the text of its indexed
    fields, so that people and every other tool see it too; other memories are no items. In a batch all reads see the
    state before its writes, and the last write to an item wins, as in LangGraph's own stores. A search with a query
    returns what the searcher finds, best first; without one the newest first. TTLs are minutes; without one an item
    is kept for ever.

    Args:
        solution: Where the items are.
        user_id: Whose they are; a namespace does not change that.
        scope: Where they are; by default the solution's default scope.
        fields: Paths of a value's fields that are searched; None means every text in it.
        ttl: LangGraph's settings for lifetimes (`default_ttl`, `refresh_on_read`).
        clock: Where the time comes from; by default the system.
    """

    supports_ttl = True

    def __init__(
        self,
        solution: MemorySolution,
        *,
        user_id: str = SHARED_USER_ID,
        scope: str | None = None,
        fields: list[str] | None = None,
        ttl: TTLConfig | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._solution = solution
        self._user_id = user_id
        self._scope = scope or solution.default_scope
        self._fields = fields
        self._clock = clock or SystemClock()
        self.ttl_config = ttl
        with _NEW_LOCK:
            self._writing = _WRITING.setdefault(solution, RLock())

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Run operations and return their results in order.

        Raises:
            InvalidKeyError: Namespace and key together are too long to be stored.
            InvalidEntryError: A value is not plain JSON, or a TTL is not positive. Writes before it in the batch stand.
            StorageUnavailableError: The store could not be read or written.
            ValueError: An operation or a filter is unknown.
        """
        results: list[Result] = []
        puts: dict[str, PutOp] = {}
        for op in ops:
            result: Result = None
            match op:
                case GetOp():
                    result = self._get(op)
                case SearchOp():
                    result = self._search(op)
                case ListNamespacesOp():
                    result = self._namespaces(op)
                case PutOp():
                    puts[memory_key(op.namespace, op.key)] = op
                case _:
                    raise ValueError(f"Unknown operation: {type(op).__name__}.")
            results.append(result)
        for key, op in puts.items():
            with self._writing:
                self._put(key, op)
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Run operations in a thread; raises as `batch`."""
        return await asyncio.to_thread(self.batch, list(ops))

    # --- operations ------------------------------------------------------------------------------------------------

    def _get(self, op: GetOp) -> Item | None:
        key = memory_key(op.namespace, op.key)
        entry = self._solution.recall(key, user_id=self._user_id, scope=self._scope)
        if entry is None or FIELD not in entry.metadata:
            return None
        self._refresh([entry], wanted=op.refresh_ttl)
        return Item(**_fields(entry))

    def _put(self, key: str, op: PutOp) -> None:
        if op.value is None:
            self._solution.forget(key, user_id=self._user_id, scope=self._scope)
            return
        value = plain(op.value)
        fields = list(op.index) if op.index else self._fields
        item: dict[str, Any] = {
            "namespace": list(op.namespace),
            "key": op.key,
            "value": value,
            "ttl_s": _seconds(op.ttl),
            "indexed": op.index is None or bool(op.index),
        }
        self._solution.remember(
            key,
            item_text(op.key, value, fields),
            HOT_IMPORTANCE,
            user_id=self._user_id,
            scope=self._scope,
            source=SOURCE,
            metadata={FIELD: item},
            ttl_s=FOREVER if item["ttl_s"] is None else item["ttl_s"],
        )

    def _search(self, op: SearchOp) -> list[SearchItem]:
        end = op.offset + op.limit
        if op.query and op.query.strip():
            found = self._found(op, end)
        else:
            entries = [entry for entry in self._entries() if self._wanted(entry, op)]
            entries.sort(key=lambda entry: (-entry.updated_at.timestamp(), entry.id.key))
            found = [(entry, None) for entry in entries]
        page = found[op.offset : end]
        self._refresh([entry for entry, _ in page], wanted=op.refresh_ttl)
        return [SearchItem(**_fields(entry), score=score) for entry, score in page]

    def _found(self, op: SearchOp, end: int) -> list[tuple[MemoryEntry, float | None]]:
        """Ask for more hits until enough of them pass the filter or there are no more."""
        count = max(_FIRST_PAGE, end)
        while True:
            hits = self._solution.search(op.query or "", user_id=self._user_id, top_k=count, scopes=(self._scope,))
            found: list[tuple[MemoryEntry, float | None]] = [
                (hit.entry, hit.score) for hit in hits if self._wanted(hit.entry, op, searched=True)
            ]
            if len(found) >= end or len(hits) < count:
                return found
            count *= 4

    def _namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        conditions = op.match_conditions or ()
        found = {
            namespace[: op.max_depth]
            for namespace in map(_namespace, self._entries())
            if all(matches(namespace, one.match_type, one.path) for one in conditions)
        }
        return sorted(found)[op.offset : op.offset + op.limit]

    # --- parts -----------------------------------------------------------------------------------------------------

    def _entries(self) -> Iterator[MemoryEntry]:
        limit = max(1, self._solution.count(user_id=self._user_id))
        found = self._solution.list_all(user_id=self._user_id, limit=limit, scopes=(self._scope,))
        return (entry for entry in found if FIELD in entry.metadata)

    def _wanted(self, entry: MemoryEntry, op: SearchOp, *, searched: bool = False) -> bool:
        item: Any = entry.metadata.get(FIELD)
        return (
            item is not None
            and (not searched or item["indexed"])
            and _namespace(entry)[: len(op.namespace_prefix)] == tuple(op.namespace_prefix)
            and passes(item["value"], op.filter)
        )

    def _refresh(self, entries: Iterable[MemoryEntry], *, wanted: bool) -> None:
        """Let those of the entries that have a TTL live that long from now, unless they were written meanwhile."""
        if not wanted:
            return
        for entry in entries:
            item: Any = entry.metadata[FIELD]
            if item["ttl_s"] is None or entry.expires_at is None:
                continue
            lifetime = timedelta(seconds=item["ttl_s"])
            until = self._clock.now() + lifetime
            if until - entry.expires_at < _WORTH * lifetime:
                continue
            with self._writing:
                if self._solution.recall(entry.id.key, user_id=self._user_id, scope=self._scope) == entry:
                    self._solution.store(entry.model_copy(update={"expires_at": until}))


def _seconds(minutes: float | None) -> int | None:
    if minutes is None or minutes > _FOREVER_MINUTES:
        return None
    if not minutes > 0:  # NaN too
        raise InvalidEntryError(f"A TTL of {minutes} minutes is not possible: give a positive number, or None.")
    return max(1, math.ceil(minutes * 60))


def _namespace(entry: MemoryEntry) -> tuple[str, ...]:
    item: Any = entry.metadata[FIELD]
    return tuple(item["namespace"])


def _fields(entry: MemoryEntry) -> dict[str, Any]:
    item: Any = entry.metadata[FIELD]
    return {
        "value": plain(item["value"]),
        "key": item["key"],
        "namespace": _namespace(entry),
        "created_at": entry.created_at,
        "updated_at": entry.updated_at,
    }
