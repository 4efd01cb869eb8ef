"""Replaces or refuses secrets in everything that an entry says: content, metadata, source and key."""

from typing import cast

from memory_core.audit.secrets import Secret, find_secrets, require_detectors, sensitive_field
from memory_core.errors import VetoedError
from memory_core.model import MemoryEntry
from memory_filter_redact import RedactOptions


class Redactor:
    """A `before_store` filter.

    The key is the entry's identity and cannot be changed: a secret in it, or in the name of a metadata field, is
    refused in both modes. Text that was redacted once passes unchanged.

    Raises:
        ModuleNotFoundError: The package detect-secrets is not installed.

    """

    def __init__(self, options: RedactOptions) -> None:
        require_detectors()
        self._refuse = options.mode == "refuse"
        self._allow = frozenset(options.allow)

    def __call__(self, entry: MemoryEntry) -> MemoryEntry:
        """Return the entry without secrets.

        Raises:
            VetoedError: There is one that may not or cannot be replaced; the message names its kind and place, never
                the secret.

        """
        if secrets := self._found(entry.id.key):
            raise VetoedError(_refusal(secrets[0].kind, "in the key", "Choose another key."))
        content = self._clean(entry.content, "in the content")
        source = self._clean(entry.source, "in the source")
        metadata = cast("dict[str, object]", self._clean_value(entry.metadata, ""))
        if content == entry.content and source == entry.source and metadata == entry.metadata:
            return entry
        return entry.model_copy(update={"content": content, "source": source, "metadata": metadata})

    def _found(self, text: str) -> list[Secret]:
        return [secret for secret in find_secrets(text) if text[secret.start : secret.end] not in self._allow]

    def _clean(self, text: str, where: str) -> str:
        secrets = self._found(text)
        if secrets and self._refuse:
            raise VetoedError(_refusal(secrets[0].kind, where, "Store where it is kept instead."))
        for secret in reversed(secrets):
            text = f"{text[: secret.start]}{replacement(secret.kind)}{text[secret.end :]}"
        return text

    def _clean_value(self, value: object, name: str) -> object:
        """Return a metadata value without secrets; `name` is the field that it stands under."""
        if isinstance(value, dict):
            cleaned: dict[str, object] = {}
            for inner, item in cast("dict[str, object]", value).items():
                if secrets := self._found(inner):
                    raise VetoedError(_refusal(secrets[0].kind, "in the name of a metadata field", "Rename it."))
                cleaned[inner] = self._clean_value(item, inner)
            return cleaned
        if isinstance(value, list):
            return [self._clean_value(item, name) for item in cast("list[object]", value)]
        if value is None or isinstance(value, bool):
            return value
        text = str(value)
        kind = "secret field"
        if sensitive_field(name, value) and text not in self._allow and text != replacement(kind):
            if self._refuse:
                raise VetoedError(_refusal(kind, f"in the metadata field {name!r}", "Leave it out."))
            return replacement(kind)
        cleaned_text = self._clean(text, f"in the metadata field {name!r}")
        return value if cleaned_text == text else cleaned_text


def replacement(kind: str) -> str:
    """Return what stands in a secret's place."""
    return f"[REDACTED: {kind}]"


def _refusal(kind: str, where: str, advice: str) -> str:
    found = f"there is what looks like a secret ({kind}) {where}"
    return f"The filter 'redact' refused to store this memory: {found}. {advice}"
