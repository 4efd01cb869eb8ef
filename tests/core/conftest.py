"""A solution over a real store that can be made to fail, on a clock that is set by hand."""

from pathlib import Path
from typing import Any

import pytest

from .fakes import make_solution


@pytest.fixture
def parts(tmp_path: Path) -> Any:
    made = make_solution(tmp_path)
    yield made
    made[0].close()
