"""What is particular to the Redis storer: a real server on this machine for each test that may hurt it."""

import asyncio
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from redis.crc import key_slot

from memory_core.errors import CorruptEntryError, StorageUnavailableError, UnknownScopeError
from memory_core.model import MemoryId
from memory_storer_redis import RedisOptions
from memory_storer_redis.keys import ScopeKeys
from memory_storer_redis.server import Server, shared_server
from memory_storer_redis.storer import RedisStorer
from tests.support.redis_server import RedisServer
from tests.support.stores import Follower, StillClock, entry, kill_after, start_writer

Make = Callable[..., RedisStorer]
SCOPES = {"user": "", "workspace": "ns"}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path_factory.mktemp("redis")).start()
    yield server
    server.kill()


@pytest.fixture
def server(running: RedisServer) -> RedisServer:
    with running.client() as client:
        client.flushall()
        client.config_resetstat()
    return running


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Callable[..., RedisServer]]:
    started: list[RedisServer] = []

    def start(*settings: str, **how: Any) -> RedisServer:
        started.append(RedisServer(tmp_path / f"redis{len(started)}", settings, **how).start())
        return started[-1]

    yield start
    for server in started:
        server.kill()


@pytest.fixture
def make(server: RedisServer) -> Iterator[Make]:
    made: list[RedisStorer] = []

    def build(
        url: str | None = None, *, scopes: dict[str, str] | None = None, clock: Any = None, prefix: str = "memory-core",
        tombstones: int = 10_000, **options: Any,
    ) -> RedisStorer:  # fmt: skip
        connection = Server(RedisOptions(url=url or server.url, **options))  # type: ignore[arg-type] # pyright: ignore[reportArgumentType] - pydantic takes text
        made.append(RedisStorer(connection, scopes or SCOPES, prefix=prefix, clock=clock, tombstones=tombstones))
        return made[-1]

    yield build
    for storer in made:
        storer.close()


def keys_of(user: str, scope: str = "workspace", namespace: str = "ns") -> Any:
    return ScopeKeys("memory-core", scope, namespace).of(user)


# --- keys ----------------------------------------------------------------------------------------------------------

NASTY = ["a:b", "a", "a:b:c", "{x}", "}{", "a}", "a%3Ab", "a%", "用户", "*", "a b", "memory-core", "users", "a:log"]


def test_no_two_users_share_a_key(make: Make, server: RedisServer) -> None:
    """`("a:b", "c")` and `("a", "b:c")` must never meet, in namespace, user and key alike."""
    scopes = [make(scopes={"workspace": namespace}) for namespace in NASTY]
    for place, storer in enumerate(scopes):
        storer.put_many(entry(key, f"{place} {user} {key}", user=user) for user in NASTY for key in NASTY)
    for place, storer in enumerate(scopes):
        for user in NASTY:
            found = {item.id.key: item.content for item in storer.scan(user)}
            assert found == {key: f"{place} {user} {key}" for key in NASTY}
        assert storer.users() == sorted(NASTY)
    victim = entry(NASTY[0], user=NASTY[0]).id
    assert scopes[0].remove(victim)
    left = sum(1 for storer in scopes for _ in storer.scan())
    assert left == len(NASTY) ** 3 - 1


@pytest.mark.parametrize("user", NASTY)
def test_all_keys_of_a_user_share_a_slot(user: str) -> None:
    keys = keys_of(user)
    names = [*keys.head, *(keys.entry(key) for key in NASTY)]
    assert len({key_slot(name.encode()) for name in names}) == 1


def test_users_spread_over_the_slots() -> None:
    assert len({key_slot(keys_of(f"user{place}").log.encode()) for place in range(50)}) > 40


def test_prefixes_keep_applications_apart(make: Make) -> None:
    one, other = make(prefix="one"), make(prefix="other")
    one.put(entry("a"))
    assert list(other.scan()) == []
    assert other.users() == []


