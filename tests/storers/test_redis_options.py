"""Which options Redis takes, from where, and what the room loads."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from memory_core.contracts import MemorySolution
from memory_core.errors import ConfigError, MissingExtraError
from memory_core.loading import load_provider
from memory_core.plugins.registry import PluginRegistry, get_registry
from memory_storer_redis import RedisOptions
from tests.support.redis_server import RedisServer
from tests.support.stores import redis_options


@pytest.mark.parametrize(
    "url", ["redis://localhost:6379/0", "redis://127.0.0.1", "redis://127.8.9.1:1/3", "rediss://[::1]:6379/0"]
)
def test_a_project_may_name_a_server_on_this_machine(url: str, tmp_path: Path) -> None:
    assert RedisOptions.allowed_in_project("url", url, tmp_path)


@pytest.mark.parametrize(
    "url",
    [
        "redis://example.org:6379/0",
        "redis://10.0.0.1/0",
        "redis://localhost.example.org/0",
        "redis://127.0.0.1.example.org/0",
        "redis://user@localhost/0",
        "redis://:password@localhost/0",
        "redis://localhost@example.org/0",
        "redis://localhost/0?host=example.org",
        "redis://localhost/0#x",
        "redis://localhost:port/0",
        "redis:///0",
        "unix:///run/redis.sock",
        "http://localhost/",
        "redis://[::1/0",
        "",
        7,
        None,
        ["redis://localhost"],
    ],
)
def test_a_project_may_name_no_other_server(url: Any, tmp_path: Path) -> None:
    assert not RedisOptions.allowed_in_project("url", url, tmp_path)


@pytest.mark.parametrize(
    "option", ["username", "password", "tls_ca_file", "tls_cert_file", "tls_key_file", "tls_verify", "prefix"]
)
def test_credentials_and_places_are_the_user_s(option: str, tmp_path: Path) -> None:
    assert not RedisOptions.allowed_in_project(option, "x", tmp_path)


def test_a_cloned_project_cannot_send_memories_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "memory.toml").write_text('storer = "redis"\n[storers.redis]\nurl = "redis://example.org/0"\n')
    with pytest.raises(ConfigError, match=r"may not set `url` of \[storers\.redis\].*on this machine"):
        load_provider(tmp_path)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"url": "localhost:6379"}, "must start with redis://"),
        ({"url": "http://localhost"}, "must start with redis://"),
        ({"tls_verify": False}, "need a URL that starts with rediss://"),
        ({"tls_ca_file": "ca.pem"}, "need a URL that starts with rediss://"),
        ({"url": "unix:///run/redis.sock", "cluster": True}, "cannot be reached through unix://"),
        ({"prefix": "a{b"}, "prefix"),
        ({"prefix": ""}, "prefix"),
        ({"pool_size": 0}, "pool_size"),
        ({"retries": -1}, "retries"),
        ({"ulr": "redis://localhost"}, "ulr"),
    ],
)
def test_wrong_options_are_named(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValidationError, match=reason):
        RedisOptions.model_validate(options)


def test_secrets_are_masked_wherever_options_are_shown() -> None:
    options = redis_options("redis://:s3cret-word@localhost", password="s3cret-word")
    assert "s3cret-word" not in repr(options) + str(options) + options.model_dump_json()


def test_environment_and_registry_lead_to_a_working_store(
    tmp_path: Path, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMORY_CORE_STORER", "redis")
    monkeypatch.setenv("MEMORY_CORE_STORERS__REDIS__URL", redis_server.url)
    monkeypatch.setenv("MEMORY_CORE_HOME", str(tmp_path / "home"))
    provider = load_provider(tmp_path)
    other = load_provider(tmp_path)
    solution: MemorySolution = provider.get(tmp_path)
    solution.remember("k", "用户喜欢使用Solon框架", 8)
    assert [hit.entry.id.key for hit in other.get(tmp_path).search("框架")] == ["k"]
    assert solution.forget("k") == ("workspace",)
    assert other.get(tmp_path).search("框架") == []
    provider.close()
    other.close()


def test_the_room_loads_redis_only_when_it_is_built() -> None:
    code = "import memory_storer_redis, memory_storer_kv, memory_provider_shared, sys; sys.exit('redis' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_missing_package_is_an_instruction(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in sys.modules if name.startswith(("memory_storer_redis.s", "memory_storer_redis.f"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "redis", None)
    backend = get_registry().backend("storer", "redis")
    with pytest.raises(MissingExtraError, match=r"pip install 'memory-talent\[redis\]'"):
        backend.build(RedisOptions(), None)


def test_both_rooms_come_through_the_door_of_all_plugins() -> None:
    registry = PluginRegistry()
    registry.load()
    assert {"kv", "markdown", "redis"} <= set(registry.names("storer"))
    assert {"shared", "workspace"} <= set(registry.names("provider"))
