from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from memory_core.contracts import MemorySearcher
from memory_core.ledger import Ledger
from memory_core.testing import FakeClock

from .texts import Make, write

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


@pytest.fixture
def filled(make: Make, tmp_path: Path) -> Ledger:
    write(tmp_path, "MEMORY.md", "# Memory\n\n- 用户喜欢使用Solon框架写代码\n- The user lives in Basel\n")
    write(
        tmp_path,
        "memory/2026-06-01.md",
        "# 2026-06-01\n\n## 10:00:00 +00:00\n\n- The build runs on Redis 7\n  and C++20\n",
    )
    write(
        tmp_path,
        "memory/2026-06-02.md",
        "- The user's cat 猫 is ill\n- plan: 3.11 → 3.12\n- The user lives in Basel.\n",
    )
    write(tmp_path, "memory/archive/2025-01-01.md", "- archived penguin\n")
    write(tmp_path, "memory/.hidden.md", "- hidden penguin\n")
    write(tmp_path, "memory/data.json", "penguin")
    return make()
