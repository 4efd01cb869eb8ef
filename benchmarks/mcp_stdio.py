"""An MCP `memory_search` over stdio beside an empty tool of the bare SDK, in one run.

    python benchmarks/mcp_stdio.py [--memories 1000] [--ledger 200] [--calls 300]

Both servers run in processes of their own and are asked in turns, so that a busy machine slows both. The search is
asked for five hits, and for as many as it gives by default: ten, of memories and ledger lines. Promise: at 1,000
memories the median search takes at most twice as long as the median empty call, in both.
"""

import argparse
import asyncio
import itertools
import os
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

from mcp import Client, StdioServerParameters

from memory_core import load_provider

LIMIT = 2.0
COUNTS: dict[str, dict[str, int]] = {"5 hits": {"top_k": 5}, "the default of 10": {}}
EMPTY = """
from mcp.server import MCPServer
server = MCPServer("empty")

@server.tool()
def empty(query: str, top_k: int = 10) -> str:
    return ""

server.run("stdio")
"""
WORDS = [
    "".join(pair)
    for pair in itertools.product(
        ("cof", "pyth", "sea", "dep", "rev", "birth", "tra"), ("fee", "on", "side", "loy", "iew", "day", "in")
    )
]
"""49 words: facts differ in length and words, as real ones do; a word is in about a sixth of them."""


def fact(dice: random.Random) -> str:
    return " ".join(dice.choices(WORDS, k=dice.randint(3, 14)))


async def timed(client: Client, tool: str, query: str, given: dict[str, int]) -> float:
    start = time.perf_counter()
    result = await client.call_tool(tool, {"query": query, **given})
    took = (time.perf_counter() - start) * 1_000
    assert not result.is_error, result
    return took


async def measure(folder: str, calls: int, given: dict[str, int]) -> tuple[list[float], list[float]]:
    environment = {**os.environ, "MEMORY_CORE_HOME": folder}
    ours = StdioServerParameters(
        command=sys.executable, args=["-m", "memory_core.cli", "mcp", "--cwd", folder], env=environment
    )
    bare = StdioServerParameters(command=sys.executable, args=["-c", EMPTY], env=environment)
    dice = random.Random(1)
    searches: list[float] = []
    empties: list[float] = []
    async with Client(ours) as memory, Client(bare) as empty:
        found = await memory.call_tool("memory_search", {"query": WORDS[0]})
        assert found.structured_content is not None
        assert found.structured_content["hits"], "the server does not see the memories"
        for number in range(calls + 20):
            query = " ".join(dice.sample(WORDS, 3))
            pair = (await timed(empty, "empty", query, given), await timed(memory, "memory_search", query, given))
            if number >= 20:  # the first calls load the index
                empties.append(pair[0])
                searches.append(pair[1])
    return empties, searches


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memories", type=int, default=1_000)
    parser.add_argument("--ledger", type=int, default=200, help="lines of MEMORY.md")
    parser.add_argument("--calls", type=int, default=300)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        provider = load_provider(folder, overrides={"home": folder})
        solution = provider.get(folder)
        dice = random.Random(7)
        for number in range(given.memories):
            solution.remember(f"note-{number}", fact(dice), 6)
        provider.close()
        lines = "\n".join(f"- {fact(dice)}" for _ in range(given.ledger))
        (Path(folder) / "MEMORY.md").write_text(f"# Memory\n\n{lines}\n")
        ratios: list[float] = []
        for what, top_k in COUNTS.items():
            empties, searches = asyncio.run(measure(folder, given.calls, top_k))
            for name, times in (("empty tool of the bare SDK", empties), (f"memory_search, {what}", searches)):
                p95 = statistics.quantiles(times, n=20)[-1]
                print(f"{name}: median {statistics.median(times):.2f} ms, p95 {p95:.2f} ms")
            ratios.append(statistics.median(searches) / statistics.median(empties))
            print(f"ratio {ratios[-1]:.2f} (promise: at most {LIMIT})")
    return 0 if max(ratios) <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(main())
