"""What the processes of test_processes.py do: `python worker.py JOB WORKSPACE NAME COUNT`."""

import asyncio
import os
import sys
from pathlib import Path

from memory_core.ledger import Ledger
from memory_core.sessions.messages import user_message
from memory_core.testing.model import FakeModel, ModelCall


def union(call: ModelCall) -> str:
    """Answer like a good model: everything that was there, and every new bullet."""
    lines = [line for line in call.user.split("\n") if line.startswith("- ")]
    return "# Memory\n\n" + "\n".join(dict.fromkeys(lines)) + "\n"


async def flush(ledger: Ledger, name: str, count: int) -> None:
    for n in range(count):
        result = await ledger.flush([user_message(f"{name} says {n}")], name)
        print(n, result.status, flush=True)


async def consolidate(ledger: Ledger, _: str, count: int) -> None:
    for _n in range(count):
        print((await ledger.consolidate()).status, flush=True)
        await asyncio.sleep(0.01)


async def save(ledger: Ledger, name: str, count: int) -> None:
    for n in range(count):
        ledger.save(f"saved {name} {n}")
        print(n, "saved", flush=True)


async def main() -> None:
    job, workspace, name, count = sys.argv[1:5]
    numbers = iter(range(10**9))
    model = FakeModel(lambda _: f"- fact {name} {next(numbers)}") if job == "flush" else FakeModel(union)
    ledger = Ledger(Path(workspace), model, timezone="UTC")
    os.environ.setdefault("PYTHONWARNINGS", "error")
    await {"flush": flush, "consolidate": consolidate, "save": save}[job](ledger, name, int(count))


if __name__ == "__main__":
    asyncio.run(main())
