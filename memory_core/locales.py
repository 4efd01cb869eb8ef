"""Which of the languages that prompts, tools and answers are written in a locale means."""

from memory_core.errors import ConfigError, did_you_mean

LANGUAGES = ("en", "zh")


def language(locale: str) -> str:
    """Return the language of a locale such as `en`, `zh`, `zh-CN` or `EN_us`: `en` or `zh`.

    Raises:
        ConfigError: Nothing is written in that language.
    """
    found = locale.replace("_", "-").split("-")[0].lower()
    if found not in LANGUAGES:
        raise ConfigError(
            f"There is no locale {locale!r}.{did_you_mean(locale, LANGUAGES)} There are: {', '.join(LANGUAGES)}."
        )
    return found
