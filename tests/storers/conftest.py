"""A real Redis server for the tests of stores: one for all, emptied before each test, or one of a test's own."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from memory_storer_kv import FILE_NAME
from memory_storer_kv.storer import KvStorer
from memory_storer_redis.server import Server
from memory_storer_redis.storer import RedisStorer
from tests.support.redis_server import RedisServer, start_cluster
from tests.support.stores import REDIS_SCOPES, redis_options

pytest.register_assert_rewrite("tests.support.crashes")


@pytest.fixture(scope="module")
def running_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path_factory.mktemp("redis")).start()
    yield server
    server.kill()


@pytest.fixture
def redis_server(running_redis: RedisServer) -> RedisServer:
    """An empty server."""
    with running_redis.client() as client:
        client.flushall()
        client.config_resetstat()
    return running_redis


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[Callable[..., RedisServer]]:
    """Starts a server with the given settings, for tests that hurt it."""
    started: list[RedisServer] = []

    def start(*settings: str, **how: Any) -> RedisServer:
        started.append(RedisServer(tmp_path / f"redis{len(started)}", settings, **how).start())
        return started[-1]

    yield start
    for server in started:
        server.kill()


@pytest.fixture
def make_redis(redis_server: RedisServer) -> Iterator[Callable[..., RedisStorer]]:
    """Builds a storer on the empty server, or on another URL."""
    made: list[RedisStorer] = []

    def build(
        url: str | None = None, *, scopes: dict[str, str] | None = None, clock: Any = None, prefix: str = "memory-core",
        tombstones: int = 10_000, **options: Any,
    ) -> RedisStorer:  # fmt: skip
        connection = Server(redis_options(url or redis_server.url, **options))
        made.append(RedisStorer(connection, scopes or REDIS_SCOPES, prefix=prefix, clock=clock, tombstones=tombstones))
        return made[-1]

    yield build
    for storer in made:
        storer.close()


@pytest.fixture(scope="module")
def redis_nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[RedisServer]]:
    """A cluster of three primaries."""
    nodes = start_cluster(tmp_path_factory.mktemp("cluster"))
    yield nodes
    for node in nodes:
        node.kill()


@pytest.fixture
def make_kv(tmp_path: Path) -> Iterator[Callable[..., KvStorer]]:
    """Builds a storer over the same two folders each time."""
    made: list[KvStorer] = []

    def build(**options: Any) -> KvStorer:
        scopes = {"user": tmp_path / "user", "workspace": tmp_path / "workspace"}
        made.append(KvStorer(scopes, **options))
        return made[-1]

    yield build
    for storer in made:
        storer.close()


@pytest.fixture
def kv_file(tmp_path: Path) -> Path:
    """The file of the scope `workspace`."""
    return tmp_path / "workspace" / FILE_NAME
