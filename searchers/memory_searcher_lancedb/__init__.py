"""The searcher `lancedb`: vectors in a LanceDB table, on the local disk or on object storage."""

from typing import Any

from pydantic import Field, SecretStr

from memory_core.options import USER_ONLY, Options, placed
from memory_core.plugins import hookimpl

NAME = "lancedb"


class LanceDBOptions(Options):
    """`[searchers.lancedb]`.

    `uri` puts the table elsewhere than into the private index directory: another directory, or object storage
    (`s3://bucket/path`, `gs://…`, `az://…`) with `storage_options` as LanceDB documents them. `embedder` names another
    embedder than the configured one. From `index_rows` rows on an approximate index answers, with `refine` times as
    many candidates compared exactly; below, every search is exact. `buffer_rows` is how many changes are collected in
    memory before they are written as one file: at least this many, and more for large tables. A user with up to
    `held_rows` entries is held in memory while the table does not change, 4 bytes a number; 0 always asks the table.
    """

    uri: str | None = Field(default=None, min_length=1, json_schema_extra=USER_ONLY)
    storage_options: dict[str, SecretStr] = Field(default={}, json_schema_extra=USER_ONLY)
    embedder: str | None = None
    index_rows: int = Field(default=50_000, ge=1_000)
    refine: int = Field(default=5, ge=1, le=100)
    buffer_rows: int = Field(default=256, ge=1, le=4_096)
    held_rows: int = Field(default=20_000, ge=0, le=1_000_000)
    lock_timeout_s: float = Field(default=10.0, ge=0)


def build(options: LanceDBOptions, context: Any) -> Any:
    """Build the searcher; LanceDB itself is imported at its first use, because that takes seconds."""
    from importlib.util import find_spec

    for package in ("lancedb", "pyarrow"):
        if find_spec(package) is None:
            raise ModuleNotFoundError(f"No module named {package!r}", name=package)
    from memory_core.cached_embedder import cached
    from memory_searcher_lancedb.searcher import LanceDBSearcher
    from memory_searcher_lancedb.store import LanceTable

    table = LanceTable(
        placed(options.uri, context.workspace) if options.uri else str(context.index_dir / "table"),
        context.index_dir / "write.lock",
        storage_options={name: value.get_secret_value() for name, value in options.storage_options.items()},
        index_rows=options.index_rows,
        refine=options.refine,
        lock_timeout_s=options.lock_timeout_s,
    )
    embedder = cached(context.build_embedder(options.embedder), context)
    return LanceDBSearcher(table, embedder, buffer_rows=options.buffer_rows, held_rows=options.held_rows)


@hookimpl
def register_backends(register: Any) -> None:
    """Register the searcher `lancedb`."""
    register.searcher(NAME, build, LanceDBOptions, extra="lancedb")


__all__ = ["NAME", "LanceDBOptions"]
