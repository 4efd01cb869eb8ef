"""Redis servers that restart, die, fill up, refuse or may lose memories, and many who use one at once."""

import asyncio
import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memory_core.errors import StorageUnavailableError
from memory_storer_redis.server import shared_server
from memory_storer_redis.storer import RedisStorer
from tests.support.crashes import SOAK, CrashContract, acknowledged_before, assert_whole, start_writer
from tests.support.redis_server import RedisServer
from tests.support.stores import REDIS_SCOPES, entry, redis_options

# Python 3.12 warns of every fork beside threads; here it is what is tested.
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
Make = Callable[..., RedisStorer]


# --- many at once, and sudden ends ---------------------------------------------------------------------------------


class TestRedisCrashes(CrashContract):
    kind = "redis"

    @pytest.fixture
    def target(self, redis_server: RedisServer) -> str:
        return redis_server.url

    @pytest.fixture
    def reopen(self, make_redis: Make) -> Make:
        return make_redis


@pytest.mark.parametrize("batch", [1, 150])
def test_kill_9_of_the_server_loses_nothing_that_was_acknowledged(
    make_redis: Make, own_redis: Callable[..., RedisServer], batch: int
) -> None:
    server = own_redis("--appendonly", "yes", "--appendfsync", "always")
    acknowledged: set[str] = set()
    for place in range(25 if SOAK else 4):
        writer = start_writer("redis", server.url, f"w{place}", 100_000, batch)
        acknowledged |= acknowledged_before(writer, server.kill, 1 + place * 13 % 40)
        server.start()
    storer = make_redis(server.url)
    assert len(acknowledged) > 10
    assert_whole(storer, acknowledged)
    assert [problem.code for problem in storer.problems()] == []


def test_a_restart_between_two_calls_costs_a_delay_not_an_error(
    make_redis: Make, own_redis: Callable[..., RedisServer]
) -> None:
    server = own_redis("--appendonly", "yes")
    storer = make_redis(server.url)
    storer.put(entry("a"))
    server.stop()
    server.start()
    storer.put(entry("b"))
    server.stop()
    starter = threading.Timer(0.7, server.start)
    starter.start()
    assert {found.id.key for found in storer.scan()} == {"a", "b"}
    starter.join()


def test_a_removal_whose_answer_is_lost_is_still_reported(make_redis: Make, redis_server: RedisServer) -> None:
    """The connection breaks after the server has acted and before the client has heard of it."""
    storer = make_redis()
    storer.put_many([entry("a"), entry("b")])
    assert storer.remove(entry("b").id)  # from now on the server knows the script
    with socket.create_server(("127.0.0.1", 0)) as listener:
        cut = threading.Thread(target=forward_and_cut, args=(listener, redis_server.port), daemon=True)
        cut.start()
        through = make_redis(f"redis://127.0.0.1:{listener.getsockname()[1]}/0", timeout_s=2)
        assert through.remove(entry("a").id)
        through.close()
        cut.join(timeout=20)
    assert storer.get(entry("a").id) is None
    assert not storer.remove(entry("a").id)


def forward_and_cut(listener: socket.socket, port: int) -> None:
    """Pass bytes on to a Redis server; swallow the answer to the first script and close, then serve one more client."""
    for swallow in (True, False):
        client, _ = listener.accept()
        with client, socket.create_connection(("127.0.0.1", port)) as server:
            while request := client.recv(65_536):
                server.sendall(request)
                answer = server.recv(65_536)
                if swallow and b"EVAL" in request:
                    break
                client.sendall(answer)


def test_a_server_that_stays_away_is_an_error_that_says_so(
    make_redis: Make, own_redis: Callable[..., RedisServer]
) -> None:
    server = own_redis()
    storer = make_redis(server.url, retries=1)
    storer.put(entry("a"))
    server.kill()
    for call in (
        lambda: storer.put(entry("b")),
        lambda: storer.put_many([entry("b")]),
        lambda: storer.get(entry("a").id),
        lambda: storer.remove(entry("a").id),
        lambda: list(storer.scan()),
        storer.users,
        lambda: storer.changes(None, "shared"),
        lambda: storer.purge_expired(datetime.now(UTC)),
    ):
        with pytest.raises(StorageUnavailableError, match=rf"127\.0\.0\.1:{server.port}/0 cannot be reached"):
            call()
    assert [problem.code for problem in storer.problems()] == ["redis-unavailable"]


def test_a_small_pool_serves_a_crowd(make_redis: Make, redis_server: RedisServer) -> None:
    """500 calls at once over 4 connections: they wait in line, none fails."""
    storer = make_redis(pool_size=4)
    storer.put(entry("a"))

    async def crowd() -> list[object]:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(64))
        return list(await asyncio.gather(*(asyncio.to_thread(storer.get, entry("a").id) for _ in range(500))))

    assert asyncio.run(crowd()) == [entry("a")] * 500
    with redis_server.client() as client:
        assert len(client.client_list()) <= 4 + 1


def test_a_pool_that_stays_busy_is_named(make_redis: Make, redis_server: RedisServer) -> None:
    storer = make_redis(pool_size=1, pool_timeout_s=0.1, retries=0)
    storer.put(entry("a"))
    with redis_server.client() as client:
        client.client_pause(600)
        thread = threading.Thread(target=storer.get, args=(entry("a").id,))
        thread.start()
        time.sleep(0.1)
        with pytest.raises(StorageUnavailableError, match="raise `pool_size`"):
            storer.get(entry("a").id)
        thread.join()


