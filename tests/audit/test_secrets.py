"""What looks like a secret, and what only looks a little like one."""

import re
import sys
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_core.audit import secrets
from memory_core.audit.secrets import detectors_installed, find_secrets, luhn, sensitive_field

# Put together here, so that no scanner takes this file for a leak.
STRIPE = "sk_" + "test_4eC39HqLyjWDarjtT1zdp7dc"
GITHUB = "ghp_" + "a1B2" * 9
AWS = "AKIA" + "IOSFODNN7EXAMPLE"
GOOGLE = "AIza" + "Sy0123456789abcdefghijklmnopqrstuvw"[:35].ljust(35, "x")
OPENAI = "sk-proj-" + "Ab1" * 12
SLACK = "xoxb-" + "1234567890-abcdefGHIJ"
JWT = "eyJhbGciOiJIUzI1NiJ9" + ".eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
PEM = (
    "-----BEGIN RSA "
    "PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0A\n\nMIIEow\n-----END RSA "
    "PRIVATE KEY-----"
)
CARD = "4111" + "111111111111"
TOKENS = (
    STRIPE,
    GITHUB,
    AWS,
    GOOGLE,
    OPENAI,
    SLACK,
    JWT,
    PEM,
    CARD,
    "glpat-" + "a1b2c3d4e5f6g7h8i9j0",
    "hf_" + "aB3" * 11,
    "LTAI" + "5t8Zx9Qw3Er7Ty",
)


@pytest.fixture(params=["with detect-secrets", "without"])
def detectors(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[bool]:
    absent = request.param == "without"
    secrets._detectors.cache_clear()
    if absent:
        for name in [name for name in sys.modules if name.split(".")[0] == "detect_secrets"]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setitem(sys.modules, "detect_secrets", None)
    yield not absent
    monkeypatch.undo()
    secrets._detectors.cache_clear()


def found(text: str) -> list[str]:
    return [text[secret.start : secret.end] for secret in find_secrets(text)]


@pytest.mark.parametrize("token", TOKENS)
@pytest.mark.parametrize(
    "frame",
    [
        "{}",
        "the key is {} ok",
        "凭证为{}，请保存",
        "密钥：{}。",
        "ключ={};",
        "「{}」",
        "使用{}部署",
        "\n{}\n",
        "見て{}です",
        "키는 {} 입니다",
    ],
)
def test_tokens_are_found_beside_any_script(detectors: bool, token: str, frame: str) -> None:
    assert detectors_installed() is detectors
    assert found(frame.format(token)) == [token]


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("password: hunter2", "hunter2"),
        ("Password = correcthorse", "correcthorse"),
        ("my PWD=abc!123;", "abc!123"),
        ("passphrase: 'x9-yy-zz'", "x9-yy-zz"),
        ("the password is abc12345.", "abc12345"),
        ("密码：hunter2", "hunter2"),
        ("密码是abc12345。", "abc12345"),
        ("数据库密码为P@ssw0rd，端口5432", "P@ssw0rd"),
        ("口令=letmein99", "letmein99"),
        ("密碼是「abc12345」", "abc12345"),
        ("パスワードはabc123です", "abc123"),
        ("비밀번호: abc12345", "abc12345"),
        ('{"api_key": "a1b2c3d4e5"}', "a1b2c3d4e5"),
        ("access token: a1b2c3d4e5", "a1b2c3d4e5"),
        ("secret=deadbeef01", "deadbeef01"),
        ("密钥为A1b2C3d4E5f6", "A1b2C3d4E5f6"),
        ("令牌：tok_12345678", "tok_12345678"),
        ("redis://:s3cr3t@host:6379/0", "s3cr3t"),
        ("postgres://bob:pa55word@db/x", "pa55word"),
        ("Authorization: Bearer abcdefghij0123456789", "abcdefghij0123456789"),
        ("ｐａｓｓｗｏｒｄ：ｈｕｎｔｅｒ２", "ｈｕｎｔｅｒ２"),
        ("卡号４１１１１１１１１１１１１１１１", "４１１１１１１１１１１１１１１１"),
        ("card 4111-1111-1111-1111 ok", "4111-1111-1111-1111"),
        ("card 5500 0000 0000 0004", "5500 0000 0000 0004"),
        ("amex 378282246310005", "378282246310005"),
        ("银联6200000000000005", "6200000000000005"),
        (f"{STRIPE[:6]}\u200b{STRIPE[6:]}", f"{STRIPE[:6]}\u200b{STRIPE[6:]}"),
    ],
)
def test_passwords_and_cards_are_found(detectors: bool, text: str, secret: str) -> None:
    assert detectors in (True, False)
    assert found(text) == [secret]


