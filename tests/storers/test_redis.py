"""What is particular to the Redis storer: a real server on this machine for each test that may hurt it."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from redis.crc import key_slot

from memory_core.contracts import Clock
from memory_core.errors import CorruptEntryError, UnknownScopeError
from memory_core.model import MemoryId
from memory_core.testing import StorerContract
from memory_storer_redis.keys import ScopeKeys
from memory_storer_redis.server import Server
from memory_storer_redis.storer import RedisStorer
from tests.support.redis_server import RedisServer
from tests.support.stores import REDIS_SCOPES, Follower, StillClock, entry, redis_options

Make = Callable[..., RedisStorer]


def keys_of(user: str, scope: str = "workspace", namespace: str = "ns") -> Any:
    return ScopeKeys("memory-core", scope, namespace).of(user)


class TestRedisStorer(StorerContract):
    many = 40_000

    @pytest.fixture
    def open_storer(self, redis_server: RedisServer) -> Callable[[Clock], RedisStorer]:
        options = redis_options(redis_server.url)
        return lambda clock: RedisStorer(Server(options), REDIS_SCOPES, clock=clock)

    @pytest.fixture
    def spoil(self, redis_server: RedisServer) -> Callable[[MemoryId], None]:
        def cut(id: MemoryId) -> None:
            with redis_server.client() as client:
                client.setrange(keys_of(id.user_id).entry(id.key), 0, "no JSON")

        return cut


class TestRedisCluster(StorerContract):
    @pytest.fixture
    def open_storer(self, redis_nodes: list[RedisServer]) -> Callable[[Clock], RedisStorer]:
        for node in redis_nodes:
            with node.client() as client:
                client.flushall()
        options = redis_options(redis_nodes[0].url, cluster=True)
        return lambda clock: RedisStorer(Server(options), REDIS_SCOPES, clock=clock)

    def test_users_lie_on_all_nodes(
        self, open_storer: Callable[[Clock], RedisStorer], redis_nodes: list[RedisServer], clock: Any
    ) -> None:
        storer = open_storer(clock)
        assert storer.put_many(entry("a", user=f"user{place}") for place in range(60)) == 60
        assert len(storer.users()) == 60
        assert len(storer.get_many([entry("a", user=f"user{place}").id for place in range(60)])) == 60
        for node in redis_nodes:
            with node.client() as client:
                assert client.dbsize() > 20
        assert [problem.code for problem in storer.problems()] == ["redis-not-persistent"] * 3
        storer.close()


# --- keys ----------------------------------------------------------------------------------------------------------

NASTY = ["a:b", "a", "a:b:c", "{x}", "}{", "a}", "a%3Ab", "a%", "用户", "*", "a b", "memory-core", "users", "a:log"]


def test_no_two_users_share_a_key(make_redis: Make, redis_server: RedisServer) -> None:
    """`("a:b", "c")` and `("a", "b:c")` must never meet, in namespace, user and key alike."""
    scopes = [make_redis(scopes={"workspace": namespace}) for namespace in NASTY]
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


def test_prefixes_keep_applications_apart(make_redis: Make) -> None:
    one, other = make_redis(prefix="one"), make_redis(prefix="other")
    one.put(entry("a"))
    assert list(other.scan()) == []
    assert other.users() == []


def test_an_unknown_scope_is_refused_everywhere(make_redis: Make) -> None:
    storer, id = make_redis(), MemoryId("workspaces", "shared", "a")
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


def test_the_server_expires_in_real_seconds_and_leaves_no_ghost(make_redis: Make, redis_server: RedisServer) -> None:
    storer = make_redis()
    soon = datetime.now(UTC) + timedelta(seconds=1.2)
    storer.put_many(
        [entry("short", expires_at=soon), entry("long", expires_at=soon + timedelta(hours=1)), entry("ever")]
    )
    follower = Follower(storer)
    follower.follow()
    assert follower.keys() == {"short", "long", "ever"}
    assert storer.get(entry("short").id) is not None
    time.sleep(1.3)
    with redis_server.client() as client:
        assert client.get(keys_of("shared").entry("short")) is None
    assert storer.get(entry("short").id) is None
    assert storer.get_many([entry("short").id]) == {}
    assert {found.id.key for found in storer.scan()} == {"long", "ever"}
    assert {found.id.key for found in storer.changes(None, "shared").upserts} == {"long", "ever"}
    assert not storer.remove(entry("short").id) or pytest.fail("an expired entry was called alive")
    follower.follow()
    assert follower.keys() == {"long", "ever"}


def test_the_entry_decides_when_the_server_is_late(make_redis: Make) -> None:
    clock = StillClock()
    storer = make_redis(clock=clock)
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


@pytest.mark.parametrize(
    "clock", [None, StillClock(datetime(2001, 1, 1, tzinfo=UTC)), StillClock(datetime(2200, 1, 1, tzinfo=UTC))]
)
def test_clocks_need_not_agree(make_redis: Make, clock: StillClock | None) -> None:
    storer = make_redis(clock=clock)
    now = clock.now() if clock else datetime.now(UTC)
    storer.put(entry("a", expires_at=now + timedelta(hours=1)))
    storer.put(entry("far", expires_at=datetime(9999, 12, 31, tzinfo=UTC)))
    storer.put(entry("b"))
    assert {found.id.key for found in storer.scan()} == {"a", "far", "b"}


def test_an_entry_stored_after_its_end_is_absent_and_hides_what_was_there(make_redis: Make) -> None:
    clock = StillClock()
    storer = make_redis(clock=clock)
    storer.put(entry("a"))
    storer.put(entry("a", expires_at=clock.now()))
    assert storer.get(entry("a").id) is None
    assert list(storer.scan()) == []
    storer.purge_expired(clock.now())
    follower = Follower(storer)
    follower.follow()
    assert follower.held == {}


def test_a_memory_that_stops_expiring_stays(make_redis: Make, redis_server: RedisServer) -> None:
    storer = make_redis()
    storer.put(entry("a", expires_at=datetime.now(UTC) + timedelta(seconds=0.5)))
    storer.put(entry("a", "for ever now"))
    time.sleep(0.6)
    storer.put(entry("b"))
    assert storer.purge_expired(datetime.now(UTC)) == 0
    assert {found.id.key for found in storer.scan()} == {"a", "b"}


def test_writes_clear_away_what_the_server_expired(make_redis: Make, redis_server: RedisServer) -> None:
    storer = make_redis()
    for place in range(30):
        storer.put(entry(f"short{place}", expires_at=datetime.now(UTC) + timedelta(milliseconds=20)))
        time.sleep(0.03)
    keys = keys_of("shared")
    with redis_server.client() as client:
        assert client.zcard(keys.log) < 5
        assert client.zcard(keys.due) < 5


# --- the change feed -----------------------------------------------------------------------------------------------


def test_two_nodes_follow_each_other(make_redis: Make) -> None:
    one, other = make_redis(), make_redis()
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


def test_tombstones_are_trimmed_and_late_followers_start_over(make_redis: Make, redis_server: RedisServer) -> None:
    storer = make_redis(tombstones=20)
    late, timely = Follower(storer), Follower(storer)
    storer.put_many(entry(f"k{number}") for number in range(100))
    late.follow()
    timely.follow()
    for number in range(90):
        storer.remove(entry(f"k{number}").id)
        timely.follow()
    with redis_server.client() as client:
        assert client.zcard(keys_of("shared").gone) == 20
    late.follow()
    assert late.keys() == timely.keys() == {f"k{number}" for number in range(90, 100)}
    assert (late.restarts, timely.restarts) == (2, 1)


def test_a_server_that_lost_its_newest_writes_is_noticed(
    make_redis: Make, own_redis: Callable[..., RedisServer]
) -> None:
    server = own_redis()
    storer = make_redis(server.url)
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


def test_a_flushed_server_is_noticed(make_redis: Make, redis_server: RedisServer) -> None:
    storer = make_redis()
    follower = Follower(storer)
    storer.put(entry("a"))
    follower.follow()
    with redis_server.client() as client:
        client.flushall()
    follower.follow()
    assert follower.held == {}
    storer.put(entry("b"))
    follower.follow()
    assert follower.keys() == {"b"}


def test_users_without_memories_are_forgotten(make_redis: Make, redis_server: RedisServer) -> None:
    clock = StillClock()
    storer = make_redis(clock=clock)
    follower = Follower(storer, "session-1")
    storer.put(entry("a", user="session-1"))
    storer.remove(entry("a", user="session-1").id)
    keys, registry = keys_of("session-1"), "memory-core:users:workspace:ns"
    with redis_server.client() as client:
        assert 0 < client.ttl(keys.meta) <= 90 * 86_400
        storer.put(entry("b", user="session-1"))
        assert client.ttl(keys.meta) == client.ttl(keys.gone) == -1
        follower.follow()
        storer.remove(entry("b", user="session-1").id)
        clock.advance(days=92)
        assert storer.purge_expired(clock.now()) == 0
        assert client.zrange(registry, 0, -1) == [b"session-1"]
        client.delete(keys.meta, keys.gone)  # as the server will, after that time
        clock.advance(days=92)
        assert storer.purge_expired(clock.now()) == 0
        assert client.zrange(registry, 0, -1) == []
    follower.follow()
    assert follower.held == {}
    storer.put(entry("c", user="session-1"))
    follower.follow()
    assert follower.keys() == {"c"}
    assert storer.users() == ["session-1"]


def test_purging_looks_only_after_users_who_are_due(make_redis: Make, redis_server: RedisServer) -> None:
    clock = StillClock()
    storer = make_redis(clock=clock)
    soon, late = clock.now() + timedelta(seconds=50), clock.now() + timedelta(seconds=70)
    storer.put_many(entry("ever", user=f"user{place}") for place in range(100))
    storer.put_many([entry("soon", user="user7", expires_at=soon), entry("late", user="user7", expires_at=late)])
    storer.put(entry("late", user="user8", expires_at=late))
    with redis_server.client() as client:
        for moment, removed, asked in ((49, 0, 0), (50, 1, 1), (60, 0, 0), (70, 2, 2), (10**9, 0, 0)):
            client.config_resetstat()
            now = StillClock().now() + timedelta(seconds=moment)
            assert storer.purge_expired(now) == removed
            info = client.info("commandstats")
            calls = sum(info.get(f"cmdstat_{name}", {}).get("calls", 0) for name in ("evalsha", "eval"))
            failed = info.get("cmdstat_evalsha", {}).get("failed_calls", 0)  # a script's first use sends its text
            assert calls - failed == asked
    assert len(storer.users()) == 100


# --- how it asks ---------------------------------------------------------------------------------------------------


def test_nothing_walks_over_all_keys(make_redis: Make, redis_server: RedisServer) -> None:
    storer = make_redis()
    storer.put_many(entry(f"k{number}", user=f"u{number % 3}") for number in range(600))
    Follower(storer, "u1").follow()
    assert len(list(storer.scan("u1"))) == 200
    assert len(storer.get_many([entry(f"k{number}", user=f"u{number % 3}").id for number in range(9)])) == 9
    storer.remove(entry("k1", user="u1").id)
    storer.purge_expired(datetime.now(UTC))
    assert storer.users() == ["u0", "u1", "u2"]
    with redis_server.client() as client:
        used = {name.removeprefix("cmdstat_") for name in client.info("commandstats")}
    assert not used & {"keys", "scan"}
    assert "zrangebyscore" in used


def test_a_scan_yields_each_entry_once_while_others_write(make_redis: Make) -> None:
    storer = make_redis()
    storer.put_many(entry(f"k{number:04}") for number in range(1_200))
    seen: list[str] = []
    for found in storer.scan():
        if len(seen) % 100 == 0:
            storer.put(entry("k0001", "again and again"))
            storer.put(entry("k1199", "again and again"))
        seen.append(found.id.key)
    assert sorted(seen) == [f"k{number:04}" for number in range(1_200)]


def test_scripts_are_sent_again_to_a_server_that_forgot_them(make_redis: Make, redis_server: RedisServer) -> None:
    storer = make_redis()
    storer.put(entry("a"))
    with redis_server.client() as client:
        client.script_flush()
        storer.put(entry("b"))
        client.script_flush()
        assert len(storer.changes(None, "shared").upserts) == 2
        client.script_flush()
        assert storer.remove(entry("a").id)


def test_unreadable_entries_are_reported_and_stop_no_other(make_redis: Make, redis_server: RedisServer) -> None:
    storer = make_redis()
    storer.put_many([entry("a"), entry("b"), entry("c")])
    with redis_server.client() as client:
        client.set(keys_of("shared").entry("b"), b"\xff\xfe torn")
        client.set(keys_of("shared").entry("c"), b"[1]")
    assert {found.id.key for found in storer.scan()} == {"a"}
    assert [found.id.key for found in storer.changes(None, "shared").upserts] == ["a"]
    for key in "bc":
        with pytest.raises(CorruptEntryError, match=f"memory '{key}' of 'shared'"):
            storer.get(MemoryId("workspace", "shared", key))
    assert [problem.code for problem in storer.problems() if problem.severity == "error"] == [
        "redis-unreadable-entry"
    ] * 2
