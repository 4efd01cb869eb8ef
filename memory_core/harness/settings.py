"""What of an engine can be read and changed while it runs."""

from pathlib import Path
from typing import Any, overload

from memory_core.harness.capabilities import LedgerCapability
from memory_core.ledger.ledger import Ledger
from memory_core.talent.settings import Count
from memory_core.talent.talent import MemoryTalent


class OfTalent:
    """A setting of an engine's talent as a setting of the engine, under a name of its own."""

    def __init__(self, name: str, doc: str) -> None:
        self._name = name
        self.__doc__ = doc

    @overload
    def __get__(self, engine: None, kind: type[Any]) -> "OfTalent": ...
    @overload
    def __get__(self, engine: "EngineSettings", kind: type[Any] | None = None) -> int: ...
    def __get__(self, engine: "EngineSettings | None", kind: type[Any] | None = None) -> "int | OfTalent":
        if engine is None:
            return self
        value: int = getattr(engine.memory_talent, self._name)
        return value

    def __set__(self, engine: "EngineSettings", value: int) -> None:
        setattr(engine.memory_talent, self._name, value)


class EngineSettings:
    """The half of `HarnessEngine` that has its settings; the engine sets the attributes.

    A number that is out of its range raises `BudgetError`.
    """

    home: Path
    memory_talent: MemoryTalent
    _nothing: bool
    _memory_enabled: bool
    _ledger: Ledger | None
    _ledger_capability: LedgerCapability | None

    session_window_size = Count("How many messages of its session a new prompt carries.")
    memory_relevance_count = OfTalent("relevance_count", "How many memories that fit the input are injected at most.")
    memory_priority_count = OfTalent("priority_count", "How many hot memories are injected beside them.")
    memory_summary_length = OfTalent("summary_length", "Characters of a summary in the `*` listing.")

    @property
    def memory_enabled(self) -> bool:
        """Whether there is a memory at all."""
        return self._memory_enabled

    @memory_enabled.setter
    def memory_enabled(self, value: bool) -> None:
        self._memory_enabled = value
        self.memory_talent.enabled = value and not self._nothing
        if self._ledger_capability is not None:
            self._ledger_capability.enabled = value

    @property
    def harness_sessions(self) -> Path:
        """Where sessions and transcripts lie unless configured otherwise."""
        return self.home / "sessions"

    @property
    def harness_memory(self) -> Path:
        """Where a memory provider of your own may keep its files."""
        return self.home / "memory"

    @property
    def ledger(self) -> Ledger | None:
        """The ledger, when there is one."""
        return self._ledger
