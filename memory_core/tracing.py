"""Spans for OpenTelemetry, when the program uses it: ids, counts and milliseconds, never text.

Nothing is imported here: a program that records spans has loaded `opentelemetry.trace` itself, and where it is not
loaded nobody records. The cost is then one look into a dictionary.
"""

import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, TypeAlias

Attribute: TypeAlias = str | int | float | bool

_TRACER = "memory_core"


class Span:
    """One operation under way; `set` adds what is known only later. Does nothing when nobody records."""

    __slots__ = ("_span",)

    def __init__(self, span: Any = None) -> None:
        self._span = span

    def set(self, name: str, value: Attribute) -> None:
        """Add an attribute: an id, a count, a duration; never text that a user, a model or a store gave."""
        if self._span is not None:
            self._span.set_attribute(name, value)

    def __enter__(self) -> "Span":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


_OFF = Span()


def span(name: str, **attributes: Attribute) -> "Any":
    """Return a context manager around one operation, giving its `Span`.

    Attributes are named `memory.<name>`; `memory.ms` is added at the end, and `memory.error`, the class of an error
    that leaves the block: its words may hold what was stored.
    """
    api = sys.modules.get("opentelemetry.trace")
    return _OFF if api is None else _recorded(api, name, attributes)


@contextmanager
def _recorded(api: Any, name: str, attributes: dict[str, Attribute]) -> Generator[Span, None, None]:
    started = time.perf_counter()
    named = {f"memory.{key}": value for key, value in attributes.items()}
    tracer = api.get_tracer(_TRACER)
    with tracer.start_as_current_span(
        name, attributes=named, record_exception=False, set_status_on_exception=False
    ) as recorded:
        try:
            yield Span(recorded)
        except BaseException as error:
            recorded.set_attribute("memory.error", type(error).__name__)
            raise
        finally:
            recorded.set_attribute("memory.ms", round((time.perf_counter() - started) * 1000, 3))
