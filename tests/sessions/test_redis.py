"""The session store on Redis keeps the contract, against a real server on this machine."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memory_core.config import load_settings
from memory_core.errors import ConfigError, InvalidEntryError, StorageUnavailableError
from memory_core.plugins import get_registry
from memory_core.sessions.loading import load_sessions
from memory_core.sessions.messages import Message, OtherPart, new_id, text_of, user_message
from memory_core.testing.session import OpenSession, SessionContract
from memory_storer_redis import RedisSessionOptions
from memory_storer_redis.server import Script, Server, shared_server
from memory_storer_redis.session import RedisAgentSession, RedisSessions
from tests.support.redis_server import RedisServer, start_cluster


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path_factory.mktemp("redis")).start()
    yield server
    server.kill()


@pytest.fixture
def url(running: RedisServer) -> str:
    with redis_of(running) as client:
        client.flushall()
    return running.url


@pytest.fixture
def server(url: str) -> Iterator[Server]:
    server = Server(RedisSessionOptions.model_validate({"url": url}))
    yield server
    server.close()


class TestRedisSession(SessionContract):
    @pytest.fixture
    def open_session(self, server: Server) -> OpenSession:
        return lambda session_id: RedisAgentSession(session_id, server)


def redis_of(running: RedisServer) -> Any:
    """Return a client; untyped, because redis-py answers for its asynchronous form as well."""
    return running.client()


def keys_of(running: RedisServer) -> set[str]:
    with redis_of(running) as client:
        return {key.decode() for key in client.keys("*")}


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[RedisServer]]:
    nodes = start_cluster(tmp_path_factory.mktemp("cluster"))
    yield nodes
    for node in nodes:
        node.kill()


class TestRedisClusterSession(SessionContract):
    @pytest.fixture
    def open_session(self, nodes: list[RedisServer]) -> Iterator[OpenSession]:
        server = Server(RedisSessionOptions.model_validate({"url": nodes[0].url, "cluster": True}))
        prefix = new_id()  # each test has keys of its own
        yield lambda session_id: RedisAgentSession(session_id, server, prefix=prefix)
        server.close()


def texts(session: RedisAgentSession) -> list[str]:
    return [text_of(message) for message in session.messages()]


class TestKeys:
    def test_keys_are_as_documented_and_share_a_slot(self, running: RedisServer, server: Server) -> None:
        session = RedisAgentSession("a:{b}%", server, prefix="p")
        session.append([user_message("x")])
        session.update_snapshot({"x": 1})
        assert keys_of(running) == {f"p:{{session:a%3A%7Bb%7D%25}}:{part}" for part in ("messages", "ids", "meta")}

    def test_a_session_may_expire(self, running: RedisServer, server: Server) -> None:
        session = RedisAgentSession("s", server, ttl_s=100)
        session.append([user_message("x"), user_message("y")])
        session.update_snapshot({"x": 1})
        session.remove_latest()
        with redis_of(running) as client:
            assert all(0 < client.ttl(key) <= 100 for key in keys_of(running))
        assert len(keys_of(running)) == 3

    def test_reading_makes_nothing(self, running: RedisServer, server: Server) -> None:
        session = RedisAgentSession("s", server)
        assert session.messages() == []
        assert session.snapshot() is None
        assert keys_of(running) == set()


class TestDamage:
    @pytest.mark.parametrize("line", [b"{torn", b"[]", b"\xff", b'{"id": "x"}'])
    def test_a_corrupt_line_is_reported_skipped_and_set_aside(
        self, running: RedisServer, server: Server, line: bytes
    ) -> None:
        session = RedisAgentSession("s", server)
        session.append([user_message("one")])
        messages = "memory-core:{session:s}:messages"
        with redis_of(running) as client:
            client.rpush(messages, line)
            session.append([user_message("two"), user_message("three")])
            for opened in (session, RedisAgentSession("s", server)):
                assert texts(opened) == ["one", "two", "three"]
                assert [problem.code for problem in opened.problems()] == ["session-corrupt-line"]
            assert client.lindex(messages, 1) == line
            session.remove_latest()
            assert client.lrange("memory-core:{session:s}:damaged", 0, -1) == [line]
        assert texts(session) == ["one", "two"]
        assert session.problems() == []

    @pytest.mark.parametrize("stored", ['{"version": 99, "snapshot": 1}', "not json", "[]"])
    def test_a_snapshot_of_another_version_is_reported_and_kept(
        self, running: RedisServer, server: Server, stored: str
    ) -> None:
        session = RedisAgentSession("s", server)
        session.append([user_message("one")])
        meta = "memory-core:{session:s}:meta"
        with redis_of(running) as client:
            client.hset(meta, "state", stored)
            assert session.snapshot() is None
            assert [problem.code for problem in session.problems()] == ["session-snapshot"]
            assert client.hget(meta, "state") == stored.encode()
            session.update_snapshot({"new": 1})
            assert client.hget(meta, "state_unread") == stored.encode()
        assert session.snapshot() == {"new": 1}
        assert session.problems() == []
        assert texts(session) == ["one"]

    def test_a_server_that_lost_its_newest_data_is_noticed(self, running: RedisServer, server: Server) -> None:
        session, other = RedisAgentSession("s", server), RedisAgentSession("s", server)
        session.append([user_message("one"), user_message("two")])
        assert texts(session) == ["one", "two"]
        with redis_of(running) as client:
            lost = client.rpop("memory-core:{session:s}:messages")
            client.srem("memory-core:{session:s}:ids", *client.smembers("memory-core:{session:s}:ids"))
            assert lost is not None
        other.append([user_message("three"), user_message("four")])
        assert texts(session) == ["one", "three", "four"]

    def test_an_unreachable_server_is_one_sentence(self) -> None:
        options = RedisSessionOptions.model_validate({"url": "redis://127.0.0.1:1/0", "retries": 0})
        session = RedisAgentSession("s", Server(options))
        for call in (
            session.messages,
            session.clear,
            session.snapshot,
            lambda: session.append([user_message("x")]),
            lambda: session.update_snapshot({}),
            session.remove_latest,
        ):
            with pytest.raises(StorageUnavailableError, match="cannot be reached"):
                call()
        with pytest.raises(InvalidEntryError):
            session.append([Message("user", (OtherPart("x", object()),))])

    def test_a_call_that_is_repeated_after_a_lost_answer_does_nothing_twice(
        self, server: Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        session = RedisAgentSession("s", server)
        run = server.run

        def twice(script: Script, keys: tuple[str, ...], arguments: list[object]) -> object:
            run(script, keys, arguments)
            return run(script, keys, arguments)

        monkeypatch.setattr(server, "run", twice)
        session.append([user_message(str(n)) for n in range(5)])
        assert [text_of(message) for message in session.remove_latest(2)] == ["3", "4"]
        session.update_snapshot({"x": 1})
        assert texts(session) == ["0", "1", "2"]
        assert session.snapshot() == {"x": 1}

    def test_endless_competition_is_an_error(self, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
        session, other = RedisAgentSession("s", server), RedisAgentSession("s", server)
        session.append([user_message("x"), user_message("y")])
        monkeypatch.setattr("memory_storer_redis.session.MAX_ATTEMPTS", 3)

        def change(messages: list[Message]) -> list[Message]:
            other.append([user_message("more")])
            return messages[:1]

        with pytest.raises(StorageUnavailableError, match="changed by others"):
            session.rewrite(change)
        assert texts(session)[:2] == ["x", "y"]


class TestConfiguration:
    def test_chosen_by_name(self, url: str, tmp_path: Path) -> None:
        (tmp_path / "memory.toml").write_text(
            f'session_store = "redis"\n[session_stores.redis]\nurl = "{url}"\nttl_s = 60\n'
        )
        sessions = load_sessions(tmp_path, overrides={"home": str(tmp_path)})
        sessions("s").append([user_message("x")])
        assert isinstance(sessions, RedisSessions)
        sessions.close()
        again = load_sessions(tmp_path, overrides={"home": str(tmp_path)})
        assert [text_of(message) for message in again("s").messages()] == ["x"]
        assert isinstance(again, RedisSessions)
        again.close()

    def test_storers_options_are_not_sessions_options(self, tmp_path: Path) -> None:
        loaded = load_settings(tmp_path, overrides={"session_stores": {"redis": {"tombstones": 3}}})
        with pytest.raises(ConfigError, match="tombstones"):
            loaded.options(get_registry(), "session_store", "redis")

    def test_sessions_share_a_connection(self, url: str) -> None:
        options = RedisSessionOptions.model_validate({"url": url})
        one, other = shared_server(options), shared_server(options)
        assert one is other
        first, second = RedisSessions(one), RedisSessions(other)
        first.close()
        assert second("s").messages() == []
        second.close()
