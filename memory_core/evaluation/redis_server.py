"""A Redis server for one measurement: on a free port of this machine, in a temporary directory, gone afterwards."""

import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from memory_core.errors import MissingExtraError, StorageUnavailableError

BINARY = "redis-server"
DURABLE = ("--appendonly", "yes", "--appendfsync", "always")
"""Every write is on the disk before it is acknowledged, as with the other stores."""
_START_WAIT_S = 20.0
_LOG = "redis.log"


@contextmanager
def temporary_redis(folder: Path) -> Generator[str]:
    """Start a server that keeps its files in `folder`, give its URL, and stop it.

    Raises:
        MissingExtraError: There is no `redis-server` on this machine.
        StorageUnavailableError: It did not start; the message ends with its log.

    """
    binary = shutil.which(BINARY)
    if binary is None:
        raise MissingExtraError(
            f"{BINARY} is not installed: install it (Debian: apt-get install redis-server), or name a server with "
            "--redis-url."
        )
    folder.mkdir(parents=True, exist_ok=True)
    port = _free_port()
    fixed = ["--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder), "--save", "", "--logfile", _LOG]
    process = subprocess.Popen(  # noqa: S603 - the binary comes from PATH, the arguments from here
        [binary, *fixed, *DURABLE], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        _wait(process, port, folder / _LOG)
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        process.terminate()
        process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait(process: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    give_up = time.monotonic() + _START_WAIT_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError as error:
            if process.poll() is not None or time.monotonic() > give_up:
                said = log.read_text(errors="replace")[-500:] if log.exists() else "it wrote no log"
                raise StorageUnavailableError(f"{BINARY} did not start: {said}") from error
            time.sleep(0.02)


def fresh_prefix() -> str:
    """Return a prefix for keys that no other run has."""
    return f"memory-core-bench-{secrets.token_hex(6)}"


@contextmanager
def _client(url: str) -> Generator[Any]:
    try:
        import redis
    except ModuleNotFoundError as error:
        raise MissingExtraError("Measuring Redis needs its client: pip install 'memory-talent[redis]'.") from error
    module: Any = redis
    client = module.Redis.from_url(url)
    try:
        yield client
    except redis.RedisError as error:
        raise StorageUnavailableError(f"The Redis server cannot be asked: {error}") from error
    finally:
        client.close()


def used_bytes(url: str) -> int:
    """Return how much memory the server's data takes.

    Raises:
        MissingExtraError: redis-py is not installed.
        StorageUnavailableError: The server does not answer.

    """
    with _client(url) as client:
        return int(client.info("memory")["used_memory"])


def drop_prefix(url: str, prefix: str) -> int:
    """Delete the keys of one run and return their number.

    Raises:
        MissingExtraError, StorageUnavailableError: As `used_bytes`.

    """
    count = 0
    with _client(url) as client:
        batch: list[bytes] = []
        for key in client.scan_iter(match=f"{prefix}*", count=5_000):
            batch.append(key)
            if len(batch) >= 1_000:
                count += client.unlink(*batch)
                batch.clear()
        if batch:
            count += client.unlink(*batch)
    return count
