"""One store with one searcher in a directory of its own, opened by any process that is told where."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from memory_core.contracts import MemorySolutionProvider
from memory_core.loading import load_provider


@dataclass(frozen=True, slots=True)
class BenchPair:
    """Where a pair lies and how it is opened; plain data, so that a child process can be told.

    Options of backends come from the environment (`MEMORY_CORE_…`); configuration files of the user and of projects
    are not read. `redis_prefix` keeps a run's keys apart from everything else on a server.
    """

    storer: str
    searcher: str
    root: str
    embedder: str = "static"
    redis_url: str = ""
    redis_prefix: str = "memory-core-bench"

    @property
    def work(self) -> Path:
        """The workspace."""
        return Path(self.root) / "work"

    @property
    def config_file(self) -> Path:
        """An empty file of settings, so that no other one is read."""
        return Path(self.root) / "bench.toml"

    @property
    def home(self) -> Path:
        """The user's data folder of this pair."""
        return Path(self.root) / "home"

    @property
    def store_folders(self) -> tuple[Path, ...]:
        """Where stores of files keep what they hold."""
        return (self.work / ".memory-core", self.home / "memory")

    @property
    def index_folder(self) -> Path:
        """Where the index lies."""
        return self.home / "index"

    @property
    def cache_folder(self) -> Path:
        """Where the vectors are cached."""
        return self.home / "cache"

    def overrides(self, *, hurried: bool = False) -> dict[str, Any]:
        """Return the settings; `hurried` does not wait for the disk, for filling a store that is closed afterwards."""
        stores: dict[str, dict[str, Any]] = {}
        if self.storer == "redis":
            stores["redis"] = {"url": self.redis_url, "prefix": self.redis_prefix}
        elif hurried and self.storer == "markdown":
            stores["markdown"] = {"fsync": False}
        elif hurried and self.storer == "kv":
            stores["kv"] = {"durability": "normal"}
        return {
            "provider": "workspace",
            "storer": self.storer,
            "searcher": self.searcher,
            "embedder": self.embedder,
            "home": str(self.home),
            "storers": stores,
        }

    def open(self, *, hurried: bool = False) -> MemorySolutionProvider:
        """Open the pair; `provider.get(pair.work)` gives the solution.

        Raises:
            PluginError, ConfigError: A backend is unknown, incomplete or wrongly configured.

        """
        self.work.mkdir(parents=True, exist_ok=True)
        self.config_file.touch()
        return load_provider(self.work, config_file=self.config_file, overrides=self.overrides(hurried=hurried))

    def to_json(self) -> dict[str, str]:
        """Return the fields, for another process."""
        return asdict(self)
