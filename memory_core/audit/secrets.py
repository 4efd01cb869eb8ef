r"""Finds what looks like a secret: keys, tokens, passwords, card numbers, also in the middle of Chinese text.

Two detectors together: the patterns below, and the detectors of the package detect-secrets when it is installed.
Both see a copy of the text in which full-width characters are plain, invisible characters are gone, and everything
else that is not ASCII is a blank: there, `凭证为sk_test_…` has a boundary before `sk`, which `\b` does not see in the
original, where Han characters count as letters.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any

EXTRA = "redact"
_NOT_USED = ("base", "high_entropy_strings", "ip_public", "keyword", "basic_auth", "jwt", "openai")
"""Modules of detect-secrets that guess (random-looking text, addresses, words such as `secret` in code), and those
whose patterns take quadratic time on hostile text; the patterns here find the same and do not."""

_CHUNK, _OVERLAP = 2_000, 300
"""The package's patterns are made for lines of code: they see so many characters at a time."""

_START, _END = r"(?<![A-Za-z0-9])", r"(?![A-Za-z0-9])"
_PEM = r"-----{} [A-Z0-9 ]{{0,40}}PRIVATE KEY(?: BLOCK)?-----"
_TOKENS: tuple[tuple[str, str], ...] = (
    ("private key", _PEM.format("BEGIN") + r"(?:(?:(?!-----)[\s\S]){0,20000}" + _PEM.format("END") + ")?"),
    ("API key", _START + r"(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{8,}"),
    ("API key", _START + r"sk-(?=[A-Za-z_-]{0,100}[0-9])[A-Za-z0-9_-]{20,}"),
    ("access token", _START + r"gh[pousr]_[A-Za-z0-9]{30,}"),
    ("access token", _START + r"github_pat_[A-Za-z0-9_]{30,}"),
    ("access token", _START + r"glpat-[A-Za-z0-9_-]{20,}"),
    ("access token", _START + r"xox[abeoprs]-[A-Za-z0-9-]{10,}"),
    ("access token", _START + r"hf_[A-Za-z0-9]{30,}" + _END),
    ("access token", _START + r"npm_[A-Za-z0-9]{36}" + _END),
    ("access token", _START + r"pypi-[A-Za-z0-9_-]{50,}"),
    ("API key", _START + r"AIza[A-Za-z0-9_-]{35}" + _END),
    ("API key", _START + r"(?:AKIA|ASIA|ABIA|ACCA)[0-9A-Z]{16}" + _END),
    ("API key", _START + r"LTAI[A-Za-z0-9]{12,26}" + _END),
    ("JSON web token", r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"),
    ("bearer token", r"(?i:(?<![a-z])bearer)\s+(?P<secret>[A-Za-z0-9._~+/=-]{16,})"),
    ("password in a URL", r"[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s/?#@:]{0,200}:(?P<secret>[^\s/?#@]{1,200})@"),
)  # fmt: skip
_LOGIN_WORDS = (
    r"(?:pass(?:word|wd|phrase|code)|pwd|pin code|contraseña|passwort|mot de passe"
    r"|密码|口令|密碼|暗証番号|パスワード|비밀번호)"
)
_KEY_WORDS = (
    r"(?:(?:api|access|secret|private|auth|account|encryption)[ _-]?key|secret"
    r"|(?:access|auth|api|refresh|bearer)?[ _-]?token|credentials?|密钥|令牌|凭证|凭据|金鑰|秘钥|私钥)"
)
_IS = r"(?:\s{0,3}(?:=>|:=|=|:)\s{0,3}|\s{0,3}(?:为|是|設為|は|\bis\b|\bwas\b)\s{0,3}(?:[=:]\s{0,3})?)"
_QUOTE = r"[\"'`“「《]?"


def _assignment(words: str, chars: int) -> re.Pattern[str]:
    return re.compile(rf"(?<![A-Za-z])(?i:{words})[\"'`”」]?{_IS}{_QUOTE}(?P<secret>[!-~]{{{chars},200}})")


_ASSIGNED: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("password", _assignment(_LOGIN_WORDS, 4)),
    ("key or token", _assignment(_KEY_WORDS, 8)),
)
_PLACEHOLDER = re.compile(
    r"[<$\[{%*.(]|~?/[\w.-]*(?:/|$)|(?:os|process)\.env|x{3,}|\*{3,}|(?:none|null|true|false|undefined)\b"
    r"|(?:changeme|redacted|required)\b",
    re.IGNORECASE,
)
_QUOTES = "\"'`”」》"
_CARD = re.compile(r"(?<![0-9A-Za-z.+-])(?:[0-9](?:[ -](?=[0-9]))?){12,18}[0-9](?![0-9A-Za-z]|\.[0-9]|-[0-9A-Za-z])")
_CARD_ISSUERS: tuple[tuple[re.Pattern[str], tuple[int, ...]], ...] = (
    (re.compile(r"4"), (13, 16, 19)),
    (re.compile(r"5[1-5]|222[1-9]|22[3-9]|2[3-6]|27[01]|2720"), (16,)),
    (re.compile(r"3[47]"), (15,)),
    (re.compile(r"3(?:0[0-5]|6|8)"), (14,)),
    (re.compile(r"35"), (16,)),
    (re.compile(r"6(?:011|4[4-9]|5)|62|81"), (16, 17, 18, 19)),
)
"""How each issuer's numbers begin, and their lengths (ISO/IEC 7812)."""
_SENSITIVE_NAME = re.compile(rf"(?i:(?:^|[^a-z])(?:(?P<password>{_LOGIN_WORDS})|{_KEY_WORDS})$)")

_PATTERNS = tuple((kind, re.compile(pattern)) for kind, pattern in _TOKENS)


