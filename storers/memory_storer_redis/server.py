"""The connection to a server or cluster: bounded, patient, shared by all storers of one process, safe after a fork."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha1
from threading import RLock
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

import redis
from redis.backoff import ExponentialWithJitterBackoff
from redis.cluster import RedisCluster
from redis.exceptions import NoScriptError
from redis.retry import Retry

from memory_storer_redis import RedisOptions
from memory_storer_redis.failures import translated

_BACKOFF_BASE_S, _BACKOFF_CAP_S = 0.1, 1.5


@dataclass(frozen=True, slots=True)
class Script:
    """A Lua script; the server remembers it by its SHA-1."""

    source: str
    sha: str

    @classmethod
    def of(cls, source: str) -> "Script":
        """Return the script of that source."""
        return cls(source, sha1(source.encode(), usedforsecurity=False).hexdigest())


class Server:
    """One Redis server or cluster.

    A call that finds no free connection waits; one that loses its connection is tried again with growing pauses, so
    that a restart of the server costs a delay. What still fails becomes `StorageUnavailableError`.
    """

    def __init__(self, options: RedisOptions) -> None:
        self._options = options
        self._client: Any = None
        self._pid = 0
        self._lock = RLock()
        self.cluster = options.cluster
        self.where = _address(options.url.get_secret_value())

    def call(self, command: str, *arguments: Any, **options: Any) -> Any:
        """Return what redis-py's method of that name gives.

        Raises:
            StorageUnavailableError: The server cannot be reached or refused.
        """
        with translated(self.where):
            return getattr(self._connected(), command)(*arguments, **options)

    def call_many(self, commands: Iterable[tuple[Any, ...]]) -> list[Any]:
        """Return the answers to many calls, each `(command, *arguments)`, asked in one go.

        Raises:
            StorageUnavailableError: As `call`.
        """
        with translated(self.where), self._connected().pipeline(transaction=False) as pipe:
            for command, *arguments in commands:
                getattr(pipe, command)(*arguments)
            return list(pipe.execute())

    def run(self, script: Script, keys: Sequence[str], arguments: Sequence[Any]) -> Any:
        """Run a script; a server that does not know it is given its text.

        Raises:
            StorageUnavailableError: As `call`.
        """
        with translated(self.where):
            client = self._connected()
            try:
                return client.evalsha(script.sha, len(keys), *keys, *arguments)
            except NoScriptError:
                return client.eval(script.source, len(keys), *keys, *arguments)

    def register_and_run(
        self, registry: str, member: str, due: float, *, script: Script, keys: Sequence[str], arguments: Sequence[Any]
    ) -> Any:
        """Note in the sorted set `registry` that `member` is due at `due` or earlier, and run a script.

        One round trip where one server has both.

        Raises:
            StorageUnavailableError: As `call`.
        """
        if self.cluster:
            self.call("zadd", registry, {member: due}, lt=True)
            return self.run(script, keys, arguments)
        with translated(self.where):
            client = self._connected()
            with client.pipeline(transaction=False) as pipe:
                pipe.zadd(registry, {member: due}, lt=True)
                pipe.evalsha(script.sha, len(keys), *keys, *arguments)
                registered, result = pipe.execute(raise_on_error=False)
            if isinstance(result, NoScriptError):
                result = client.eval(script.source, len(keys), *keys, *arguments)
            for answer in (registered, result):
                if isinstance(answer, Exception):
                    raise answer
            return result

    def primaries(self) -> list[tuple[str, dict[str, Any]]]:
        """Return address and `INFO` of each server that holds data.

        Raises:
            StorageUnavailableError: As `call`.
        """
        with translated(self.where):
            client = self._connected()
            if not self.cluster:
                return [(self.where, client.info())]
            return [(node.name, client.info(target_nodes=node)) for node in client.get_primaries()]

    def close(self) -> None:
        """Close the connections; a later call opens new ones."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None and self._pid == os.getpid():
            client.close()

    def _connected(self) -> Any:
        if self._client is None or self._pid != os.getpid():
            if self._pid not in (0, os.getpid()):
                self._lock = RLock()  # the parent may have held it when this process was forked
            with self._lock:
                if self._client is None or self._pid != os.getpid():
                    self._client = self._connect()
                    self._pid = os.getpid()
        return self._client

    def _connect(self) -> Any:
        options = self._options
        url = options.url.get_secret_value()
        settings: dict[str, Any] = {
            "socket_timeout": options.timeout_s,
            "socket_connect_timeout": options.timeout_s,
            "socket_keepalive": True,
            "health_check_interval": 30,
            "protocol": 2,
            "retry": Retry(ExponentialWithJitterBackoff(cap=_BACKOFF_CAP_S, base=_BACKOFF_BASE_S), options.retries),
            "max_connections": options.pool_size,
        }
        if url.startswith("unix://"):
            del settings["socket_keepalive"], settings["socket_connect_timeout"]
        url, in_url = _without_credentials(url)
        settings.update(in_url)
        if options.username is not None:
            settings["username"] = options.username
        if options.password is not None:
            settings["password"] = options.password.get_secret_value()
        if url.startswith("rediss://"):
            settings["ssl_cert_reqs"] = "required" if options.tls_verify else "none"
            settings["ssl_check_hostname"] = options.tls_verify
            files = {
                "ssl_ca_certs": options.tls_ca_file,
                "ssl_certfile": options.tls_cert_file,
                "ssl_keyfile": options.tls_key_file,
            }
            settings.update({name: file for name, file in files.items() if file is not None})
        if self.cluster:
            return RedisCluster.from_url(url, connection_pool_class=redis.BlockingConnectionPool, **settings)
        pool_class: Any = redis.BlockingConnectionPool  # redis-py leaves the arguments of `from_url` untyped
        pool = pool_class.from_url(url, timeout=options.pool_timeout_s, **settings)
        return redis.Redis.from_pool(pool)


def _address(url: str) -> str:
    """Return the URL's address without user, password and query, for messages."""
    parts = urlsplit(url)
    if parts.scheme == "unix":
        return parts.path
    return f"{parts.hostname or 'localhost'}:{parts.port or 6379}{parts.path}"


def _without_credentials(url: str) -> tuple[str, dict[str, str]]:
    """Take user and password out of a URL, where redis-py would let them win over everything else."""
    parts = urlsplit(url)
    if parts.scheme == "unix":
        return url, {}
    found = {"username": parts.username, "password": parts.password}
    plain = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    return plain, {name: unquote(value) for name, value in found.items() if value}


_shared: dict[RedisOptions, tuple[Server, int]] = {}
_shared_lock = RLock()


class _SharedServer(Server):
    """A server whose connections close with the last of its users."""

    def close(self) -> None:
        with _shared_lock:
            _, users = _shared.get(self._options, (self, 0))
            if users > 1:
                _shared[self._options] = (self, users - 1)
                return
            _shared.pop(self._options, None)
        super().close()


def shared_server(options: RedisOptions) -> Server:
    """Return the server for these options, the same one for everybody in this process; each user closes it once."""
    with _shared_lock:
        server, users = _shared.get(options) or (_SharedServer(options), 0)
        _shared[options] = (server, users + 1)
        return server
