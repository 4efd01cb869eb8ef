"""The plugin template lies in the package, wherever it is installed."""

import tomllib
from pathlib import Path

import pytest

from memory_core.cli.plugin_project import write_project


@pytest.mark.parametrize("kind", ["storer", "searcher"])
def test_a_plugin_project_is_written_by_the_installed_package(tmp_path: Path, kind: str) -> None:
    root, files = write_project(kind, "my-own", tmp_path / "project")
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))
    package = f"memory_{kind}_my_own"
    assert project["project"]["entry-points"]["memory_core"] == {f"{kind}-my-own": package}
    assert {
        Path(package, "__init__.py"),
        Path("tests", "test_plugin.py"),
        Path("tests", f"test_my_own_{kind}.py"),
    } <= set(files)
