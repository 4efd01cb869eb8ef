"""The runner's side of the protocol: one child process a peer, one reply a request."""

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO, Any

from benchmarks.peers.serving import Item

ROOT = Path(__file__).resolve().parents[2]
QUIET = {
    "ANONYMIZED_TELEMETRY": "False",
    "BASIC_MEMORY_AUTO_UPDATE": "false",
    "DO_NOT_TRACK": "1",
    "HF_HUB_OFFLINE": "1",
    "LANGCHAIN_TRACING_V2": "false",
    "LANGSMITH_TRACING": "false",
    "LOGFIRE_IGNORE_NO_CONFIG": "1",
    "LOGURU_LEVEL": "ERROR",
    "MEM0_TELEMETRY": "False",
    "OPENAI_API_KEY": "not-a-key",
    "TRANSFORMERS_OFFLINE": "1",
}
"""Nobody is told of a run, and nothing is looked for elsewhere; the child refuses such connections besides."""
_KEPT = ("PATH", "LANG", "LC_ALL", "TMPDIR", "SYSTEMROOT", "LD_LIBRARY_PATH", "PYTHONWARNINGS")


class PeerError(Exception):
    """The peer raised: its own words."""


class PeerDiedError(PeerError):
    """The process ended without an answer, or did not answer in time."""


class PeerProcess:
    """A running child. Use it as a context: it is killed in the end, however that comes.

    Args:
        command: How to start it.
        home: A folder that the child sees as its home; the caller's is not touched.
        timeout_s: After so long without an answer the child is killed.

    """

    def __init__(self, command: Sequence[str], home: Path, *, timeout_s: float = 900.0) -> None:
        home.mkdir(parents=True, exist_ok=True)
        kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
        home_variables = {"HOME": str(home), "XDG_CACHE_HOME": str(home / "cache"), "PYTHONPATH": str(ROOT)}
        self._timeout_s = timeout_s
        self._stderr = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115 - closed by `close`
        self._process = subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            env={**kept, **QUIET, **home_variables},
            text=True,
            encoding="utf-8",
            cwd=home,
        )
        self.versions: dict[str, str] = {}
        self.python = ""

    def __enter__(self) -> "PeerProcess":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def pid(self) -> int:
        return self._process.pid

    def open(self, folder: Path, dim: int, options: dict[str, Any]) -> None:
        """Open `folder` in the child.

        Raises:
            PeerError: It could not, or the child did not even start.

        """
        folder.mkdir(parents=True, exist_ok=True)
        reply = self.ask("open", folder=str(folder), dim=dim, options=options)
        self.versions, self.python = reply["versions"], reply["python"]

    def add(self, items: Iterable[Item]) -> list[float]:
        """Add one after the other; return the seconds of each."""
        seconds: list[float] = self.ask("add", items=[item.fields() for item in items])["seconds"]
        return seconds

    def fill(self, items: Iterable[Item]) -> float:
        """Add many the fastest way; return the seconds in all."""
        return float(self.ask("fill", items=[item.fields() for item in items])["seconds"])

    def learn(self, items: Iterable[Item]) -> None:
        """Hand over the vectors of texts that are stored already."""
        self.ask("learn", items=[item.fields() for item in items])

    def flush(self) -> float:
        return float(self.ask("flush")["seconds"])

    def search(self, queries: Iterable[Item], k: int) -> tuple[list[float], list[list[str]]]:
        """Return the seconds and the found keys of each query."""
        reply = self.ask("search", queries=[query.fields() for query in queries], k=k)
        return reply["seconds"], reply["found"]

    def keys(self) -> list[str]:
        keys: list[str] = self.ask("count")["keys"]
        return keys

    def close(self) -> list[str]:
        """Close in an orderly way; return the hosts that the peer tried to reach."""
        blocked: list[str] = self.ask("close")["blocked"]
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(30)
        self.kill()
        return blocked

    def kill(self) -> None:
        """SIGKILL, as a crash is; a child that has ended already is only cleared away."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._stderr):
            if stream is not None:
                with contextlib.suppress(OSError):  # what could not be written to a dead child
                    stream.close()

    def send(self, op: str, **fields: Any) -> None:
        """Write a request without waiting for its answer.

        Raises:
            PeerDiedError: The process has ended.

        """
        try:
            _open(self._process.stdin).write(json.dumps({"op": op, **fields}) + "\n")
            _open(self._process.stdin).flush()
        except (OSError, ValueError) as error:
            raise PeerDiedError(self._last_words()) from error

    def ask(self, op: str, **fields: Any) -> dict[str, Any]:
        """Write a request and return its answer.

        Raises:
            PeerError: The peer raised.
            PeerDiedError: The process has ended, or took longer than the time limit and was killed.

        """
        self.send(op, **fields)
        return self.receive(op)

    def receive(self, op: str) -> dict[str, Any]:
        """Return the next answer; errors as `ask`."""
        late = threading.Event()

        def stop() -> None:
            late.set()
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGKILL)

        timer = threading.Timer(self._timeout_s, stop)
        timer.daemon = True
        timer.start()
        try:
            line = _open(self._process.stdout).readline()
        finally:
            timer.cancel()
        if late.is_set():
            raise PeerDiedError(f"no answer to {op!r} within {self._timeout_s:.0f} s")
        if not line.endswith("\n"):
            raise PeerDiedError(self._last_words())
        reply: dict[str, Any] = json.loads(line)
        if not reply["ok"]:
            raise PeerError(reply["error"])
        return reply

    def _last_words(self) -> str:
        try:
            code = self._process.wait(10)
        except subprocess.TimeoutExpired:
            return "the process closed its output"
        self._stderr.seek(0)
        lines = [line.strip() for line in self._stderr.read().splitlines() if line.strip()]
        said = f": {lines[-1][:300]}" if lines else ""
        return f"the process ended with code {code}{said}"


def _open(stream: IO[str] | None) -> IO[str]:
    assert stream is not None  # all three were asked for as pipes
    return stream
