"""What the engine adds to a prompt, and whether a slow flush delays the reply.

    python benchmarks/engine.py [--memories 10000] [--prompts 30] [--json FILE]

Both are compared in one run, turn by turn: a bare agent of pydantic-ai against the engine over so many memories, as it
is by default and without its ledger, with memory, session and bounded context; the engine with a flush model that takes
0.5 s against one without a flush.
The model answers from memory of its own, so that only our part is measured; work after a reply has ended before the
next prompt. `cpu` is the processor's time, which a busy machine changes less.
"""

import argparse
import asyncio
import json
import random
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from memory_core.harness import HarnessEngine

SLOW_FLUSH_S = 0.5
WORDS = 5_000
"""How many different words the made-up memories are drawn from, as Zipf's law has it."""


def model() -> FunctionModel:
    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        del messages, info
        return ModelResponse([TextPart("a short reply")])

    return FunctionModel(answer)


async def slow_flush(system: str, user: str, max_output_tokens: int) -> str:
    del system, user, max_output_tokens
    await asyncio.sleep(SLOW_FLUSH_S)
    return "NO_REPLY"


async def no_flush(system: str, user: str, max_output_tokens: int) -> str:
    del system, user, max_output_tokens
    return "NO_REPLY"


async def timed(call: Callable[[], Awaitable[Any]]) -> float:
    started = time.perf_counter()
    await call()
    return (time.perf_counter() - started) * 1000


class Words:
    """Makes memories and questions; the same ones in every run."""

    def __init__(self) -> None:
        self.rng = random.Random(7)
        syllables = [a + b for a in "bdfgklmnprstvz" for b in ("a", "e", "i", "o", "u", "an", "er", "on")]
        self.words = ["".join(self.rng.choices(syllables, k=self.rng.randint(1, 4))) for _ in range(WORDS)]
        self.weights = [1 / (rank + 3) for rank in range(WORDS)]

    def some(self, count: int) -> str:
        return " ".join(self.rng.choices(self.words, self.weights, k=count))


def fill(engine: HarnessEngine, count: int, words: Words) -> None:
    solution = engine.memory_talent.provider.get(engine.workspace)
    for number in range(count):
        solution.remember(f"memory-{number}", words.some(12), number % 9 + 1)


async def overhead(folder: Path, memories: int, prompts: int) -> dict[str, float]:
    agent, words = Agent(model()), Words()
    home = folder / "home"
    plain = HarnessEngine(folder, home, model=model(), ledger=False)
    default = HarnessEngine(folder, home, model=model(), memory_model=no_flush)
    took: dict[str, list[float]] = {}
    async with plain, default:
        await asyncio.to_thread(fill, default, memories, words)
        for number in range(prompts + 3):
            text = f"{words.some(6)}?"
            calls: dict[str, Callable[[], Awaitable[Any]]] = {
                "bare": partial(agent.run, text),
                "engine": partial(default.prompt, text, session="default"),
                "engine_without_ledger": partial(plain.prompt, text, session="plain"),
            }
            for name, call in calls.items():
                cpu = time.process_time()
                wall = await timed(call)
                if number >= 3:  # the first ones build the index and warm the caches
                    took.setdefault(f"{name}_p50_ms", []).append(wall)
                    took.setdefault(f"{name}_cpu_p50_ms", []).append((time.process_time() - cpu) * 1000)
                await default.drain()
                await plain.drain()
    figures = {name: statistics.median(values) for name, values in took.items()}
    for name in ("engine", "engine_without_ledger"):
        for unit in ("p50_ms", "cpu_p50_ms"):
            figures[f"{name}_adds_{unit}"] = figures[f"{name}_{unit}"] - figures[f"bare_{unit}"]
    return figures


async def flush_delay(folder: Path, prompts: int) -> dict[str, float]:
    quick: list[float] = []
    slow: list[float] = []
    (folder / "a").mkdir()
    (folder / "b").mkdir()

    async def reply(text: Any) -> str:
        await asyncio.sleep(0.2)  # a model that answers fast, as models go
        return str(text)

    def waiting() -> FunctionModel:
        async def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            del messages, info
            return ModelResponse([TextPart(await reply("a short reply"))])

        return FunctionModel(answer)

    without = HarnessEngine(folder / "a", folder / "home-a", model=waiting(), disable_memory_hooks=True)
    flushing = HarnessEngine(folder / "b", folder / "home-b", model=waiting(), memory_model=slow_flush)
    async with without, flushing:
        for number in range(prompts + 1):
            times = (
                await timed(partial(without.prompt, "hello", session=f"s{number}")),
                await timed(partial(flushing.prompt, "hello", session=f"s{number}")),
            )
            if number:
                quick.append(times[0])
                slow.append(times[1])
    ratio = statistics.median(slow) / statistics.median(quick)
    return {
        "reply_p50_ms": statistics.median(quick),
        "reply_with_slow_flush_p50_ms": statistics.median(slow),
        "ratio": ratio,
    }


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--memories", type=int, default=10_000)
    parser.add_argument("--prompts", type=int, default=30)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
        figures = {
            "overhead": await overhead(Path(one), arguments.memories, arguments.prompts),
            "flush": await flush_delay(Path(two), min(arguments.prompts, 15)),
        }
    for part, values in figures.items():
        for name, value in values.items():
            print(f"{part:10} {name:32} {value:10.3f}")
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1), "utf-8")


if __name__ == "__main__":
    asyncio.run(main())
