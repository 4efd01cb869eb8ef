from datetime import timedelta
from typing import Any

import pytest

from memory_core.errors import ConfigError
from memory_core.ledger import (
    DEFAULT_CONSOLIDATION_PROMPT,
    DEFAULT_CONSOLIDATION_PROMPT_ZH,
    DEFAULT_FLUSH_PROMPT,
    DEFAULT_FLUSH_PROMPT_ZH,
    NO_REPLY,
    FlushTrigger,
    MemoryConfig,
)
from memory_core.ledger.prompts import default_consolidation_prompt, default_flush_prompt


def test_defaults_are_those_of_the_original() -> None:
    config = MemoryConfig()
    assert config.model is None
    assert config.consolidation_max_tokens == 4_000
    assert config.consolidation_min_gap == timedelta(minutes=30)
    assert config.daily_file_retention_days == 90
    assert config.session_retention_days == 180
    assert config.flush_trigger == FlushTrigger.always()
    assert config.flush_system("en") == DEFAULT_FLUSH_PROMPT
    assert config.flush_system("zh") == DEFAULT_FLUSH_PROMPT_ZH


@pytest.mark.parametrize("locale", ["en", "zh"])
def test_the_consolidation_prompt_carries_both_limits(locale: str) -> None:
    system = MemoryConfig(consolidation_max_tokens=1_234).consolidation_system(locale)
    assert "1234" in system
    assert "4936" in system
    assert "%" not in system


def test_prompts_can_be_extended() -> None:
    prompt = DEFAULT_FLUSH_PROMPT + "\n- Never record customer PII. 100 % of the time."
    assert MemoryConfig(flush_prompt=prompt).flush_system("zh") == prompt
    template = DEFAULT_CONSOLIDATION_PROMPT_ZH + "\n- 只用中文。"
    assert "只用中文" in MemoryConfig(consolidation_prompt=template).consolidation_system("en")


def test_built_in_prompts_pass_their_own_check() -> None:
    for locale in ("en", "zh"):
        MemoryConfig(consolidation_prompt=default_consolidation_prompt(locale))
        assert NO_REPLY in default_flush_prompt(locale)
    assert default_consolidation_prompt("en") == DEFAULT_CONSOLIDATION_PROMPT


@pytest.mark.parametrize(
    "template",
    [
        "no placeholder",
        "%d only one",
        "%d %d %d",
        "%d %s",
        "%%d %d",
        "%%d %%d",
        "%d %d and 100% sure",
        "%d %d %",
        "%d %5d",
        "%(a)d %d",
        "%d%%d",
        "%i %i",
        "",
        "   ",
    ],
)
def test_other_templates_are_refused_at_construction(template: str) -> None:
    with pytest.raises(ConfigError, match="consolidation_prompt"):
        MemoryConfig(consolidation_prompt=template)


def test_the_sentence_says_what_is_allowed() -> None:
    with pytest.raises(ConfigError, match="exactly two %d"):
        MemoryConfig(consolidation_prompt="%s %d")


@pytest.mark.parametrize("name", ["consolidation_max_tokens", "daily_file_retention_days", "session_retention_days"])
@pytest.mark.parametrize("value", [0, -1, 1.5, "9", True, None, float("nan")])
def test_counts_are_positive_whole_numbers(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=f"{name} is .* at least 1"):
        MemoryConfig(**{name: value})


@pytest.mark.parametrize("value", [timedelta(seconds=-1), 30, "30m", None])
def test_the_gap_is_a_duration_that_is_not_negative(value: Any) -> None:
    with pytest.raises(ConfigError, match="consolidation_min_gap"):
        MemoryConfig(consolidation_min_gap=value)
    assert MemoryConfig(consolidation_min_gap=timedelta(0)).consolidation_min_gap == timedelta(0)


@pytest.mark.parametrize("value", ["always", None, timedelta(1)])
def test_the_trigger_is_a_trigger(value: Any) -> None:
    with pytest.raises(ConfigError, match="flush_trigger"):
        MemoryConfig(flush_trigger=value)


@pytest.mark.parametrize("value", [3, "", "  "])
def test_a_prompt_is_text(value: Any) -> None:
    with pytest.raises(ConfigError, match="flush_prompt"):
        MemoryConfig(flush_prompt=value)


def test_triggers() -> None:
    assert FlushTrigger.throttled(timedelta(0)) == FlushTrigger.always()
    assert FlushTrigger.throttled(timedelta(minutes=10)).gap == timedelta(minutes=10)
    assert FlushTrigger.never().mode == "never"
    for bad in (timedelta(seconds=-1), 5):
        with pytest.raises(ConfigError, match="flush_trigger"):
            FlushTrigger.throttled(bad)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType] - on purpose
    with pytest.raises(ConfigError, match="always, never or throttled"):
        FlushTrigger("sometimes")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType] - on purpose
    with pytest.raises(ConfigError, match="takes no gap"):
        FlushTrigger("never", timedelta(1))


def test_from_plain_values() -> None:
    config = MemoryConfig.from_mapping(
        {"consolidation_min_gap": 7200, "flush_trigger": 600, "daily_file_retention_days": 30}
    )
    assert config.consolidation_min_gap == timedelta(hours=2)
    assert config.flush_trigger == FlushTrigger.throttled(timedelta(minutes=10))
    assert MemoryConfig.from_mapping({"flush_trigger": "never"}).flush_trigger == FlushTrigger.never()
    assert MemoryConfig.from_mapping({"flush_trigger": "always"}).flush_trigger == FlushTrigger.always()
    assert MemoryConfig.from_mapping({"consolidation_min_gap": timedelta(1)}).consolidation_min_gap == timedelta(1)
    assert MemoryConfig.from_mapping({"flush_trigger": FlushTrigger.never()}).flush_trigger == FlushTrigger.never()


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"retention": 3}, "no field 'retention'"),
        ({"flush_trigger": "often"}, "number of seconds"),
        ({"flush_trigger": -4}, "negative"),
        ({"consolidation_min_gap": True}, "number of seconds"),
        ({"consolidation_min_gap": float("nan")}, "no usable duration"),
        ({"consolidation_min_gap": 1e300}, "no usable duration"),
    ],
)
def test_plain_values_that_are_wrong(values: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        MemoryConfig.from_mapping(values)


@pytest.mark.parametrize("name", ["daily_file_retention_days", "session_retention_days"])
def test_no_retention_goes_beyond_the_calendar(name: str) -> None:
    assert getattr(MemoryConfig.from_mapping({name: 100_000}), name) == 100_000
    with pytest.raises(ConfigError, match="at most 100000 days"):
        MemoryConfig.from_mapping({name: 100_001})