@dataclass(frozen=True, slots=True, order=True)
class Secret:
    """Where something that looks like a secret stands in a text, and what kind it is; never the secret itself."""

    start: int
    end: int
    kind: str


def sensitive_field(name: str, value: object) -> bool:
    """Whether a field of this name holds a secret, such as `api_key` or `密码`; a number only under a password's name.

    (`{"token": 500}` counts tokens, `{"password": 123456}` is one.)
    """
    match = _SENSITIVE_NAME.search(unicodedata.normalize("NFKC", name).strip())
    if match is None or value is None or isinstance(value, bool | dict | list):
        return False
    return bool(str(value).strip()) and (isinstance(value, str) or match["password"] is not None)


def find_secrets(text: str) -> list[Secret]:
    """Return what looks like a secret in `text`, in order, without overlaps.

    Detect-secrets' detectors take part when the package is installed (`detectors_installed`).
    """
    plain, places = _plain(text)
    ascii_only = "".join(char if char.isascii() else " " for char in plain)
    found = [*_by_pattern(ascii_only), *_assigned(plain), *_cards(ascii_only), *_detected(ascii_only)]
    return _merged(Secret(places[one.start], places[one.end - 1] + 1, one.kind) for one in found if one.end > one.start)


def detectors_installed() -> bool:
    """Whether the package detect-secrets is there."""
    return bool(_detectors())


def require_detectors() -> None:
    """Load detect-secrets.

    Raises:
        ModuleNotFoundError: It is not installed.

    """
    import_module("detect_secrets.plugins.base")


def luhn(digits: str) -> bool:
    """Whether the last digit fits the others (ISO/IEC 7812-1, Annex B)."""
    total = 0
    for place, char in enumerate(reversed(digits)):
        value = int(char) * (1 + place % 2)
        total += value - 9 if value > 9 else value
    return total % 10 == 0


def _plain(text: str) -> tuple[str, list[int]]:
    """Return `text` with full-width characters made plain and invisible ones dropped, and where each one stood."""
    if text.isascii():
        return text, list(range(len(text)))
    chars: list[str] = []
    places: list[int] = []
    for place, char in enumerate(text):
        if not char.isascii():
            if unicodedata.category(char) == "Cf":
                continue
            wide = unicodedata.normalize("NFKC", char)
            char = wide if len(wide) == 1 else " "  # noqa: PLW2901 - the character as it is compared
        chars.append(char)
        places.append(place)
    return "".join(chars), places


def _by_pattern(text: str) -> Iterator[Secret]:
    for kind, pattern in _PATTERNS:
        for match in pattern.finditer(text):
            group = "secret" if "secret" in pattern.groupindex else 0
            if not _PLACEHOLDER.match(match[group]):
                yield Secret(match.start(group), match.end(group), kind)


def _assigned(text: str) -> Iterator[Secret]:
    """Find `password = …`, `密码为…`, `the token is …`.

    After a verb the value must hold a digit or a sign, else every sentence about passwords would count.
    """
    for kind, pattern in _ASSIGNED:
        for match in pattern.finditer(text):
            value = match["secret"].rstrip(".,;:!?)]}>" + _QUOTES)
            if len(value) < 4 or _PLACEHOLDER.match(value):
                continue
            written = text[match.start() : match.start("secret")].rstrip(" \"'`“「《")
            plain_word = value.isalpha() or not any(char.isalnum() for char in value)
            if plain_word and (kind != "password" or written[-1:] not in "=:"):
                continue
            yield Secret(match.start("secret"), match.start("secret") + len(value), kind)


def _cards(text: str) -> Iterator[Secret]:
    for match in _CARD.finditer(text):
        digits = re.sub(r"[ -]", "", match.group())
        issued = any(start.match(digits) and len(digits) in lengths for start, lengths in _CARD_ISSUERS)
        if issued and luhn(digits):
            yield Secret(match.start(), match.end(), "card number")


def _detected(text: str) -> Iterator[Secret]:
    for start in range(0, max(1, len(text) - _OVERLAP), _CHUNK - _OVERLAP):
        chunk = text[start : start + _CHUNK]
        for kind, pattern in _detectors():
            for match in pattern.finditer(chunk):
                group = next((n for n in range(1, pattern.groups + 1) if len(match[n] or "") >= 16), 0)
                yield Secret(start + match.start(group), start + match.end(group), kind)


@lru_cache(maxsize=1)
def _detectors() -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Return (kind, pattern) of the installed detectors; nothing when the package is absent.

    The patterns are run here and not by the package, whose `analyze_string` gives only the group of a match, so
    `ghp` of a whole GitHub token.
    """
    try:
        import pkgutil

        plugins = import_module("detect_secrets.plugins")
        base: Any = import_module("detect_secrets.plugins.base").RegexBasedDetector
    except ModuleNotFoundError:
        return ()
    found: dict[str, tuple[str, re.Pattern[str]]] = {}
    for module_info in pkgutil.iter_modules(plugins.__path__):
        if module_info.name in _NOT_USED:
            continue
        for detector in vars(import_module(f"detect_secrets.plugins.{module_info.name}")).values():
            if isinstance(detector, type) and issubclass(detector, base) and detector is not base:
                kind: Any = detector
                for pattern in kind.denylist:
                    found[pattern.pattern] = (str(kind.secret_type), pattern)
    return tuple(found.values())


def _merged(found: Iterator[Secret]) -> list[Secret]:
    """Return the findings without overlaps: what overlaps becomes one, of the kind that was found first."""
    merged: list[Secret] = []
    for one in sorted(found):
        if merged and one.start < merged[-1].end:
            merged[-1] = Secret(merged[-1].start, max(merged[-1].end, one.end), merged[-1].kind)
        else:
            merged.append(one)
    return merged
