"""The promises of sessions as ratios in one run: `python benchmarks/sessions.py [--json FILE] [--quick]`.

Appending is measured beside the bare operation (open with `O_APPEND`, write the same bytes, fsync, close) on the same
disk, the two in turn. Exit code 1 when a promise does not hold.
"""

import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])  # started by its path, Python would look in this folder

from benchmarks._measure import Row, arguments, folder, in_turn, ratio, report
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


def bare_append(path: Path) -> Callable[[Message], None]:
    """Return how to append one message to a file, durably and with nothing around it."""

    def append(message: Message) -> None:
        data = message_to_json(message).encode() + b"\n"
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(descriptor, data)
        os.fsync(descriptor)
        os.close(descriptor)

    return append


def bench_append(times: int, filled: int) -> Row:
    """Append one message to a session that has `filled` of them, against a bare append of the same bytes."""
    with folder() as root:
        FileAgentSession("s", root, fsync=False).append(conversation(filled))
        session = FileAgentSession("s", root)
        bare = root / "bare.ndjson"
        bare.write_bytes(b"x" * (root / "s.messages.ndjson").stat().st_size)
        measured = in_turn(lambda m: session.append([m]), bare_append(bare), conversation(times))
        assert len(FileAgentSession("s", root).messages()) == filled + times
    return ratio(f"durable append to {filled:,} messages", measured, "append, fsync", 2.0)


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


def bench_transcript(times: int, filled: int) -> Row:
    """Log one message after `filled` others, against a bare append of the same bytes."""
    with folder() as root:
        log = TranscriptLog(root)
        log.write("s", conversation(filled))

        def write(message: Message) -> None:
            assert log.write("s", [message]) == 1

        measured = in_turn(write, bare_append(root / "bare.jsonl"), conversation(times))
    return ratio(f"transcript line after {filled:,}", measured, "append, fsync", 2.5)


def main() -> int:
    """Measure, print a table, write JSON."""
    options = arguments(__doc__)
    count, times = (1_000, 30) if options.quick else (10_000, 300)

    def rows() -> Iterator[Row]:
        yield from bench_reopen(count, 3 if options.quick else 7)
        yield bench_append(times, 100)
        yield bench_append(times, count)
        yield bench_transcript(times, 100)
        yield bench_transcript(times, count)

    return report(rows(), options.json)


if __name__ == "__main__":
    sys.exit(main())
