"""The package is found through its entry points, and its backends work together with the others."""

from pathlib import Path

import pytest

from memory_core import load_provider
from memory_core.plugins import get_registry

BACKENDS = (
    ("storer", "logfile"),
    ("searcher", "overlap"),
)


@pytest.mark.parametrize(("kind", "name"), BACKENDS)
def test_the_backend_is_installed_and_used(kind: str, name: str, tmp_path: Path) -> None:
    assert name in {backend.name for backend in get_registry().backends() if backend.kind == kind}
    provider = load_provider(tmp_path, overrides={kind: name, "home": str(tmp_path / "home")})
    solution = provider.get(tmp_path)
    solution.remember("stack", "使用Solon框架")
    assert [hit.entry.id.key for hit in solution.search("框架")] == ["stack"]
    solution.remember("stack", "Writes Go")
    assert [hit.entry.content for hit in solution.search("which Go?")] == ["Writes Go"]
    assert solution.forget("stack") == ("workspace",)
    assert solution.search("Go") == []
    provider.close()