def test_a_fork_goes_on_with_connections_of_its_own(make_redis: Make) -> None:
    storer = make_redis()
    storer.put(entry("before"))
    children: list[int] = []
    for place in range(3):
        child = os.fork()
        if child == 0:  # pragma: no cover - measured in the parent only
            status = 1
            try:
                for number in range(20):
                    storer.put(entry(f"child{place}-{number}"))
                status = 0
            finally:
                os._exit(status)
        children.append(child)
    for number in range(20):
        storer.put(entry(f"parent-{number}"))
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0] * 3
    assert len(list(storer.scan())) == 81


def test_solutions_of_one_process_share_the_connections(redis_server: RedisServer) -> None:
    options = redis_options(redis_server.url)
    one, other = (
        RedisStorer(shared_server(options), REDIS_SCOPES),
        RedisStorer(shared_server(options), {"workspace": "x"}),
    )
    one.put(entry("a"))
    other.put(entry("b"))
    with redis_server.client() as client:
        assert len(client.client_list()) == 2
        one.close()
        one.close()
        other.put(entry("c"))
        other.close()
        give_up = time.monotonic() + 5
        while len(client.client_list()) > 1 and time.monotonic() < give_up:
            time.sleep(0.01)
        assert len(client.client_list()) == 1
    assert shared_server(options) is not one._server
    shared_server(options).close()


# --- what the server says no to ------------------------------------------------------------------------------------


def test_passwords_are_asked_for_and_never_shown(make_redis: Make, own_redis: Callable[..., RedisServer]) -> None:
    server = own_redis("--requirepass", "s3cret-word")
    address = server.url.removeprefix("redis://")
    wrong = make_redis(f"redis://:wr0ng-word@{address}", retries=0)
    with pytest.raises(StorageUnavailableError, match="check `username` and `password`") as caught:
        wrong.put(entry("a"))
    assert "wr0ng-word" not in str(caught.value)
    for storer in (
        make_redis(f"redis://:s3cret-word@{address}"),
        make_redis(server.url, password="s3cret-word"),
        make_redis(f"redis://default:wr0ng-word@{address}", password="s3cret-word"),
    ):
        storer.put(entry("a"))
        assert storer.get(entry("a").id) == entry("a")
    options = redis_options(f"redis://:s3cret-word@{address}", password="s3cret-word")
    assert "s3cret-word" not in repr(options) + str(options) + options.model_dump_json()


def test_a_full_server_refuses_and_keeps_what_was_there(
    make_redis: Make, own_redis: Callable[..., RedisServer]
) -> None:
    server = own_redis("--maxmemory", "3mb")
    storer = make_redis(server.url)
    storer.put(entry("a", "as it was"))

    def fill() -> None:
        for number in range(100):
            storer.put(entry(f"k{number}", "x" * 100_000))

    with pytest.raises(StorageUnavailableError, match="is full"):
        fill()
    with pytest.raises(StorageUnavailableError, match="is full"):
        storer.put(entry("a", "y" * 100_000))
    assert storer.get(entry("a").id) == entry("a", "as it was")


def test_a_replica_is_named(make_redis: Make, own_redis: Callable[..., RedisServer]) -> None:
    server = own_redis()
    with server.client() as client:
        client.replicaof("127.0.0.1", 1)
    with pytest.raises(StorageUnavailableError, match="address of the primary"):
        make_redis(server.url, retries=0).put(entry("a"))


def test_a_url_that_is_no_redis_server(make_redis: Make) -> None:
    with pytest.raises(StorageUnavailableError, match=r"127\.0\.0\.1:1/0 cannot be reached"):
        make_redis("redis://127.0.0.1:1/0", retries=0).put(entry("a"))


def test_tls(make_redis: Make, own_redis: Callable[..., RedisServer], tmp_path: Path) -> None:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed: TLS is not tested")
    certificate, key = tmp_path / "server.pem", tmp_path / "server.key"
    request = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*request, *names], check=True, capture_output=True)
    files = ["--tls-cert-file", str(certificate), "--tls-key-file", str(key), "--tls-ca-cert-file", str(certificate)]
    server = own_redis(*files, "--tls-auth-clients", "no", tls=True)
    storer = make_redis(server.url, tls_ca_file=str(certificate))
    storer.put(entry("a"))
    assert storer.get(entry("a").id) == entry("a")
    with pytest.raises(StorageUnavailableError, match=r"(?i)certificate"):
        make_redis(server.url, retries=0).put(entry("b"))
    make_redis(server.url, tls_verify=False).put(entry("c"))


def test_a_unix_socket(make_redis: Make, own_redis: Callable[..., RedisServer], tmp_path: Path) -> None:
    own_redis("--unixsocket", str(tmp_path / "redis.sock"))
    storer = make_redis(f"unix://{tmp_path}/redis.sock")
    storer.put(entry("a"))
    assert storer.get(entry("a").id) == entry("a")


# --- doctor --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "codes"),
    [
        ((), ["redis-not-persistent"]),
        (("--save", "900 1"), ["redis-snapshots-only"]),
        (("--appendonly", "yes"), []),
        (("--appendonly", "yes", "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"), ["redis-evicts"]),
        (("--appendonly", "yes", "--rename-command", "CONFIG", ""), []),
        (("--rename-command", "CONFIG", ""), ["redis-snapshots-only"]),
    ],
)
def test_doctor_warns_of_servers_that_drop_or_lose(
    make_redis: Make, own_redis: Callable[..., RedisServer], settings: tuple[str, ...], codes: list[str]
) -> None:
    found = make_redis(own_redis(*settings).url).problems()
    assert [problem.code for problem in found] == codes
    assert all(problem.advice and problem.where for problem in found)
