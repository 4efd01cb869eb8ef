"""The settings there are, with their defaults and checks. Where they come from is in `memory_core.config`."""

from pathlib import Path
from typing import Any, Literal

from pydantic import field_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from memory_core.options import Options
from memory_core.plugins.registry import Kind
from memory_core.policy import (
    DEFAULT_PRIORITY_COUNT,
    DEFAULT_RELEVANCE_COUNT,
    DEFAULT_SUMMARY_CHARS,
    DEFAULT_TTL,
    MIN_SUMMARY_CHARS,
    check_ttl_table,
)

APP = "memory-core"
ENV_PREFIX = "MEMORY_CORE_"

Tables = dict[str, dict[str, Any]]


class TalentSettings(Options):
    """The `[talent]` table: how much is injected, and for whom."""

    enabled: bool = True
    relevance_count: int = DEFAULT_RELEVANCE_COUNT
    priority_count: int = DEFAULT_PRIORITY_COUNT
    summary_length: int = DEFAULT_SUMMARY_CHARS
    relevance_injection: bool = True
    session_isolation: bool = False

    @field_validator("relevance_count", "priority_count")
    @classmethod
    def _counts(cls, value: int) -> int:
        if value < 0:
            raise ValueError(f"{value} is below 0")
        return value

    @field_validator("summary_length")
    @classmethod
    def _summary(cls, value: int) -> int:
        if value < MIN_SUMMARY_CHARS:
            raise ValueError(f"{value} is below {MIN_SUMMARY_CHARS}")
        return value


class LedgerSettings(Options):
    """The `[ledger]` table: the model for flush and consolidation, and the knobs of `memory_core.ledger.MemoryConfig`.

    `model` is `"provider:model"`, or with `base_url` the name of a model at that OpenAI-compatible endpoint. Durations
    are seconds. The ledger itself checks the values when it is opened.
    """

    model: str | None = None
    base_url: str | None = None
    timezone: str | None = None
    flush_trigger: Literal["always", "never"] | float = "always"
    flush_prompt: str | None = None
    consolidation_prompt: str | None = None
    consolidation_max_tokens: int = 4_000
    consolidation_min_gap: float = 1_800
    daily_file_retention_days: int = 90
    session_retention_days: int = 180


class Settings(BaseSettings):
    """All settings. Backend options stay raw here; the backend's own model checks them when it is built.

    `home` is where the user's own data lives: memories of the scope `user`, derived indexes, caches.
    `filter` names the filters in use; their options are in the tables `[filters.NAME]`.
    """

    model_config = SettingsConfigDict(env_prefix=ENV_PREFIX, env_nested_delimiter="__", extra="forbid", frozen=True)

    provider: str = "workspace"
    storer: str = "markdown"
    searcher: str = "fulltext"
    embedder: str | None = None
    session_store: str = "file"
    filter: list[str] = []
    locale: Literal["en", "zh"] = "en"
    stemmer: str | None = "english"
    home: Path | None = None
    ttl: dict[int, int] = dict(DEFAULT_TTL)
    talent: TalentSettings = TalentSettings()
    ledger: LedgerSettings = LedgerSettings()
    storers: Tables = {}
    searchers: Tables = {}
    providers: Tables = {}
    embedders: Tables = {}
    session_stores: Tables = {}
    filters: Tables = {}

    @field_validator("stemmer")
    @classmethod
    def _no_stemmer(cls, value: str | None) -> str | None:
        return None if value in ("", "none") else value

    @field_validator("ttl")
    @classmethod
    def _ttl(cls, value: dict[int, int]) -> dict[int, int]:
        check_ttl_table(value)
        return value

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Take only what `load_settings` has merged."""
        del settings_cls, env_settings, dotenv_settings, file_secret_settings
        return (init_settings,)

    @property
    def home_dir(self) -> Path:
        """The user's data folder."""
        if self.home is not None:
            return self.home.expanduser().absolute()
        from platformdirs import user_data_path

        return user_data_path(APP, appauthor=False)

    def table(self, kind: Kind, name: str) -> dict[str, Any]:
        """Return the raw options of one backend."""
        tables: Tables = getattr(self, f"{kind}s")
        return tables.get(name, {})
