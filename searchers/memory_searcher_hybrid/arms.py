"""The arms by name, and what is known of their failures. What an arm raises is its own failure, not the hybrid's."""

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from threading import Lock
from typing import Literal, TypeVar

from memory_core.contracts import MemorySearcher
from memory_core.errors import IndexUnavailableError, StorerError

log = logging.getLogger(__name__)

Operation = Literal["follow", "search", "list"]
RETRY_S = 10.0
"""How long an arm is left alone that did not answer in time, or could not follow the store."""

T = TypeVar("T")


class Arms:
    """Asks arms so that one that fails is remembered and the others are heard."""

    def __init__(self, arms: Mapping[str, MemorySearcher]) -> None:
        self.by_name = dict(arms)
        self._failures: dict[tuple[str, Operation], str] = {}
        self._rests_until: dict[tuple[str, Operation], float] = {}
        self._lock = Lock()

    def report(self, name: str, operation: Operation, error: Exception | None, rest_s: float = 0.0) -> None:
        """Remember what an attempt gave; the log is told when that changes."""
        with self._lock:
            before = self._failures.pop((name, operation), None)
            self._rests_until.pop((name, operation), None)
            if error is not None:
                self._failures[name, operation] = str(error) or type(error).__name__
                self._rests_until[name, operation] = time.monotonic() + rest_s
        if error is not None and before is None:
            log.warning("The arm %r failed to %s: %s", name, operation, type(error).__name__)
        elif error is None and before is not None:
            log.info("The arm %r can %s again", name, operation)

    def resting(self, name: str, operation: Operation) -> bool:
        """Whether the arm failed so lately that it is not asked again yet."""
        with self._lock:
            return time.monotonic() < self._rests_until.get((name, operation), 0.0)

    def failures(self, only: Operation | None = None) -> dict[str, str]:
        """Return the reason for each arm that fails now, in anything or in one operation."""
        with self._lock:
            found = sorted(self._failures.items())
        return {name: reason for (name, operation), reason in found if only in (None, operation)}

    def attempt(self, name: str, operation: Operation, run: Callable[[MemorySearcher], T], otherwise: T) -> T:
        """Ask one arm; return `otherwise` when it raises.

        Raises:
            StorerError: The store failed, which concerns everybody.

        """
        try:
            result = run(self.by_name[name])
        except StorerError:
            raise
        except Exception as error:  # noqa: BLE001 - an arm is a plugin and may raise anything; the others answer
            self.report(name, operation, error)
            return otherwise
        if (name, operation) in self._failures:
            self.report(name, operation, None)
        return result

    def each(self, names: Iterable[str], operation: Operation, run: Callable[[MemorySearcher], T]) -> dict[str, T]:
        """Ask some arms one after another and return what they gave; at least one must answer.

        Raises:
            IndexUnavailableError: None did.

        """
        asked = list(names)
        found: dict[str, T] = {}
        for name in asked:
            answers: list[T] = self.attempt(name, operation, lambda arm: [run(arm)], [])
            if answers:
                found[name] = answers[0]
        if not found:
            raise self.nobody(asked)
        return found

    def nobody(self, names: Iterable[str]) -> IndexUnavailableError:
        """Return the error for when no arm answers."""
        known = self.failures()
        reasons = "; ".join(f"{name}: {known.get(name, 'no answer')}" for name in names)
        return IndexUnavailableError(
            f"No arm of the hybrid search answers ({reasons}). `memory-core doctor` says more."
        )
