"""Several processes and a person on one workspace, and processes that die."""

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from memory_core.ledger import Ledger, MemoryConfig
from memory_core.ledger.disk import locked
from memory_core.testing.model import FakeModel
from tests.ledger.worker import union

Make = Callable[..., Ledger]
ROOT = Path(__file__).parent.parent.parent
SOAK = os.environ.get("MEMORY_CORE_SOAK") == "1"


def start(job: str, workspace: Path, name: str, count: int) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "tests.ledger.worker", job, str(workspace), name, str(count)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def finished(process: "subprocess.Popen[str]") -> list[str]:
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    return output.split("\n")[:-1]


def ledger_text(workspace: Path) -> str:
    return "\n".join(path.read_text("utf-8") for path in sorted((workspace / "memory").glob("*.md")))


def test_processes_flush_and_consolidate_while_a_person_edits(make: Make, tmp_path: Path) -> None:
    each = 60 if SOAK else 20
    flushers = [start("flush", tmp_path, f"writer{n}", each) for n in range(2)]
    others = [start("consolidate", tmp_path, "-", each) for _ in range(2)] + [start("save", tmp_path, "tool", each)]
    memory = tmp_path / "MEMORY.md"
    edits = 0
    while any(process.poll() is None for process in (*flushers, *others)):
        # A person edits as editors do: read, change, write a new file, rename it over the old one. What is written
        # between the read and the rename by others would be lost by the editor, so the edit is a careful one.
        before = memory.read_bytes() if memory.exists() else b""
        draft = tmp_path / "draft"
        draft.write_bytes(before + f"- edit by hand {edits}\n".encode())
        with locked(make().places):  # without the lock this very test would lose what `save` appends
            if (memory.read_bytes() if memory.exists() else b"") == before:
                draft.rename(memory)
                edits += 1
        time.sleep(0.05)
    statuses = Counter(line.split()[-1] for process in flushers for line in finished(process))
    assert statuses == {"written": 2 * each}
    outcomes = Counter(line for process in others[:2] for line in finished(process))
    assert "failed" not in outcomes, outcomes
    assert finished(others[2])
    text = ledger_text(tmp_path)
    for n in range(2):
        for m in range(each):
            assert len(re.findall(rf"^- fact writer{n} {m}$", text, re.MULTILINE)) == 1
    last = make(FakeModel(union), MemoryConfig(consolidation_max_tokens=40_000))
    assert asyncio.run(last.consolidate()).status in ("written", "unchanged", "nothing")
    final = memory.read_text("utf-8")
    wanted = [f"- fact writer{n} {m}" for n in range(2) for m in range(each)]
    wanted += [f"- saved tool {m}" for m in range(each)] + [f"- edit by hand {m}" for m in range(edits)]
    lines = set(final.split("\n"))
    assert edits
    assert [line for line in wanted if line not in lines] == []
    assert not list(tmp_path.rglob("*.tmp"))


def test_one_conversation_flushed_by_two_processes_at_once_stands_once(tmp_path: Path) -> None:
    processes = [start("flush", tmp_path, "same", 10) for _ in range(2)]
    statuses = Counter(line.split()[-1] for process in processes for line in finished(process))
    assert statuses == {"written": 10, "duplicate": 10}
    assert len(re.findall(r"^- fact same \d+$", ledger_text(tmp_path), re.MULTILINE)) == 10


@pytest.mark.parametrize("job", ["flush", "save", "consolidate"])
def test_killed_at_any_moment(make: Make, tmp_path: Path, job: str) -> None:
    acknowledged = 0
    if job == "consolidate":
        (tmp_path / "memory").mkdir()
        for day in range(1, 29):
            (tmp_path / "memory" / f"2026-05-{day:02}.md").write_text(f"- fact {day}\n")
    for round_number in range(12 if SOAK else 4):
        process = start(job, tmp_path, f"r{round_number}", 10_000)
        assert process.stdout is not None
        seen = [process.stdout.readline() for _ in range(3)]
        time.sleep(0.004 * round_number)
        process.send_signal(signal.SIGKILL)
        rest, _ = process.communicate(timeout=30)
        lines = [line for line in "".join([*seen, rest]).split("\n")[:-1] if line]
        if job == "consolidate":
            assert set(lines) <= {"written", "nothing"}
            continue
        acknowledged += len(lines)
        text = ledger_text(tmp_path)
        kind = "fact" if job == "flush" else "saved"
        for line in lines:
            assert f"- {kind} r{round_number} {line.split()[0]}\n" in text
    assert acknowledged or job == "consolidate"
    ledger = make(FakeModel(union))
    assert ledger.save("after the kills").path is not None  # no lock is left behind
    assert not [problem for problem in ledger.problems() if problem.severity == "error"]
    for path in (tmp_path / "memory").glob("*.md"):
        assert all(line == "" or line.startswith(("# ", "## ", "- ")) for line in path.read_text("utf-8").split("\n"))
    if job == "consolidate":
        text = (tmp_path / "MEMORY.md").read_text("utf-8")
        assert all(f"- fact {day}\n" in text for day in range(1, 29))