def test_an_unknown_scope_is_refused_everywhere(make: Make) -> None:
    storer, id = make(), MemoryId("workspaces", "shared", "a")
    stranger = entry("a", scope="workspaces")
    for call in (
        lambda: storer.put(stranger),
        lambda: storer.put_many([entry("b"), stranger]),
        lambda: storer.get(id),
        lambda: storer.get_many([id]),
        lambda: storer.remove(id),
        lambda: storer.scan(scope="workspaces"),
    ):
        with pytest.raises(UnknownScopeError, match="Did you mean 'workspace'"):
            call()


# --- expiry --------------------------------------------------------------------------------------------------------


def test_the_server_expires_in_real_seconds_and_leaves_no_ghost(make: Make, server: RedisServer) -> None:
    storer = make()
    soon = datetime.now(UTC) + timedelta(seconds=1.2)
    storer.put_many([entry("short", expires_at=soon), entry("long", expires_at=soon + timedelta(hours=1)), entry("ever")])
    follower = Follower(storer)
    follower.follow()
    assert follower.keys() == {"short", "long", "ever"}
    assert storer.get(entry("short").id) is not None
    time.sleep(1.3)
    with server.client() as client:
        assert client.get(keys_of("shared").entry("short")) is None
    assert storer.get(entry("short").id) is None
    assert storer.get_many([entry("short").id]) == {}
    assert {found.id.key for found in storer.scan()} == {"long", "ever"}
    assert {found.id.key for found in storer.changes(None, "shared").upserts} == {"long", "ever"}
    assert not storer.remove(entry("short").id) or pytest.fail("an expired entry was called alive")
    follower.follow()
    assert follower.keys() == {"long", "ever"}


def test_the_entry_decides_when_the_server_is_late(make: Make) -> None:
    clock = StillClock()
    storer = make(clock=clock)
    storer.put(entry("a", expires_at=clock.now() + timedelta(seconds=100)))
    clock.advance(seconds=99, microseconds=999_999)
    assert storer.get(entry("a").id) is not None
    assert storer.purge_expired(clock.now()) == 0
    clock.advance(microseconds=1)
    assert storer.get(entry("a").id) is None
    assert list(storer.scan()) == []
    assert storer.users() == []
    assert storer.purge_expired(clock.now()) == 1
    assert storer.purge_expired(clock.now()) == 0


@pytest.mark.parametrize("clock", [None, StillClock(datetime(2001, 1, 1, tzinfo=UTC)), StillClock(datetime(2200, 1, 1, tzinfo=UTC))])
def test_clocks_need_not_agree(make: Make, clock: StillClock | None) -> None:
    storer = make(clock=clock)
    now = clock.now() if clock else datetime.now(UTC)
    storer.put(entry("a", expires_at=now + timedelta(hours=1)))
    storer.put(entry("far", expires_at=datetime(9999, 12, 31, tzinfo=UTC)))
    storer.put(entry("b"))
    assert {found.id.key for found in storer.scan()} == {"a", "far", "b"}


def test_an_entry_stored_after_its_end_is_absent_and_hides_what_was_there(make: Make) -> None:
    clock = StillClock()
    storer = make(clock=clock)
    storer.put(entry("a"))
    storer.put(entry("a", expires_at=clock.now()))
    assert storer.get(entry("a").id) is None
    assert list(storer.scan()) == []
    storer.purge_expired(clock.now())
    follower = Follower(storer)
    follower.follow()
    assert follower.held == {}


def test_a_memory_that_stops_expiring_stays(make: Make, server: RedisServer) -> None:
    storer = make()
    storer.put(entry("a", expires_at=datetime.now(UTC) + timedelta(seconds=0.5)))
    storer.put(entry("a", "for ever now"))
    time.sleep(0.6)
    storer.put(entry("b"))
    assert storer.purge_expired(datetime.now(UTC)) == 0
    assert {found.id.key for found in storer.scan()} == {"a", "b"}


