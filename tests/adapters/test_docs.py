"""The pages' code runs, their JSON is JSON that starts the server, and so do the examples."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from memory_core.cli.app import cli
from tests.support.hermes_package import hermes_folder

from .conftest import ROOT, environment

EXAMPLES = sorted((ROOT / "examples" / "integrations").glob("*.py"))
SAID = {
    "claude_memory": "/memories/preferences.md",
    "hermes": "Drinks black coffee",
    "langgraph_store": "Drinks black coffee",
    "mcp_client": "Drinks black coffee",
    "openai_agents_session": "I drink coffee",
    "openai_functions": "Saved drink",
}


def blocks(page: str, language: str) -> list[str]:
    text = (ROOT / "docs" / page).read_text()
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs(example: Path, home: Path) -> None:
    path = os.pathsep.join([str(ROOT), str(hermes_folder())] if example.stem == "hermes" else [str(ROOT)])
    done = subprocess.run(
        [sys.executable, str(example)],
        check=False,
        capture_output=True,
        text=True,
        env=environment(PYTHONPATH=path),
        timeout=120,
        cwd=home,
    )
    assert done.returncode == 0, done.stderr
    assert SAID[example.stem] in done.stdout


@pytest.mark.parametrize(("page", "count"), [("integrations.md", 5), ("mcp.md", 1)])
def test_the_code_of_a_page_runs_from_top_to_bottom(
    page: str, count: int, workspace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(workspace)
    found = blocks(page, "python")
    assert len(found) == count
    names: dict[str, object] = {"__name__": "docs"}
    for block in found:
        exec(compile(block, page, "exec"), names)
    assert {"integrations.md": "Drinks black coffee", "mcp.md": "memory_extract"}[page] in capsys.readouterr().out
    if "messages" in names:
        assert "Saved drink" in str(names["messages"])
        assert "is_error" not in str(names["result"])
        getattr(names["provider"], "close")()  # noqa: B009 - its type is unknown here


def test_the_configurations_start_the_server() -> None:
    found = [json.loads(block) for block in blocks("mcp.md", "json")]
    assert len(found) == 5
    for configuration in found:
        [server] = next(iter(configuration.values())).values()
        if "command" in server:
            assert server["command"] == "memory-core"
            result = CliRunner().invoke(cli, [*server["args"], "--help"])
            assert result.exit_code == 0
            assert "Model Context Protocol" in result.output
        else:
            assert server["url"].endswith(":8642/mcp")