@pytest.mark.parametrize(
    "text",
    [
        "The password is required to log in",
        "password policy: see the wiki",
        "我的密码为空",
        "密码要求：至少8位",
        "token: estimate",
        "tokens: 500",
        "max_tokens = 80000",
        "the secret of good code is tests",
        "Key: value pairs are listed below",
        "uuid 41111111-1111-1111-1111-411111111111",
        "4111111111111112",
        "1700000000000000 microseconds",
        "0.4111111111111111",
        "order 1234567890123",
        "commit 9fceb02d0ae598e95dc970b74767f19372d61af8",
        "sk-learn and scikit-learn-contrib-projects",
        "task-skeleton-generator-for-many-things",
        "redis://localhost:6379/0",
        "http://example.com/a:b@c",
        "password = os.environ['DB']",
        "password: ${DB_PASSWORD}",
        "password: <your password>",
        "password: ********",
        "api_key = None",
        "secret: [REDACTED: password]",
        "使用Solon框架写代码",
        "pwd: /home/user/project",
        "2026-11-30 09:46:08.852194+00:00",
        "",
    ],
)
def test_ordinary_text_is_left_alone(detectors: bool, text: str) -> None:
    assert detectors in (True, False)
    assert found(text) == []


@settings(max_examples=200, deadline=None)
@given(text=st.text(max_size=300))
def test_places_lie_within_the_text_and_do_not_overlap(text: str) -> None:
    end = 0
    for secret in find_secrets(text):
        assert end <= secret.start < secret.end <= len(text)
        end = secret.end


@settings(max_examples=100, deadline=None)
@given(before=st.text(max_size=40), after=st.text(max_size=40))
def test_a_token_is_found_in_any_text(before: str, after: str) -> None:
    if re.search(r"[A-Za-z0-9_-]\Z", before) or re.match(r"[A-Za-z0-9_-]", after):
        before, after = before + " ", " " + after
    text = f"{before}，{STRIPE}，{after}"
    assert any(
        secret.start <= len(before) + 1 and secret.end >= len(before) + 1 + len(STRIPE) for secret in find_secrets(text)
    )


@pytest.mark.parametrize(
    "part",
    [
        "a",
        "1 ",
        "://",
        "x://a",
        "password ",
        "密码：",
        "-----BEGIN PRIVATE KEY-----",
        "eyJ",
        "eyJaaaaaaaa.",
        "sk-",
        "sk-1",
        "aws key ",
    ],
)
def test_a_token_behind_hostile_text_is_found(part: str) -> None:
    # Patterns of quadratic time would take minutes here.
    text = part * (50_000 // len(part)) + f"\n，{STRIPE}"
    assert found(text)[-1].endswith(STRIPE)


def test_two_secrets_in_one_text() -> None:
    text = f"密码：hunter2，令牌 {GITHUB}，卡 {CARD}"
    assert found(text) == ["hunter2", GITHUB, CARD]


@pytest.mark.parametrize(
    ("digits", "valid"), [("4111111111111111", True), ("79927398713", True), ("79927398710", False), ("0", True)]
)
def test_luhn(digits: str, valid: bool) -> None:
    assert luhn(digits) is valid


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        ("password", "x", True),
        ("db_password", 123456, True),
        ("API-Key", "abc", True),
        ("密码", "abc", True),
        ("token", "abc", True),
        ("token", 500, False),
        ("tokens", "500", False),
        ("password", "", False),
        ("password", None, False),
        ("password", {"inner": 1}, False),
        ("keyword", "abc", False),
        ("monkey", "abc", False),
        ("secretary", "Ms Li", False),
    ],
)
def test_fields_that_are_secret_by_name(name: str, value: object, secret: bool) -> None:
    assert sensitive_field(name, value) is secret
