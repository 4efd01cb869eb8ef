"""Locales by the language they mean, the same everywhere."""

import pytest

from memory_core.errors import ConfigError
from memory_core.ledger.prompts import default_consolidation_prompt, default_flush_prompt
from memory_core.ledger.wording import wording_for
from memory_core.locales import LANGUAGES, language
from memory_core.sessions.wording import session_wording
from memory_core.talent.wording import wording


@pytest.mark.parametrize(("locale", "found"), [("en", "en"), ("EN-us", "en"), ("zh", "zh"), ("zh_TW", "zh")])
def test_a_locale_means_its_language(locale: str, found: str) -> None:
    assert language(locale) == found
    for texts in (wording, wording_for, session_wording, default_flush_prompt, default_consolidation_prompt):
        assert texts(locale) == texts(found)
        assert len({texts(name) for name in LANGUAGES}) == len(LANGUAGES)


@pytest.mark.parametrize("locale", ["fr", "", "z", "eng", "-zh"])
def test_other_languages_are_refused_everywhere(locale: str) -> None:
    for texts in (wording, wording_for, session_wording, default_flush_prompt, default_consolidation_prompt):
        with pytest.raises(ConfigError, match=r"There are: en, zh\."):
            texts(locale)
