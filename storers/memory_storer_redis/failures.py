"""redis-py's errors in sentences: what happened, what is there, what to do next."""

from collections.abc import Generator
from contextlib import contextmanager

from redis import exceptions

from memory_core.errors import StorageUnavailableError


def unavailable(where: str, error: Exception) -> StorageUnavailableError:
    """Return the error to raise for what redis-py reported of the server at `where`."""
    reason = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, exceptions.AuthenticationError | exceptions.AuthorizationError | exceptions.NoPermissionError):
        what = f"refuses this user or command ({reason}); check `username` and `password`"
    elif "No connection available" in reason:
        what = "is busy: all connections of this process stayed in use; raise `pool_size` or `pool_timeout_s`"
    elif isinstance(error, exceptions.BusyLoadingError):
        what = "is still loading its data; try again soon"
    elif isinstance(error, exceptions.OutOfMemoryError):
        what = "is full (`maxmemory`); give it more memory or remove some memories"
    elif isinstance(error, exceptions.ReadOnlyError):
        what = "is a read-only replica; use the address of the primary"
    elif isinstance(error, exceptions.ConnectionError | exceptions.TimeoutError | OSError):
        what = f"cannot be reached ({reason}); check that it runs, and the `url`"
    elif isinstance(error, exceptions.ClusterError | exceptions.RedisClusterException):
        what = f"is part of a cluster that is not ready ({reason}); check `redis-cli cluster info`"
    else:
        what = f"refused the command ({reason})"
    return StorageUnavailableError(f"The Redis server at {where} {what}.")


@contextmanager
def translated(where: str) -> Generator[None, None, None]:
    """Turn what redis-py raises inside into `StorageUnavailableError`."""
    try:
        yield
    except StorageUnavailableError:
        raise  # it is an OSError too, and says already what it has to
    except (exceptions.RedisError, exceptions.RedisClusterException, OSError) as error:
        raise unavailable(where, error) from error
