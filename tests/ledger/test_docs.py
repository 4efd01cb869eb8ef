import re
import subprocess
import sys
import tomllib
from dataclasses import fields
from pathlib import Path

from memory_core.ledger import MemoryConfig
from memory_core.settings import LedgerSettings

TEXT = (Path(__file__).parent.parent.parent / "docs" / "ledger.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)


def test_the_code_runs_and_prints_what_it_says(tmp_path: Path) -> None:
    (code,) = blocks("python")
    (tmp_path / "home").mkdir()
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=tmp_path,
        env={"HOME": str(tmp_path / "home"), "PATH": "", "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.split("\n")
    assert lines[:2] == ["written", "written"]
    assert "MEMORY.md#3: 用户喜欢使用Solon框架写代码" in lines
    assert "</memory_context>" in lines


def test_the_settings_are_settings() -> None:
    (toml,) = blocks("toml")
    LedgerSettings.model_validate(tomllib.loads(toml)["ledger"])


def test_every_knob_is_documented() -> None:
    for field in fields(MemoryConfig):
        assert f"| `{field.name}` |" in TEXT
        assert field.name in LedgerSettings.model_fields
    assert set(LedgerSettings.model_fields) - {field.name for field in fields(MemoryConfig)} == {"base_url", "timezone"}


def test_settings_and_config_have_the_same_defaults() -> None:
    plain = LedgerSettings().model_dump(exclude={"model", "base_url", "timezone"})
    assert MemoryConfig.from_mapping(plain) == MemoryConfig()
