"""A workspace of its own for each test, and servers in processes of their own."""

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from mcp import StdioServerParameters

from memory_core.contracts import MemorySolution, MemorySolutionProvider
from memory_core.loading import load_provider

ROOT = Path(__file__).resolve().parents[2]
TOKEN = "a-token-of-more-than-16-characters"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    for variable in [name for name in os.environ if name.startswith(("MEMORY_CORE_", "XDG_"))]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("MEMORY_CORE_HOME", str(home / "core"))
    return home


@pytest.fixture
def workspace(tmp_path: Path, home: Path) -> Path:
    assert home.is_dir()
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    return workspace


@pytest.fixture
def provider(workspace: Path) -> Iterator[MemorySolutionProvider]:
    provider = load_provider(workspace)
    yield provider
    provider.close()


@pytest.fixture
def solution(provider: MemorySolutionProvider, workspace: Path) -> MemorySolution:
    return provider.get(workspace)


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "", **more}


def command(workspace: Path | None, *options: str) -> list[str]:
    cwd = [] if workspace is None else ["--cwd", str(workspace)]
    return [sys.executable, "-m", "memory_core.cli", "mcp", *cwd, *options]


def over_stdio(workspace: Path | None, *options: str, start: Path = ROOT) -> StdioServerParameters:
    """Say how a client starts the server, and in which directory."""
    program, *arguments = command(workspace, *options)
    return StdioServerParameters(command=program, args=arguments, env=environment(), cwd=str(start))


@contextmanager
def over_http(
    workspace: Path | None, *options: str, variables: Mapping[str, str] | None = None, start: Path = ROOT
) -> Generator[str, None, None]:
    """Run the server on loopback and give its address."""
    port = _free_port()
    process = subprocess.Popen(
        command(workspace, "--http", "--port", str(port), *options),
        stderr=subprocess.PIPE,
        text=True,
        env=environment(**(variables or {})),
        cwd=start,
    )
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        found = re.search(r"http://\S+/mcp", line)
        assert found is not None, line + process.stderr.read()
        _wait_for(port, process)
        yield found[0]
    finally:
        process.terminate()
        process.communicate(timeout=20)


def _free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_for(port: int, process: "subprocess.Popen[str]") -> None:
    for _ in range(300):
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            assert process.poll() is None, "the server ended"
            time.sleep(0.1)
        else:
            return
    raise AssertionError("the server does not listen")
