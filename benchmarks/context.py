"""The promises of the context in one run: `python benchmarks/context.py [--json FILE] [--quick]`.

Planning does no I/O, so the time that counts is the processor's (`time.thread_time`): other programs on a busy machine
are not measured along. Beside it stands one `json.dumps` of the same messages. Each figure is the median of several
runs with nothing remembered from the run before. Exit code 1 when a promise does not hold.
"""

import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])  # started by its path, Python would look in this folder

from benchmarks._measure import Row, arguments, median_s, report
from memory_core.context.config import CompactionConfig, PruneConfig, TruncateArgsConfig
from memory_core.context.plan import apply, plan
from memory_core.context.tokens import MessageSizer
from memory_core.sessions.messages import (
    Message,
    ToolCallPart,
    ToolResultPart,
    assistant_message,
    message_fields,
    tool_message,
    user_message,
)

COUNT = 2_000
LIMIT_MS = 20.0


def english(count: int) -> list[Message]:
    """Return requests and answers of some 400 characters."""
    text = "the build is green again, see the log " * 10
    return [(user_message if i % 2 else assistant_message)(f"What about item {i}? {text}") for i in range(count)]


def chinese(count: int) -> list[Message]:
    """Return requests and answers of some 200 Chinese characters."""
    text = "请帮我看看这个问题，项目使用Solon框架，数据库连接超时，日志在 /var/log/app.log 里。"
    return [(user_message if i % 2 else assistant_message)(f"第{i}条：" + text * 4) for i in range(count)]


def agentic(count: int) -> list[Message]:
    """Return turns of an agent: a request, parallel calls with arguments, results, an answer."""
    messages: list[Message] = []
    for i in range(count):
        arguments = json.dumps({"path": f"src/{i}.py", "content": "x = 1\n" * 80})
        calls = [ToolCallPart(f"c{i}-{j}", "write_file", arguments) for j in (0, 1)]
        messages += [
            user_message(f"Change file {i} 请改一下"),
            assistant_message("I will.", calls),
            tool_message(ToolResultPart(f"c{i}-0", "write_file", "line of output\n" * 40)),
            tool_message(ToolResultPart(f"c{i}-1", "write_file", "ok")),
            assistant_message(f"Done with {i}. " * 10),
        ]
        if len(messages) >= count:
            break
    return messages[:count]


def median_ms(run: Callable[[], object], times: int) -> float:
    """Return the median processor time of one call in milliseconds."""
    return median_s(run, times, time.thread_time) * 1_000


def measure(times: int) -> list[Row]:
    """Plan histories of three kinds, cold and with their sizes known."""
    everything = CompactionConfig(truncate_args=TruncateArgsConfig(), prune=PruneConfig())
    rows: list[Row] = []
    for name, history in (("english", english(COUNT)), ("chinese", chinese(COUNT)), ("agentic", agentic(COUNT))):
        fields = [message_fields(message) for message in history]
        dumped = median_ms(partial(json.dumps, fields, ensure_ascii=False, default=str), times)
        cold = median_ms(partial(plan, history, everything, 128_000), times)
        size = MessageSizer()
        known = median_ms(partial(plan, history, everything, 128_000, size=size), times)
        made = plan(history, everything, 128_000)
        detail = (
            f"json.dumps {dumped:.1f} ms, ratio {cold / dumped:.2f}; {made.tokens:,} → {made.tokens_planned:,} tokens"
        )
        rows.append(Row(f"plan {len(history)} messages, {name}", cold, "ms", LIMIT_MS, detail))
        rows.append(Row(f"plan them again, {name}", known, "ms", LIMIT_MS, f"ratio to json.dumps {known / dumped:.2f}"))
        applied = median_ms(partial(apply, made, "## SUMMARY\nwhat happened " * 50), times)
        rows.append(Row(f"apply the plan, {name}", applied, "ms", LIMIT_MS))
    return rows


def main() -> int:
    """Measure, print, and say by the exit code whether every promise holds."""
    options = arguments(__doc__)
    return report(measure(5 if options.quick else 25), options.json)


if __name__ == "__main__":
    sys.exit(main())