def test_writes_clear_away_what_the_server_expired(make: Make, server: RedisServer) -> None:
    storer = make()
    for place in range(30):
        storer.put(entry(f"short{place}", expires_at=datetime.now(UTC) + timedelta(milliseconds=20)))
        time.sleep(0.03)
    keys = keys_of("shared")
    with server.client() as client:
        assert client.zcard(keys.log) < 5
        assert client.zcard(keys.due) < 5


# --- the change feed -----------------------------------------------------------------------------------------------


def test_two_nodes_follow_each_other(make: Make) -> None:
    one, other = make(), make()
    follower = Follower(other)
    follower.follow()
    one.put(entry("a"))
    one.put(entry("b", scope="user"))
    assert follower.follow() == 2
    one.remove(entry("a").id)
    assert follower.follow() == 1
    assert (follower.keys(), follower.restarts) == ({"b"}, 1)
    cursor = follower.cursor
    one.put(entry("c", user="somebody else"))
    assert not other.changes(cursor, "shared")


def test_tombstones_are_trimmed_and_late_followers_start_over(make: Make, server: RedisServer) -> None:
    storer = make(tombstones=20)
    late, timely = Follower(storer), Follower(storer)
    storer.put_many(entry(f"k{number}") for number in range(100))
    late.follow()
    timely.follow()
    for number in range(90):
        storer.remove(entry(f"k{number}").id)
        timely.follow()
    with server.client() as client:
        assert client.zcard(keys_of("shared").gone) == 20
    late.follow()
    assert late.keys() == timely.keys() == {f"k{number}" for number in range(90, 100)}
    assert (late.restarts, timely.restarts) == (2, 1)


def test_a_server_that_lost_its_newest_writes_is_noticed(make: Make, own: Callable[..., RedisServer]) -> None:
    server = own()
    storer = make(server.url)
    follower, patient = Follower(storer), Follower(storer)
    storer.put(entry("a"))
    patient.follow()
    with server.client() as client:
        client.save()
    storer.put(entry("lost"))
    follower.follow()
    assert follower.keys() == {"a", "lost"}
    server.kill()
    server.start()
    storer.put(entry("b"))
    for someone in (follower, patient):
        someone.follow()
        assert someone.keys() == {"a", "b"}
    assert (follower.restarts, patient.restarts) == (2, 1)
    server.stop()
    server.start()
    storer.put(entry("c"))
    storer.put(entry("d"))
    patient.follow()
    assert patient.keys() == {found.id.key for found in storer.scan()}


def test_a_flushed_server_is_noticed(make: Make, server: RedisServer) -> None:
    storer = make()
    follower = Follower(storer)
    storer.put(entry("a"))
    follower.follow()
    with server.client() as client:
        client.flushall()
    follower.follow()
    assert follower.held == {}
    storer.put(entry("b"))
    follower.follow()
    assert follower.keys() == {"b"}


def test_users_without_memories_are_forgotten(make: Make, server: RedisServer) -> None:
    storer = make()
    follower = Follower(storer, "session-1")
    storer.put(entry("a", user="session-1"))
    storer.remove(entry("a", user="session-1").id)
    keys = keys_of("session-1")
    with server.client() as client:
        assert 0 < client.ttl(keys.meta) <= 90 * 86_400
        storer.put(entry("b", user="session-1"))
        assert client.ttl(keys.meta) == client.ttl(keys.gone) == -1
        follower.follow()
        storer.remove(entry("b", user="session-1").id)
        client.delete(keys.meta, keys.gone)  # as the server will, after that time
        storer.purge_expired(datetime.now(UTC))
        assert client.smembers("memory-core:users:workspace:ns") == set()
    follower.follow()
    assert follower.held == {}
    storer.put(entry("c", user="session-1"))
    follower.follow()
    assert follower.keys() == {"c"}
    assert storer.users() == ["session-1"]


