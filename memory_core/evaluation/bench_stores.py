"""Which stores a measurement can use here: names checked, a Redis server found or started, what lacks said."""

import os
import shutil
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from memory_core.errors import MissingExtraError
from memory_core.evaluation.bench_pair import BenchPair
from memory_core.evaluation.redis_server import drop_prefix, fresh_prefix, temporary_redis, used_bytes
from memory_core.plugins.registry import get_registry

STORERS = ("markdown", "kv", "redis")
SEARCHERS = ("fulltext", "whoosh", "numpy", "lancedb", "hybrid")
OWN_SERVER = "a redis-server of its own (appendonly yes, appendfsync always)"
GIVEN_SERVER = "the given server"


def load_average() -> float | None:
    """Return how many processes wanted a processor in the last minute, None where the system does not tell."""
    try:
        return round(os.getloadavg()[0], 1)
    except (AttributeError, OSError):
        return None


def busy(load: float | None, cores: int) -> str | None:
    """Return a sentence when others keep the machine busy, so that figures say little; else None."""
    if load is None or load <= cores / 2:
        return None
    return f"The machine was busy at the start (load {load:g} on {cores} cores): repeat this when it is quiet."


@dataclass(frozen=True, slots=True)
class Ground:
    """Where pairs are measured: a folder, and the Redis server when one is used. `lacking` says what cannot be."""

    folder: Path
    embedder: str
    redis_url: str
    redis_server: str
    lacking: Mapping[str, str]

    @contextmanager
    def pair(self, storer: str, searcher: str, name: str) -> Generator[BenchPair]:
        """Give an empty pair in a folder of that name; its keys on a server are deleted afterwards."""
        prefix, root = fresh_prefix(), self.folder / name
        try:
            yield BenchPair(storer, searcher, str(root), self.embedder, self.redis_url, prefix)
        finally:
            if storer == "redis":
                drop_prefix(self.redis_url, prefix)

    def reason_against(self, storer: str, searcher: str) -> str | None:
        """Return why a pair cannot be measured here, or None.

        Raises:
            ConfigError: An option is wrong.

        """
        if storer in self.lacking:
            return self.lacking[storer]
        try:
            with self.pair(storer, searcher, f"probe-{storer}-{searcher}") as pair:
                provider = pair.open()
                try:
                    provider.get(pair.work)
                finally:
                    provider.close()
                    shutil.rmtree(pair.root, ignore_errors=True)
        except MissingExtraError as error:
            return str(error)
        return None


@contextmanager
def prepared(
    folder: Path, storers: Sequence[str], searchers: Sequence[str], embedder: str, redis_url: str | None
) -> Generator[Ground]:
    """Check the names, and start a Redis server when that store is wanted and none is given.

    Raises:
        UnknownBackendError: There is no backend of one of these names.
        StorageUnavailableError: The given Redis server does not answer.

    """
    registry = get_registry()
    for name in storers:
        registry.backend("storer", name)
    for name in searchers:
        registry.backend("searcher", name)
    registry.backend("embedder", embedder)
    lacking: dict[str, str] = {}
    url, server = redis_url or "", GIVEN_SERVER
    with ExitStack() as stack:
        if "redis" in storers:
            try:
                if redis_url is None:
                    url, server = stack.enter_context(temporary_redis(folder / "redis-server")), OWN_SERVER
                used_bytes(url)
            except MissingExtraError as error:
                lacking["redis"] = str(error)
        yield Ground(folder, embedder, url, server if "redis" in storers else "none", lacking)
