from collections.abc import Callable
from pathlib import Path

import pytest

from memory_core import MemorySolutionProvider
from memory_core.loading import load_provider
from memory_core.testing import ProviderContract


class TestWorkspaceProvider(ProviderContract):
    @pytest.fixture
    def open_provider(self, tmp_path: Path) -> Callable[[], MemorySolutionProvider]:
        return lambda: load_provider(tmp_path, overrides={"home": str(tmp_path / "home")})
