"""The code in docs/sessions.md runs, and the package's names are what it says."""

import re
from pathlib import Path

import pytest

import memory_core.sessions as package

TEXT = (Path(__file__).parents[2] / "docs" / "sessions.md").read_text("utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


def test_the_code_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    assert len(BLOCKS) == 4
    for block in BLOCKS:
        exec(compile(block, "docs/sessions.md", "exec"), {"__name__": "docs"})
    assert "We decided to use Solon." in capsys.readouterr().out


def test_every_public_name_is_there() -> None:
    for name in package.__all__:
        assert getattr(package, name) is not None
    with pytest.raises(AttributeError, match="Nothing"):
        getattr(package, "Nothing")  # noqa: B009 - the error is meant
