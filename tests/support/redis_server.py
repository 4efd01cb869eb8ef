"""Real Redis servers for tests: on free ports of this machine, with a temporary directory, never on a network."""

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import redis

_START_WAIT_S = 20.0
_CLUSTER_BUS_OFFSET = 10_000


def redis_binary() -> str:
    """Return the path of `redis-server`; without it, skip loudly, and fail where CI promises it."""
    found = shutil.which("redis-server")
    if found is not None:
        return found
    message = "redis-server is not installed: nothing about Redis is tested (Debian: apt-get install redis-server)"
    if os.environ.get("CI"):
        pytest.fail(message)
    pytest.skip(message)


def free_port(*, cluster: bool = False) -> int:
    """Return a port that is free now; for a cluster node, one whose bus port is free too."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = int(probe.getsockname()[1])
        if not cluster:
            return port
        if port + _CLUSTER_BUS_OFFSET > 65_535:
            port -= 2 * _CLUSTER_BUS_OFFSET
        try:
            for candidate in (port, port + _CLUSTER_BUS_OFFSET):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", candidate))
        except OSError:
            continue
        return port


class RedisServer:
    """One `redis-server` process. `stop` and `start` again keep port and data; `kill` gives it no time to save."""

    def __init__(self, folder: Path, settings: Sequence[str] = (), *, cluster: bool = False, tls: bool = False) -> None:
        self.folder = folder
        self.port = free_port(cluster=cluster)
        self._settings = list(settings)
        if cluster:
            self._settings += ["--cluster-enabled", "yes", "--cluster-node-timeout", "5000"]
        self._tls = tls
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis{'s' if self._tls else ''}://127.0.0.1:{self.port}/0"

    def start(self) -> "RedisServer":
        self.folder.mkdir(parents=True, exist_ok=True)
        port = ["--port", "0", "--tls-port", str(self.port)] if self._tls else ["--port", str(self.port)]
        fixed = ["--bind", "127.0.0.1", "--dir", str(self.folder), "--save", "", "--logfile", "redis.log"]
        self._process = subprocess.Popen(
            [redis_binary(), *port, *fixed, *self._settings], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self._wait_until_it_listens()
        return self

    def _wait_until_it_listens(self) -> None:
        give_up = time.monotonic() + _START_WAIT_S
        while True:
            assert self._process is not None
            if self._process.poll() is not None or time.monotonic() > give_up:
                raise RuntimeError(f"redis-server did not start: {(self.folder / 'redis.log').read_text()[-2_000:]}")
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=1):
                    return
            except OSError:
                time.sleep(0.02)

    def client(self) -> Any:  # redis-py types every answer as one that may have to be awaited
        """Return a plain client of its own, for looking at what is really there."""
        return redis.Redis(port=self.port, protocol=2)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(how)
            process.wait(timeout=20)


def start_cluster(folder: Path, size: int = 3) -> list[RedisServer]:
    """Start a cluster of primaries that share the slots evenly."""
    nodes = [RedisServer(folder / f"node{place}", cluster=True).start() for place in range(size)]
    clients = [node.client() for node in nodes]
    try:
        for place, client in enumerate(clients):
            first, last = place * 16_384 // size, (place + 1) * 16_384 // size - 1
            client.execute_command("CLUSTER", "ADDSLOTSRANGE", first, last)
            client.execute_command("CLUSTER", "SET-CONFIG-EPOCH", place + 1)
            clients[0].execute_command("CLUSTER", "MEET", "127.0.0.1", nodes[place].port)
        give_up = time.monotonic() + 30
        while not all(_ready(client, size) for client in clients):
            if time.monotonic() > give_up:
                raise RuntimeError("the Redis cluster did not come together")
            time.sleep(0.1)
    finally:
        for client in clients:
            client.close()
    return nodes


def _ready(client: Any, size: int) -> bool:
    info = client.cluster("INFO")
    return bool(info["cluster_state"] == "ok" and int(info["cluster_known_nodes"]) == size)
