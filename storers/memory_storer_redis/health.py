"""What `doctor` says about a server: whether it may drop memories, or lose them."""

from collections.abc import Iterator
from typing import Any

from memory_core.contracts import Problem
from memory_core.errors import StorageUnavailableError
from memory_storer_redis.server import Server


def server_problems(server: Server) -> Iterator[Problem]:
    """Yield the problems of each server that holds data.

    Raises:
        StorageUnavailableError: The server cannot be reached.
    """
    for where, info in server.primaries():
        yield from _dropping(where, info)
        yield from _losing(server, where, info)


def _dropping(where: str, info: dict[str, Any]) -> Iterator[Problem]:
    policy = str(info.get("maxmemory_policy", "noeviction"))
    if policy != "noeviction":
        yield Problem(
            "warning",
            "redis-evicts",
            f"When its memory is full, the server drops memories by itself (maxmemory-policy is {policy}).",
            where,
            "Set `maxmemory-policy noeviction` on the server: a full server then refuses writes instead.",
        )


def _losing(server: Server, where: str, info: dict[str, Any]) -> Iterator[Problem]:
    if info.get("aof_enabled") == 1:
        if info.get("aof_last_write_status", "ok") != "ok":
            yield Problem("error", "redis-append-fails", "The server cannot write its append-only file.", where)
        return
    if info.get("rdb_last_bgsave_status", "ok") != "ok":
        yield Problem("error", "redis-snapshot-fails", "The server's last snapshot failed.", where, "Look at its log.")
    advice = "Set `appendonly yes` on the server (and `appendfsync always` to lose nothing at all)."
    saves = _config(server, "save")
    if saves == "":
        message = "The server keeps memories only in RAM: a restart loses them all."
        yield Problem("warning", "redis-not-persistent", message, where, advice)
    else:
        rule = f" (save {saves})" if saves else ""
        message = f"The server writes snapshots only{rule}: a crash loses what came after the last one."
        yield Problem("warning", "redis-snapshots-only", message, where, advice)


def _config(server: Server, name: str) -> str | None:
    """Return a setting of the server, or None where it does not tell (hosted servers often forbid the question)."""
    try:
        found = server.call("config_get", name)
    except StorageUnavailableError:
        return None
    value = found.get(name)
    return None if value is None else str(value if isinstance(value, str) else value.decode())
