"""Runs the plugins' hooks and the configured filters around writes and searches."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, cast

from pydantic import ValidationError

from memory_core.errors import PluginError, VetoedError
from memory_core.model import MemoryEntry, SearchHit, SearchQuery, first_reason

if TYPE_CHECKING:
    from memory_core.plugins.registry import PluginRegistry

log = logging.getLogger(__name__)

EntryFilter = Callable[[MemoryEntry], MemoryEntry | None]


class Hooks:
    """The hooks that a solution calls; the implementations are looked up once."""

    def __init__(
        self, registry: "PluginRegistry | None" = None, filters: Sequence[tuple[str, EntryFilter]] = ()
    ) -> None:
        def found(name: str) -> list[tuple[str, Callable[..., object]]]:
            return list(registry.hooks(name)) if registry is not None else []

        self._before = found("before_store")
        self._after = found("after_search")
        self._ttl = found("compute_ttl")
        self._filters = list(filters)

    def before_store(self, entry: MemoryEntry) -> MemoryEntry:
        """Return the entry as every hook and filter left it.

        Raises:
            VetoedError: One of them refused it.
            PluginError: One of them failed, changed the id, or left what cannot be stored.
        """
        for name, hook in self._before:
            entry = self._passed(name, entry, partial(_ask, hook))
        for name, entry_filter in self._filters:
            entry = self._passed(name, entry, entry_filter)
        return entry

    @staticmethod
    def _passed(name: str, entry: MemoryEntry, hook: Callable[[MemoryEntry], object]) -> MemoryEntry:
        try:
            result = hook(entry)
        except VetoedError:
            raise
        except Exception as error:
            raise PluginError(f"The plugin {name!r} failed while checking a memory: {error}") from error
        if result is None:
            raise VetoedError(f"The plugin {name!r} refused to store {entry.id.key!r}.")
        if not isinstance(result, MemoryEntry) or getattr(result, "id", None) != entry.id:
            raise PluginError(f"The plugin {name!r} must return the entry under the same id, or None to refuse it.")
        return _checked(name, result)

    def after_search(self, query: SearchQuery, hits: list[SearchHit]) -> list[SearchHit]:
        """Return the hits as every hook left them; a hook that fails changes nothing and is logged.

        A hook may drop and reorder hits and change scores; hits that the query does not admit are dropped, and scores
        outside 0..1 are brought to the nearer end (NaN to 0).
        """
        for name, hook in self._after:
            try:
                result = hook(query=query, hits=list(hits))
                if not isinstance(result, list):
                    raise TypeError(f"it returned {type(result).__name__}, not a list")
                found = cast("list[SearchHit]", result)
                hits = [_in_range(hit) for hit in found if query.admits(hit.entry)]
            except Exception as error:  # noqa: BLE001 - a plugin may raise anything; the search still answers
                log.warning("The plugin %r failed after a search: %s", name, error)
        return hits

    def compute_ttl(self, importance: int) -> int | None:
        """Return the first plugin's answer, or None when the table decides.

        Raises:
            PluginError: A plugin failed or gave something other than a whole number.
        """
        for name, hook in self._ttl:
            try:
                ttl_s = hook(importance=importance)
            except Exception as error:
                raise PluginError(f"The plugin {name!r} failed while computing a TTL: {error}") from error
            if ttl_s is not None:
                if isinstance(ttl_s, bool) or not isinstance(ttl_s, int):
                    raise PluginError(f"The plugin {name!r} gave the TTL {ttl_s!r}; it must be a number of seconds.")
                return ttl_s
        return None


def _checked(name: str, entry: MemoryEntry) -> MemoryEntry:
    """Return the entry with every field checked: copies of a model are not, and metadata can be changed in place."""
    try:
        return MemoryEntry(**{field: getattr(entry, field) for field in MemoryEntry.model_fields})
    except (ValidationError, AttributeError) as error:
        reason = first_reason(error) if isinstance(error, ValidationError) else str(error)
        raise PluginError(f"The plugin {name!r} left a memory that cannot be stored: {reason}.") from error


def _ask(hook: Callable[..., object], entry: MemoryEntry) -> object:
    return hook(entry=entry)


def _in_range(hit: SearchHit) -> SearchHit:
    if 0.0 <= hit.score <= 1.0:
        return hit
    return replace(hit, score=1.0 if hit.score > 1.0 else 0.0)
