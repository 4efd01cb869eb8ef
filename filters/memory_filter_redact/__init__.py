"""The filter `redact`: keeps keys, tokens, passwords and card numbers out of the store. Off until configured."""

from typing import Any, Literal

from pydantic import Field

from memory_core.options import Options
from memory_core.plugins import hookimpl

NAME = "redact"


class RedactOptions(Options):
    """`[filters.redact]`, in use with `filter = ["redact"]`.

    `mode` is `redact` (the secret is replaced by `[REDACTED: kind]`) or `refuse` (nothing is stored). `allow` are
    texts that are no secrets here, such as a published test key.
    """

    mode: Literal["redact", "refuse"] = "redact"
    allow: list[str] = Field(default=[])


def build(options: RedactOptions, context: Any) -> Any:
    """Build the filter; the detectors are imported only now."""
    del context
    from memory_filter_redact.redact import Redactor

    return Redactor(options)


@hookimpl
def register_backends(register: Any) -> None:
    """Register the filter `redact`."""
    register.filter(NAME, build, RedactOptions, extra="redact")


__all__ = ["NAME", "RedactOptions"]
