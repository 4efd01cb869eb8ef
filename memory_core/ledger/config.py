"""When the ledger asks the model, with which words, and how long files are kept."""

from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Any, Literal

from memory_core.errors import ConfigError
from memory_core.ledger.prompts import default_consolidation_prompt, default_flush_prompt

MAX_DAYS = 100_000
"""The longest retention: longer ones lead to days before the calendar begins."""
CHARS_PER_TOKEN = 4
"""How many characters the consolidation prompt allows for each token of its limit."""


def check_template(template: str) -> str:
    """Return `template` unchanged when it holds exactly two `%d` and no other percent sign.

    Raises:
        ConfigError: It does not; the sentence says what was found.
    """
    found = template.count("%")
    if found != 2 or template.count("%d") != 2:
        raise ConfigError(
            f"consolidation_prompt holds {template.count('%d')} times %d and {found} percent signs in all; it must "
            "hold exactly two %d (the limit in tokens, then in characters) and no other %. Write 'percent' in words."
        )
    return template


def _positive(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ConfigError(f"{name} is {value!r}; it must be a whole number of at least 1.")
    if name.endswith("_days") and value > MAX_DAYS:
        raise ConfigError(f"{name} is {value}; at most {MAX_DAYS} days can be looked back.")


def _duration(name: str, value: object) -> None:
    if not isinstance(value, timedelta):
        raise ConfigError(f"{name} is {value!r}; it must be a timedelta such as timedelta(minutes=10).")
    if value < timedelta(0):
        raise ConfigError(f"{name} is {value}; it must not be negative (0 means: no gap).")


def _seconds(name: str, value: object) -> timedelta:
    if isinstance(value, timedelta):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigError(f"{name} is {value!r}; it must be a number of seconds.")
    try:
        return timedelta(seconds=value)
    except (OverflowError, ValueError) as error:
        raise ConfigError(f"{name} is {value!r} seconds, which is no usable duration.") from error


def _prompt(name: str, value: object) -> None:
    if value is not None and (not isinstance(value, str) or not value.strip()):
        raise ConfigError(
            f"{name} is {'blank' if isinstance(value, str) else repr(value)}; give text, or None for ours."
        )


@dataclass(frozen=True, slots=True)
class FlushTrigger:
    """When the flush at the end of each call runs. Flushes before a compaction and in overflow recovery always do.

    Make one with `always()`, `never()` or `throttled(gap)`.
    """

    mode: Literal["always", "never", "throttled"] = "always"
    gap: timedelta = timedelta(0)

    def __post_init__(self) -> None:
        if self.mode not in ("always", "never", "throttled"):
            raise ConfigError(f"flush_trigger is {self.mode!r}; it is always, never or throttled.")
        _duration("flush_trigger", self.gap)
        if self.mode != "throttled" and self.gap:
            raise ConfigError(f"flush_trigger {self.mode!r} takes no gap; use FlushTrigger.throttled({self.gap!r}).")

    @classmethod
    def always(cls) -> "FlushTrigger":
        """Flush at the end of every call."""
        return cls("always")

    @classmethod
    def never(cls) -> "FlushTrigger":
        """Never flush at the end of a call."""
        return cls("never")

    @classmethod
    def throttled(cls, gap: timedelta) -> "FlushTrigger":
        """Flush at the end of a call when the last flush of that isolation key is at least `gap` ago; 0 means always.

        Raises:
            ConfigError: The gap is negative or no timedelta.
        """
        _duration("flush_trigger", gap)
        return cls("throttled", gap) if gap else cls("always")


@dataclass(frozen=True, slots=True)
class MemoryConfig:
    """The knobs of flush, consolidation and maintenance. Every field has a default that suits most projects.

    Args:
        model: The model for flush and consolidation: a `ChatModel`, a pydantic-ai model, an async function or
            `"provider:model"`. None means the one that the ledger, or the agent, has.
        flush_prompt: The system prompt of the flush; None means the built-in one of the ledger's locale.
        consolidation_prompt: A template with exactly two `%d`: the limit of `MEMORY.md` in tokens, then in characters.
        consolidation_max_tokens: The limit of `MEMORY.md`.
        consolidation_min_gap: Background maintenance runs at most this often.
        daily_file_retention_days: Older daily files are moved to `memory/archive/`.
        session_retention_days: Transcripts (`*.log.jsonl`) that were not touched for longer are deleted.
        flush_trigger: When the flush at the end of a call runs.

    Raises:
        ConfigError: A value is outside what is allowed; the sentence says what is.
    """

    model: Any = None
    flush_prompt: str | None = None
    consolidation_prompt: str | None = None
    consolidation_max_tokens: int = 4_000
    consolidation_min_gap: timedelta = timedelta(minutes=30)
    daily_file_retention_days: int = 90
    session_retention_days: int = 180
    flush_trigger: FlushTrigger = FlushTrigger()

    def __post_init__(self) -> None:
        for name in ("consolidation_max_tokens", "daily_file_retention_days", "session_retention_days"):
            _positive(name, getattr(self, name))
        _duration("consolidation_min_gap", self.consolidation_min_gap)
        if not isinstance(self.flush_trigger, FlushTrigger):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(
                f"flush_trigger is {self.flush_trigger!r}; use FlushTrigger.always(), .never() or .throttled(gap)."
            )
        _prompt("flush_prompt", self.flush_prompt)
        _prompt("consolidation_prompt", self.consolidation_prompt)
        if self.consolidation_prompt is not None:
            check_template(self.consolidation_prompt)

    def flush_system(self, locale: str) -> str:
        """Return the system prompt of the flush."""
        return default_flush_prompt(locale) if self.flush_prompt is None else self.flush_prompt

    def consolidation_system(self, locale: str) -> str:
        """Return the system prompt of the consolidation with its limits filled in."""
        template = self.consolidation_prompt or default_consolidation_prompt(locale)
        limit = self.consolidation_max_tokens
        return template % (limit, CHARS_PER_TOKEN * limit)

    @classmethod
    def from_mapping(cls, values: dict[str, Any]) -> "MemoryConfig":
        """Build a config from names and plain values, as a settings file gives them.

        Durations are seconds; `flush_trigger` is `"always"`, `"never"` or a number of seconds.

        Raises:
            ConfigError: A name is unknown or a value is not allowed.
        """
        known = [field.name for field in fields(cls)]
        unknown = [name for name in values if name not in known]
        if unknown:
            raise ConfigError(f"MemoryConfig has no field {unknown[0]!r}. There are: {', '.join(known)}.")
        ready = dict(values)
        if "consolidation_min_gap" in ready:
            ready["consolidation_min_gap"] = _seconds("consolidation_min_gap", ready["consolidation_min_gap"])
        trigger = ready.get("flush_trigger")
        if trigger in ("always", "never"):
            ready["flush_trigger"] = FlushTrigger.always() if trigger == "always" else FlushTrigger.never()
        elif trigger is not None and not isinstance(trigger, FlushTrigger):
            ready["flush_trigger"] = FlushTrigger.throttled(_seconds("flush_trigger", trigger))
        return cls(**ready)
