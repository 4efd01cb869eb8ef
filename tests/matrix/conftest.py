"""One Redis server for all pairs, emptied between tests; every other pair is a temporary directory."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from memory_core.testing import FakeClock
from tests.support.redis_server import RedisServer

from .pairs import CROSS, PAIRS, Pair


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path_factory.mktemp("redis"), ["--appendonly", "yes", "--appendfsync", "always"]).start()
    yield server
    server.stop()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give `pair` every pair, and long tests a cross through them unless SOAK=1."""
    if "pair" in metafunc.fixturenames:
        short = metafunc.definition.get_closest_marker("soak") is not None and not os.environ.get("SOAK")
        chosen = CROSS if short else PAIRS
        metafunc.parametrize("pair", chosen, indirect=True, ids="-".join)


@pytest.fixture
def pair(request: pytest.FixtureRequest, tmp_path: Path, clock: FakeClock) -> Iterator[Pair]:
    storer, searcher = request.param
    url: str | None = None
    if storer == "redis":
        server: RedisServer = request.getfixturevalue("redis_server")
        with server.client() as client:
            client.flushall()
        url = server.url
    work = tmp_path / "work"
    work.mkdir()
    pair = Pair(storer, searcher, work, tmp_path / "home", clock, url)
    yield pair
    pair.close()
