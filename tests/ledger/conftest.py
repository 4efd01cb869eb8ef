from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from memory_core.contracts import MemorySearcher
from memory_core.ledger import Ledger
from memory_core.testing import FakeClock

NOON = datetime(2026, 6, 2, 12, 0, tzinfo=UTC)


def fulltext() -> MemorySearcher:
    from memory_searcher_fulltext.searcher import FulltextSearcher

    return FulltextSearcher()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(NOON)


@pytest.fixture
def make(tmp_path: Path, clock: FakeClock) -> Callable[..., Ledger]:
    """Return a function that opens a ledger on one workspace; each call is another handle."""

    def open_ledger(model: Any = None, config: Any = None, **more: Any) -> Ledger:
        return Ledger(tmp_path, model, config, clock, more.pop("timezone", "UTC"), searcher=fulltext, **more)

    return open_ledger