@pytest.mark.parametrize("count", [0, 1, 100, 101, 1_001, 40_000])
def test_removing_all_of_one_user_leaves_the_others(make: Make, count: int) -> None:
    storer = make()
    mine = [entry(f"k{number}", user="user") for number in range(count)]
    storer.put_many([*mine, entry("other", user="user2")])
    follower = Follower(storer, "user")
    assert follower.follow() == count
    assert sum(storer.remove(found.id) for found in mine) == count
    follower.follow()
    assert follower.held == {}
    assert list(storer.scan("user")) == []
    assert [found.id.user_id for found in storer.scan()] == ["user2"]


# --- how it asks ---------------------------------------------------------------------------------------------------


def test_nothing_walks_over_all_keys(make: Make, server: RedisServer) -> None:
    storer = make()
    storer.put_many(entry(f"k{number}", user=f"u{number % 3}") for number in range(600))
    Follower(storer, "u1").follow()
    assert len(list(storer.scan("u1"))) == 200
    assert len(storer.get_many([entry(f"k{number}", user=f"u{number % 3}").id for number in range(9)])) == 9
    storer.remove(entry("k1", user="u1").id)
    storer.purge_expired(datetime.now(UTC))
    assert storer.users() == ["u0", "u1", "u2"]
    with server.client() as client:
        used = {name.removeprefix("cmdstat_") for name in client.info("commandstats")}
    assert not used & {"keys", "scan"}
    assert "zrangebyscore" in used


def test_a_scan_yields_each_entry_once_while_others_write(make: Make) -> None:
    storer = make()
    storer.put_many(entry(f"k{number:04}") for number in range(1_200))
    seen: list[str] = []
    for found in storer.scan():
        if len(seen) % 100 == 0:
            storer.put(entry("k0001", "again and again"))
            storer.put(entry("k1199", "again and again"))
        seen.append(found.id.key)
    assert sorted(seen) == [f"k{number:04}" for number in range(1_200)]


def test_scripts_are_sent_again_to_a_server_that_forgot_them(make: Make, server: RedisServer) -> None:
    storer = make()
    storer.put(entry("a"))
    with server.client() as client:
        client.script_flush()
        storer.put(entry("b"))
        client.script_flush()
        assert len(storer.changes(None, "shared").upserts) == 2
        client.script_flush()
        assert storer.remove(entry("a").id)


def test_unreadable_entries_are_reported_and_stop_no_other(make: Make, server: RedisServer) -> None:
    storer = make()
    storer.put_many([entry("a"), entry("b"), entry("c")])
    with server.client() as client:
        client.set(keys_of("shared").entry("b"), b"\xff\xfe torn")
        client.set(keys_of("shared").entry("c"), b"[1]")
    assert {found.id.key for found in storer.scan()} == {"a"}
    assert [found.id.key for found in storer.changes(None, "shared").upserts] == ["a"]
    for key in "bc":
        with pytest.raises(CorruptEntryError, match=f"memory '{key}' of 'shared'"):
            storer.get(MemoryId("workspace", "shared", key))
    assert [problem.code for problem in storer.problems() if problem.severity == "error"] == ["redis-unreadable-entry"] * 2


# --- many at once, and sudden ends ---------------------------------------------------------------------------------


def test_four_processes_write_250_each(make: Make, server: RedisServer) -> None:
    writers = [start_writer("redis", server.url, f"p{place}", 250) for place in range(4)]
    for writer in writers:
        out, _ = writer.communicate(timeout=120)
        assert writer.returncode == 0
        assert len(out.split()) == 250
    storer = make()
    assert len({found.id.key for found in storer.scan()}) == 1_000
    follower = Follower(storer, limit=100)
    follower.follow()
    assert len(follower.held) == 1_000


