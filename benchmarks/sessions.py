"""The promises of sessions as ratios in one run: `python benchmarks/sessions.py [--json FILE] [--quick]`.

Appending is measured beside the bare operation (open with `O_APPEND`, write the same bytes, fsync, close) on the same
disk, the two in turn. Exit code 1 when a promise does not hold.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from memory_core.sessions.file import FileAgentSession
from memory_core.sessions.messages import (
    Message,
    ToolCallPart,
    ToolResultPart,
    assistant_message,
    message_to_json,
    tool_message,
    user_message,
)
from memory_core.sessions.transcript import TranscriptLog


@dataclass
class Row:
    """One promise: what was measured, its bound, and whether it holds."""

    name: str
    value: float
    unit: str
    bound: float
    detail: str = ""

    @property
    def holds(self) -> bool:
        """Whether the value keeps within its bound."""
        return self.value <= self.bound


@contextmanager
def folder() -> Generator[Path]:
    """Give a directory on the disk where the repository is, not in memory."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_DIR", "."), prefix=".bench-") as name:
        yield Path(name).absolute()


def conversation(count: int) -> list[Message]:
    """Return a conversation with tool calls, in English and Chinese, some 400 bytes a message."""
    messages: list[Message] = []
    number = 0
    while len(messages) < count:
        number += 1
        call = ToolCallPart(f"call-{number}", "search_files", json.dumps({"query": f"term {number}", "limit": 20}))
        messages += [
            user_message(
                f"Question {number}: 请在项目里找到第 {number} 个术语 and say where it stands. " + "words " * 20
            ),
            assistant_message("I look.", [call]),
            tool_message(ToolResultPart(call.call_id, call.name, f"src/file_{number}.py: line {number}\n" * 8)),
            assistant_message(f"It stands in file {number}. " + "explanation " * 20),
        ]
    return messages[:count]


def bench_append(times: int, filled: int) -> Row:
    """Append one message to a session that has `filled` of them, against a bare append of the same bytes."""
    ours: list[float] = []
    theirs: list[float] = []
    with folder() as root:
        FileAgentSession("s", root, fsync=False).append(conversation(filled))
        session = FileAgentSession("s", root)
        bare = root / "bare.ndjson"
        bare.write_bytes(b"x" * (root / "s.messages.ndjson").stat().st_size)
        for message in conversation(times):
            data = message_to_json(message).encode() + b"\n"
            start = time.perf_counter()
            descriptor = os.open(bare, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            os.write(descriptor, data)
            os.fsync(descriptor)
            os.close(descriptor)
            theirs.append(time.perf_counter() - start)
            start = time.perf_counter()
            session.append([message])
            ours.append(time.perf_counter() - start)
        assert len(FileAgentSession("s", root).messages()) == filled + times
    mine, plain = statistics.median(ours) * 1_000, statistics.median(theirs) * 1_000
    detail = f"{mine:.3f} ms against {plain:.3f} ms"
    return Row(f"durable append to {filled:,} messages", mine / plain, "× append, fsync", 2.0, detail)


def bench_reopen(count: int, times: int) -> list[Row]:
    """Open a session anew and read its window, against parsing the same lines as bare JSON."""
    opened: list[float] = []
    parsed: list[float] = []
    with folder() as root:
        FileAgentSession("s", root, fsync=False).append(conversation(count))
        path = root / "s.messages.ndjson"
        size = path.stat().st_size / 2**20
        for _ in range(times):
            start = time.perf_counter()
            rows = [json.loads(line) for line in path.read_bytes().splitlines()]
            parsed.append(time.perf_counter() - start)
            assert len(rows) == count
            start = time.perf_counter()
            session = FileAgentSession("s", root)
            window = session.latest(8)
            opened.append(time.perf_counter() - start)
            assert 8 <= len(window) <= 12
    mine, plain = statistics.median(opened), statistics.median(parsed)
    detail = f"{size:.1f} MB; bare JSON {plain:.3f} s"
    return [
        Row(f"reopening {count:,} messages", mine, "s", 0.5, detail),
        Row(f"reopening {count:,} messages", mine / plain, "× bare JSON", 5.0),
    ]


def bench_transcript(times: int) -> Row:
    """Log one message, against a bare append of the same bytes."""
    ours: list[float] = []
    theirs: list[float] = []
    with folder() as root:
        log = TranscriptLog(root)
        log.write("s", conversation(1_000))
        bare = root / "bare.jsonl"
        for message in conversation(times):
            data = message_to_json(message).encode() + b"\n"
            start = time.perf_counter()
            descriptor = os.open(bare, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            os.write(descriptor, data)
            os.fsync(descriptor)
            os.close(descriptor)
            theirs.append(time.perf_counter() - start)
            start = time.perf_counter()
            assert log.write("s", [message]) == 1
            ours.append(time.perf_counter() - start)
    mine, plain = statistics.median(ours) * 1_000, statistics.median(theirs) * 1_000
    detail = f"{mine:.3f} ms against {plain:.3f} ms"
    return Row("transcript line", mine / plain, "× append, fsync", 2.5, detail)


def main() -> int:
    """Measure, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--quick", action="store_true", help="smaller sizes: to see that it runs, not for figures")
    options = parser.parse_args()
    count, times = (1_000, 30) if options.quick else (10_000, 300)
    rows: list[Row] = []
    measures: list[Callable[[], list[Row]]] = [
        lambda: bench_reopen(count, 3 if options.quick else 7),
        lambda: [bench_append(times, 100)],
        lambda: [bench_append(times, count)],
        lambda: [bench_transcript(times)],
    ]
    for measure in measures:
        for row in measure():
            rows.append(row)
            mark = "ok  " if row.holds else "FAIL"
            print(f"{mark} {row.name:36} {row.value:9.3f} {row.unit:24} (≤ {row.bound:g}) {row.detail}", flush=True)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        figures = [{**asdict(row), "holds": row.holds} for row in rows]
        options.json.write_text(json.dumps({"python": sys.version, "rows": figures}, indent=1))
    return 0 if all(row.holds for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
