"""A command line that touches nothing but a temporary directory."""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from memory_core.cli.run import run


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Cli = Callable[..., Result]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    for variable in [name for name in os.environ if name.startswith(("MEMORY_CORE_", "XDG_"))]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("HOME", str(home))
    return home


@pytest.fixture
def workspace(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    assert home.is_dir()
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    monkeypatch.chdir(workspace)
    return workspace


@pytest.fixture
def cli(workspace: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    assert workspace.is_dir()

    def call(*args: str) -> Result:
        capsys.readouterr()
        code = run(args)
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        return Result(code, captured.out, captured.err)

    return call


def one_sentence(err: str) -> bool:
    """Whether stderr holds exactly one line that names the program."""
    return err.count("\n") == 1 and err.startswith("memory-core: ")