def test_kill_9_of_the_client_loses_nothing_that_was_acknowledged(make: Make, server: RedisServer) -> None:
    acknowledged: set[str] = set()
    for place in range(50 if os.environ.get("MEMORY_CORE_SOAK") else 5):
        acknowledged |= kill_after(start_writer("redis", server.url, f"w{place}", 100_000), 1 + place * 7 % 40)
    follower = Follower(make())
    follower.follow()
    assert acknowledged <= follower.keys() == {found.id.key for found in make().scan()}


def test_kill_9_of_the_server_loses_nothing_that_was_acknowledged(make: Make, own: Callable[..., RedisServer]) -> None:
    server = own("--appendonly", "yes", "--appendfsync", "always")
    acknowledged: set[str] = set()
    for place in range(25 if os.environ.get("MEMORY_CORE_SOAK") else 4):
        writer = start_writer("redis", server.url, f"w{place}", 100_000)
        assert writer.stdout is not None
        acknowledged |= {writer.stdout.readline().strip() for _ in range(1 + place * 13 % 40)}
        server.kill()
        rest, _ = writer.communicate(timeout=30)
        acknowledged |= {line.strip() for line in rest.splitlines(keepends=True) if line.endswith("\n")}
        server.start()
    storer = make(server.url)
    found = {item.id.key for item in storer.scan()}
    assert len(acknowledged) > 10
    assert acknowledged <= found
    follower = Follower(storer)
    follower.follow()
    assert follower.keys() == found
    assert [problem.code for problem in storer.problems()] == []


def test_a_restart_between_two_calls_costs_a_delay_not_an_error(make: Make, own: Callable[..., RedisServer]) -> None:
    server = own("--appendonly", "yes")
    storer = make(server.url)
    storer.put(entry("a"))
    server.stop()
    server.start()
    storer.put(entry("b"))
    server.stop()
    starter = threading.Timer(0.7, server.start)
    starter.start()
    assert {found.id.key for found in storer.scan()} == {"a", "b"}
    starter.join()


def test_a_server_that_stays_away_is_an_error_that_says_so(make: Make, own: Callable[..., RedisServer]) -> None:
    server = own()
    storer = make(server.url, retries=1)
    storer.put(entry("a"))
    server.kill()
    for call in (
        lambda: storer.put(entry("b")),
        lambda: storer.put_many([entry("b")]),
        lambda: storer.get(entry("a").id),
        lambda: storer.remove(entry("a").id),
        lambda: list(storer.scan()),
        lambda: storer.users(),
        lambda: storer.changes(None, "shared"),
        lambda: storer.purge_expired(datetime.now(UTC)),
    ):
        with pytest.raises(StorageUnavailableError, match=f"127.0.0.1:{server.port}/0 cannot be reached"):
            call()
    assert [problem.code for problem in storer.problems()] == ["redis-unavailable"]


def test_a_small_pool_serves_a_crowd(make: Make, server: RedisServer) -> None:
    """500 calls at once over 4 connections: they wait in line, none fails."""
    storer = make(pool_size=4)
    storer.put(entry("a"))

    async def crowd() -> list[object]:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(64))
        return list(await asyncio.gather(*(asyncio.to_thread(storer.get, entry("a").id) for _ in range(500))))

    assert asyncio.run(crowd()) == [entry("a")] * 500
    with server.client() as client:
        assert len(client.client_list()) <= 4 + 1


def test_a_pool_that_stays_busy_is_named(make: Make, server: RedisServer) -> None:
    storer = make(pool_size=1, pool_timeout_s=0.1, retries=0)
    storer.put(entry("a"))
    with server.client() as client:
        client.client_pause(600)
        thread = threading.Thread(target=storer.get, args=(entry("a").id,))
        thread.start()
        time.sleep(0.1)
        with pytest.raises(StorageUnavailableError, match="raise `pool_size`"):
            storer.get(entry("a").id)
        thread.join()


