"""What the README shows is run: its Python with the output that it promises, its commands, settings and links."""

import importlib
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from memory_core.cli.run import run
from memory_core.config import load_settings

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *(ROOT / "docs" / name for name in ("cli.md", "formats.md", "from-java.md"))]
_BLOCK = re.compile(r"^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)
_TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d")
_NOT_HERE = ("pip install", "pytest", "apt-get", "redis-server")
"""Commands that install or test this package; the first two of the README are run by CI in a fresh environment."""


def blocks(page: Path, *languages: str) -> list[str]:
    return [match["text"] for match in _BLOCK.finditer(page.read_text("utf-8")) if match["language"] in languages]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for variable in [name for name in os.environ if name.startswith(("MEMORY_CORE_", "XDG_"))]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    place = tmp_path / "place"
    place.mkdir()
    monkeypatch.chdir(place)
    return place


def test_the_python_of_the_readme_prints_what_it_promises(place: Path) -> None:
    code, promised = blocks(ROOT / "README.md", "python")[0], blocks(ROOT / "README.md", "text")[0]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=place,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.stderr == ""
    assert _TIME.sub("TIME", done.stdout) == _TIME.sub("TIME", promised)
    assert len([line for line in code.splitlines() if line.strip()]) <= 10


@pytest.mark.parametrize("code", blocks(ROOT / "README.md", "python")[1:])
def test_the_other_python_of_the_readme_runs(place: Path, code: str) -> None:
    assert subprocess.run([sys.executable, "-W", "error", "-c", code], cwd=place, check=True).returncode == 0


def commands(page: Path) -> list[str]:
    lines = [line for text in blocks(page, "bash", "sh") for line in text.splitlines() if line.strip()]
    return [line for line in lines if not any(word in line for word in _NOT_HERE)]


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "docs" / "cli.md"], ids=lambda page: page.name)
def test_every_command_runs(place: Path, page: Path) -> None:
    script = Path(sys.executable).with_name("memory-core")
    assert script.is_file(), "install the package first: pip install -e ."
    path = f"{script.parent}{os.pathsep}{os.environ['PATH']}"
    shown = commands(page)
    assert len(shown) >= 10
    for command in shown:
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=place,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PATH": path},
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"


def test_the_two_commands_from_a_fresh_clone_are_there() -> None:
    first, second = (text.strip() for text in blocks(ROOT / "README.md", "bash")[:2])
    assert first.startswith("python3 -m venv .venv && . .venv/bin/activate && ")
    assert first.endswith("pip install -e . && memory-core quickstart")
    assert second.endswith("pip install -e '.[dev]' -c constraints.txt && pytest")


def test_quickstart_runs(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["quickstart"]) == 0
    assert "<memory_context>" in capsys.readouterr().out
    assert list(place.iterdir()) == []


def test_the_configuration_of_the_readme_is_valid(place: Path) -> None:
    text = blocks(ROOT / "README.md", "toml")[0]
    (place / "memory.toml").write_text(text, "utf-8")
    settings = load_settings(place).settings
    for name, value in tomllib.loads(text).items():
        if name not in ("ttl", "talent"):
            assert getattr(settings, name) == value


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text("utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_every_command_of_the_program_is_described() -> None:
    from memory_core.cli.app import COMMANDS

    described = (ROOT / "docs" / "cli.md").read_text("utf-8")
    for name in COMMANDS:
        assert f"memory-core {name}" in described


_NAMES = sorted(set(re.findall(r"`(memory_core(?:\.\w+)+)`", (ROOT / "docs" / "from-java.md").read_text("utf-8"))))


@pytest.mark.parametrize("name", _NAMES)
def test_every_name_that_replaces_a_java_one_exists(name: str) -> None:
    module, _, attribute = name.rpartition(".")
    package = ROOT.joinpath(*module.split(".")[:2])
    if not package.exists() and not package.with_suffix(".py").exists():
        pytest.skip(f"{module} is not part of this checkout")
    assert hasattr(importlib.import_module(module), attribute)


def test_the_json_line_of_the_formats_page_is_a_memory() -> None:
    from memory_core.serial import from_json, to_json

    line = blocks(ROOT / "docs" / "formats.md", "json")[0].strip()
    assert to_json(from_json(line)) == line


def test_the_markdown_file_of_the_formats_page_is_a_memory() -> None:
    from memory_storer_markdown.frontmatter import parse

    parsed = parse(blocks(ROOT / "docs" / "formats.md", "markdown")[0])
    assert (parsed.key, parsed.importance, parsed.metadata) == ("项目框架", 8, {"ticket": 17})
