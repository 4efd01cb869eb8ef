"""How an engine is: what waits, what failed, what store, index, ledger and transcripts complain about."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from memory_core.contracts import Problem
from memory_core.harness.background import Failure


@dataclass(frozen=True, slots=True)
class Health:
    """`pending` jobs have not finished; `failures` did, oldest first, and failed; `problems` is what is wrong now."""

    pending: int
    failures: tuple[Failure, ...]
    problems: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing failed and nothing is wrong."""
        return not self.failures and not self.problems


def collect(sources: Iterable[tuple[str, Callable[[], Iterable[Problem]]]]) -> tuple[str, ...]:
    """Ask every source for its problems; one that cannot say is a problem itself."""
    found: list[str] = []
    for name, ask in sources:
        try:
            found += (
                f"{name}: {problem.code}: {problem.message} {problem.advice}".rstrip()
                for problem in ask()
                if problem.severity != "info"
            )
        except Exception as error:  # noqa: BLE001 - a health check reports, it never fails
            found.append(f"{name}: {type(error).__name__}: {error}")
    return tuple(found)