def test_a_fork_goes_on_with_connections_of_its_own(make: Make) -> None:
    storer = make()
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


def test_solutions_of_one_process_share_the_connections(server: RedisServer) -> None:
    options = RedisOptions(url=server.url)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType] - pydantic takes text
    one, other = RedisStorer(shared_server(options), SCOPES), RedisStorer(shared_server(options), {"workspace": "x"})
    one.put(entry("a"))
    other.put(entry("b"))
    with server.client() as client:
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


def test_passwords_are_asked_for_and_never_shown(make: Make, own: Callable[..., RedisServer]) -> None:
    server = own("--requirepass", "s3cret-word")
    address = server.url.removeprefix("redis://")
    wrong = make(f"redis://:wr0ng-word@{address}", retries=0)
    with pytest.raises(StorageUnavailableError, match="check `username` and `password`") as caught:
        wrong.put(entry("a"))
    assert "wr0ng-word" not in str(caught.value)
    for storer in (
        make(f"redis://:s3cret-word@{address}"),
        make(server.url, password="s3cret-word"),
        make(f"redis://default:wr0ng-word@{address}", password="s3cret-word"),
    ):
        storer.put(entry("a"))
        assert storer.get(entry("a").id) == entry("a")
    options = RedisOptions(url=f"redis://:s3cret-word@{address}", password="s3cret-word")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType] - pydantic takes text
    assert "s3cret-word" not in repr(options) + str(options) + options.model_dump_json()


def test_a_full_server_refuses_and_keeps_what_was_there(make: Make, own: Callable[..., RedisServer]) -> None:
    server = own("--maxmemory", "3mb")
    storer = make(server.url)
    storer.put(entry("a", "as it was"))
    with pytest.raises(StorageUnavailableError, match="is full"):
        for number in range(100):
            storer.put(entry(f"k{number}", "x" * 100_000))
    with pytest.raises(StorageUnavailableError, match="is full"):
        storer.put(entry("a", "y" * 100_000))
    assert storer.get(entry("a").id) == entry("a", "as it was")


def test_a_replica_is_named(make: Make, own: Callable[..., RedisServer]) -> None:
    server = own()
    with server.client() as client:
        client.replicaof("127.0.0.1", 1)
    with pytest.raises(StorageUnavailableError, match="address of the primary"):
        make(server.url, retries=0).put(entry("a"))


def test_a_url_that_is_no_redis_server(make: Make) -> None:
    with pytest.raises(StorageUnavailableError, match="127.0.0.1:1/0 cannot be reached"):
        make("redis://127.0.0.1:1/0", retries=0).put(entry("a"))


def test_tls(make: Make, own: Callable[..., RedisServer], tmp_path: Path) -> None:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed: TLS is not tested")
    certificate, key = tmp_path / "server.pem", tmp_path / "server.key"
    request = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*request, *names], check=True, capture_output=True)
    files = ["--tls-cert-file", str(certificate), "--tls-key-file", str(key), "--tls-ca-cert-file", str(certificate)]
    server = own(*files, "--tls-auth-clients", "no", tls=True)
    storer = make(server.url, tls_ca_file=str(certificate))
    storer.put(entry("a"))
    assert storer.get(entry("a").id) == entry("a")
    with pytest.raises(StorageUnavailableError, match="(?i)certificate"):
        make(server.url, retries=0).put(entry("b"))
    make(server.url, tls_verify=False).put(entry("c"))


def test_a_unix_socket(make: Make, own: Callable[..., RedisServer], tmp_path: Path) -> None:
    own("--unixsocket", str(tmp_path / "redis.sock"))
    storer = make(f"unix://{tmp_path}/redis.sock")
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
    make: Make, own: Callable[..., RedisServer], settings: tuple[str, ...], codes: list[str]
) -> None:
    found = make(own(*settings).url).problems()
    assert [problem.code for problem in found] == codes
    assert all(problem.advice and problem.where for problem in found)
