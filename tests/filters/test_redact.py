"""The filter `redact`: off by default; redacts or refuses; leaves what is no secret alone."""

import sys
from pathlib import Path
from typing import Any

import pytest

from memory_core import load_provider
from memory_core.audit import secrets
from memory_core.errors import ConfigError, MissingExtraError, VetoedError
from memory_core.testing import NASTY_CONTENTS, NASTY_KEYS, make_entry
from memory_filter_redact import RedactOptions
from memory_filter_redact.redact import Redactor
from tests.audit.test_secrets import CARD, GITHUB, STRIPE, TOKENS


@pytest.fixture
def redact() -> Redactor:
    return Redactor(RedactOptions())


@pytest.fixture
def refuse() -> Redactor:
    return Redactor(RedactOptions(mode="refuse"))


@pytest.mark.parametrize("token", TOKENS)
def test_secrets_in_the_content_are_replaced(redact: Redactor, token: str) -> None:
    entry = redact(make_entry(content=f"凭证为{token}，请保存 and go on"))
    assert token not in entry.content
    assert entry.content.startswith("凭证为[REDACTED: ")
    assert entry.content.endswith("]，请保存 and go on")
    assert redact(entry) is entry


def test_every_place_is_looked_at(redact: Redactor) -> None:
    entry = redact(
        make_entry(
            content=f"密码：hunter2, card {CARD}, token {GITHUB}",
            source=f"import:{STRIPE}",
            metadata={
                "note": f"用{STRIPE}登录",
                "password": "correct horse",
                "pin": {"db_password": 123456, "list": ["plain", f"x {GITHUB}", {"api_key": "abc"}]},
                "card": int(CARD),
                "token": 500,
                "flag": True,
                "none": None,
            },
        )
    )
    assert entry.content == "密码：[REDACTED: password], card [REDACTED: card number], token [REDACTED: GitHub Token]"
    assert entry.source == "import:[REDACTED: API key]"
    assert entry.metadata == {
        "note": "用[REDACTED: API key]登录",
        "password": "[REDACTED: secret field]",
        "pin": {
            "db_password": "[REDACTED: secret field]",
            "list": ["plain", "x [REDACTED: GitHub Token]", {"api_key": "[REDACTED: secret field]"}],
        },
        "card": "[REDACTED: card number]",
        "token": 500,
        "flag": True,
        "none": None,
    }
    assert redact(entry) is entry


@pytest.mark.parametrize(
    "fields",
    [
        {"content": f"凭证为{STRIPE}"},
        {"content": "密码：hunter2"},
        {"content": "x", "source": GITHUB},
        {"content": "x", "metadata": {"a": [{"b": f"卡号{CARD}"}]}},
        {"content": "x", "metadata": {"password": "x"}},
        {"content": "x", "metadata": {GITHUB: "x"}},
        {"content": "x", "key": f"钥匙{STRIPE}"},
    ],
)
def test_refusing_names_the_kind_and_never_the_secret(refuse: Redactor, fields: dict[str, Any]) -> None:
    with pytest.raises(VetoedError) as caught:
        refuse(make_entry(**fields))
    message = str(caught.value)
    assert "looks like a secret" in message
    for secret in (STRIPE, GITHUB, CARD, "hunter2"):
        assert secret not in message


def test_a_secret_in_a_key_is_refused_in_both_modes(redact: Redactor) -> None:
    for entry in (make_entry(GITHUB), make_entry(metadata={GITHUB: 1})):
        with pytest.raises(VetoedError):
            redact(entry)


def test_ordinary_memories_pass_untouched(redact: Redactor, refuse: Redactor) -> None:
    for key in NASTY_KEYS:
        entry = make_entry(key)
        assert redact(entry) is entry
    for content in NASTY_CONTENTS:
        entry = make_entry(content=content, metadata={"x": content})
        assert redact(entry) is entry
        assert refuse(entry) is entry


def test_allowed_texts_pass() -> None:
    entry = make_entry(content=f"the documented test key {STRIPE}", metadata={"password": "demo"})
    assert Redactor(RedactOptions(allow=[STRIPE, "demo"]))(entry) is entry


def test_it_is_off_until_configured_and_then_holds_for_every_write(tmp_path: Path) -> None:
    overrides = {"home": str(tmp_path / "home")}
    open_provider = load_provider(tmp_path, overrides=overrides)
    stored = open_provider.get(tmp_path).remember("k", f"凭证为{STRIPE}").entry
    assert STRIPE in stored.content
    open_provider.close()

    closed = load_provider(tmp_path, overrides={**overrides, "filter": ["redact"]})
    solution = closed.get(tmp_path)
    assert STRIPE not in solution.remember("k", f"凭证为{STRIPE}").entry.content
    assert STRIPE not in solution.consolidate(["k"], "k2", f"凭证为{STRIPE}").entry.content
    assert STRIPE not in "".join(path.read_text("utf-8") for path in tmp_path.rglob("*.md"))
    closed.close()

    refusing = load_provider(
        tmp_path, overrides={**overrides, "filter": ["redact"], "filters": {"redact": {"mode": "refuse"}}}
    )
    with pytest.raises(VetoedError):
        refusing.get(tmp_path).remember("k3", f"凭证为{STRIPE}")
    assert refusing.get(tmp_path).recall("k3") is None
    refusing.close()


def test_a_missing_package_is_an_instruction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "detect_secrets"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "detect_secrets", None)
    monkeypatch.setitem(sys.modules, "detect_secrets.plugins.base", None)
    overrides = {"home": str(tmp_path / "home"), "filter": ["redact"]}
    with pytest.raises(MissingExtraError, match=r"memory-talent\[redact\]"):
        load_provider(tmp_path, overrides=overrides).get(tmp_path)
    monkeypatch.undo()
    secrets._detectors.cache_clear()


def test_wrong_options_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="mode"):
        load_provider(tmp_path, overrides={"filters": {"redact": {"mode": "hide"}}})
