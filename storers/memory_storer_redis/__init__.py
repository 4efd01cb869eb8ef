"""The storer and the session store `redis`: memories and conversations on a server or cluster, for many machines."""

from ipaddress import ip_address
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator

from memory_core.options import USER_ONLY, Options
from memory_core.plugins import hookimpl

NAME = "redis"
DEFAULT_URL = "redis://localhost:6379/0"
_SCHEMES = ("redis", "rediss", "unix")


class RedisOptions(Options):
    """How to reach a server.

    `url` is `redis://`, `rediss://` (TLS) or `unix://`; it may carry user and password, and is therefore masked.
    `username` and `password` win over those in the URL. `tls_…` go with `rediss://`: files of the authority that signed
    the server's certificate and of the client's own; `tls_verify=False` accepts any certificate. `cluster` speaks to a
    Redis Cluster, of which `url` names one node. All keys start with `prefix`. At most `pool_size` connections are
    open; a caller waits `pool_timeout_s` for a free one. A call that cannot reach the server is tried again up to
    `retries` times within some seconds.
    """

    url: SecretStr = SecretStr(DEFAULT_URL)
    username: str | None = Field(default=None, json_schema_extra=USER_ONLY)
    password: SecretStr | None = Field(default=None, json_schema_extra=USER_ONLY)
    tls_ca_file: str | None = Field(default=None, json_schema_extra=USER_ONLY)
    tls_cert_file: str | None = Field(default=None, json_schema_extra=USER_ONLY)
    tls_key_file: str | None = Field(default=None, json_schema_extra=USER_ONLY)
    tls_verify: bool = Field(default=True, json_schema_extra=USER_ONLY)
    cluster: bool = False
    prefix: str = Field(default="memory-core", pattern=r"^[^\s{}]{1,128}$", json_schema_extra=USER_ONLY)
    pool_size: int = Field(default=16, ge=1, le=1_000)
    pool_timeout_s: float = Field(default=20.0, gt=0, le=600)
    timeout_s: float = Field(default=5.0, gt=0, le=600)
    retries: int = Field(default=8, ge=0, le=100)

    project_hint = (
        "set it in your own configuration file or in the environment; a project's file may only name a server on this "
        "machine, without user and password"
    )

    @field_validator("url")
    @classmethod
    def _scheme(cls, value: SecretStr) -> SecretStr:
        scheme = value.get_secret_value().partition("://")[0]
        if scheme not in _SCHEMES:
            raise ValueError("the URL must start with redis://, rediss:// or unix://")
        return value

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        scheme = self.url.get_secret_value().partition("://")[0]
        if scheme != "rediss" and (self.tls_ca_file or self.tls_cert_file or self.tls_key_file or not self.tls_verify):
            raise ValueError("the tls_… options need a URL that starts with rediss://")
        if scheme == "unix" and self.cluster:
            raise ValueError("a cluster cannot be reached through unix://")
        return self

    @classmethod
    def allowed_in_project(cls, name: str, value: Any, workspace: Path) -> bool:
        """Allow a URL from a project's file only when it stays on this machine and carries no credentials."""
        if name == "url":
            return isinstance(value, str) and _harmless(value)
        return super().allowed_in_project(name, value, workspace)


class RedisStorerOptions(RedisOptions):
    """`[storers.redis]`.

    `tombstones` is how many removals of one user a follower may miss before it has to read that user anew.
    """

    tombstones: int = Field(default=10_000, ge=1)


class RedisSessionOptions(RedisOptions):
    """`[session_stores.redis]`: with `ttl_s`, a session is gone that many seconds after its last write."""

    ttl_s: int | None = Field(default=None, ge=1)


def _harmless(url: str) -> bool:
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        _ = parts.port
    except ValueError:
        return False
    if parts.scheme not in ("redis", "rediss") or "@" in parts.netloc or parts.query or parts.fragment:
        return False
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def build(options: RedisStorerOptions, context: Any) -> Any:
    """Build the storer; the implementation, and with it redis-py, is imported only now."""
    from memory_storer_redis.server import shared_server
    from memory_storer_redis.storer import RedisStorer

    scopes = {place.name: place.namespace for place in context.scopes}
    return RedisStorer(
        shared_server(options), scopes, prefix=options.prefix, clock=context.clock, tombstones=options.tombstones
    )


def build_sessions(options: RedisSessionOptions, context: Any) -> Any:  # noqa: ARG001 - a factory's form
    """Build the provider of sessions; redis-py is imported only now."""
    from memory_storer_redis.server import shared_server
    from memory_storer_redis.session import RedisSessions

    return RedisSessions(shared_server(options), prefix=options.prefix, ttl_s=options.ttl_s)


@hookimpl
def register_backends(register: Any) -> None:
    """Register the storer and the session store `redis`."""
    register.storer(NAME, build, RedisStorerOptions, extra="redis")
    register.session_store(NAME, build_sessions, RedisSessionOptions, extra="redis")


__all__ = ["DEFAULT_URL", "NAME", "RedisOptions", "RedisSessionOptions", "RedisStorerOptions"]
