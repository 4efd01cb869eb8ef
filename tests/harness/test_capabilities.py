"""The capabilities on an agent that the program has already, and the parts beneath them."""

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from memory_core import load_provider
from memory_core.context import CompactionConfig, compact
from memory_core.contracts import MemorySolutionProvider
from memory_core.errors import ConfigError
from memory_core.harness import (
    Background,
    Compacted,
    ContextCapability,
    LedgerCapability,
    MemoryCapability,
    RunScope,
)
from memory_core.harness.portal import Portal
from memory_core.harness.queueing import KeyedQueue
from memory_core.harness.scope import scope_of
from memory_core.ledger import Ledger, as_chat_model
from memory_core.sessions import user_message
from memory_core.sessions.converters.pydantic_ai import from_pydantic_ai, to_pydantic_ai
from memory_core.sessions.messages import TextPart as TextPart_
from memory_core.talent import MemoryTalent


@pytest.fixture
def provider(tmp_path: Path) -> Iterator[MemorySolutionProvider]:
    provider = load_provider(tmp_path, overrides={"home": str(tmp_path / "home")})
    yield provider
    provider.close()


def calling(name: str, arguments: dict[str, Any], seen: list[Any]) -> FunctionModel:
    """Call one tool, then say what came back; keep the outcome and the instructions."""

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        last = messages[-1].parts[-1]
        if isinstance(last, ToolReturnPart):
            seen.append(last.outcome)
            return ModelResponse([TextPart(last.model_response_str())])
        seen.append(info.instructions or "")
        if any(tool.name == name for tool in info.function_tools):
            return ModelResponse([ToolCallPart(name, arguments)])
        return ModelResponse([TextPart("no such tool")])

    return FunctionModel(answer)


@dataclass
class Deps:
    cwd: Path
    user_id: str


@pytest.mark.parametrize("form", ["object", "mapping", "scope"])
async def test_the_deps_say_whose_memory_it_is(provider: MemorySolutionProvider, tmp_path: Path, form: str) -> None:
    def deps(user: str) -> Any:
        if form == "object":
            return Deps(tmp_path, user)
        return {"cwd": tmp_path, "user_id": user} if form == "mapping" else RunScope(str(tmp_path), None, user)

    arguments = {"key": "k", "fact": "vim for ann", "importance": 7}
    seen: list[Any] = []
    model = calling("memory_extract", arguments, seen)
    agent: Agent[Any, str] = Agent(model, capabilities=[MemoryCapability(provider)])
    await agent.run("hello", deps=deps("ann"))
    await agent.run("hello", deps=deps("ann"))
    await agent.run("hello", deps=deps("bob"))
    instructions = [text for text in seen if len(text) > 20]
    assert ["vim for ann" in text for text in instructions] == [False, True, False]
    assert provider.get(tmp_path).recall("k") is None
    assert provider.get(tmp_path).recall("k", user_id="ann") is not None


async def test_a_tool_that_fails_reaches_the_model_as_a_failure(
    provider: MemorySolutionProvider, tmp_path: Path
) -> None:
    seen: list[Any] = []
    capability = MemoryCapability(provider, cwd=tmp_path)
    agent = Agent(calling("memory_extract", {"key": "k", "user_id": "bob"}, seen), capabilities=[capability])
    assert "no parameter 'user_id'" in (await agent.run("hello")).output
    assert seen[-1] == "failed"
    capability.talent.enabled = False
    assert (await agent.run("hello")).output == "no such tool"
    assert seen[-1] == ""


async def test_the_ledger_flushes_with_the_agents_model_and_injects(tmp_path: Path) -> None:
    asked: list[str] = []

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        asked.append(info.instructions or "")
        return ModelResponse([TextPart("hello" if info.function_tools else "- Lives in Bern")])

    with_memory = MemoryTalent(load_provider(tmp_path, overrides={"home": str(tmp_path / "home")}))
    ledger = Ledger(tmp_path)
    capability = LedgerCapability(ledger, memory=with_memory, cwd=tmp_path, session_id="s")
    agent = Agent(FunctionModel(answer), capabilities=[capability])
    (tmp_path / "MEMORY.md").write_text("- Speaks German\n", "utf-8")
    await agent.run("I live in Bern")
    assert await capability.finish()
    assert "Speaks German" in asked[0]
    assert "Lives in Bern" in next((tmp_path / "memory").glob("20*.md")).read_text("utf-8")
    capability.enabled = False
    count = len(asked)
    await agent.run("hello")
    await capability.drain()
    assert len(asked) == count + 1
    assert "Speaks German" not in asked[-1]
    ledger.close()
    with_memory.provider.close()


async def test_a_context_is_compacted_once_within_a_run() -> None:
    summaries: list[str] = []
    done: list[Compacted] = []
    sent: list[int] = []

    async def summarise(system: str, user: str, limit: int) -> str:
        summaries.append(user)
        return "SESSION INTENT: counting"

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        sent.append(len(messages))
        number = sum(isinstance(part, ToolReturnPart) for message in messages for part in message.parts)
        if len(sent) < 30:
            return ModelResponse([ToolCallPart("count", {})])
        return ModelResponse([TextPart(f"{number} results")])

    def count() -> str:
        return "one"

    config = CompactionConfig(trigger_messages=20, keep_messages=6)
    capability = ContextCapability(config, model=summarise, on_compacted=done.append)
    agent = Agent(FunctionModel(answer), tools=[count], capabilities=[capability])
    result = await agent.run("count to thirty")
    assert max(sent) < 22
    assert len(done) == len(summaries) >= 2
    assert len(result.all_messages()) == 60  # the run's own history stays whole
    assert all(one.summary is not None and one.messages for one in done)


async def test_a_summary_keeps_what_it_carries_through_native_messages() -> None:
    async def summarise(system: str, user: str, limit: int) -> str:
        return "a summary"

    done = await compact([user_message(f"q{n}") for n in range(9)], force=True, model=as_chat_model(summarise))
    (summary,) = [message for message in done.messages if message.kind == "summary"]
    (again,) = from_pydantic_ai(to_pydantic_ai([summary]))
    assert again.id == summary.id
    assert again.kind == "summary"
    (part,) = again.parts
    assert isinstance(part, TextPart_)
    assert "first_request" in str(part.extra)


def test_deps_that_say_nothing_change_nothing() -> None:
    default = RunScope("/w", "s", None)
    for deps in (None, 7, "text", {}, {"cwd": ""}, {"user_id": 7}, object()):
        assert scope_of(deps, default) is default
    assert default.isolation_key == "shared/s"


async def test_background_jobs_run_in_order_and_report_failures() -> None:
    background = Background()
    order: list[int] = []

    async def job(number: int) -> None:
        await asyncio.sleep(0.01 * (3 - number))
        order.append(number)
        if number == 1:
            raise ValueError("broken")

    for number in range(3):
        background.submit(f"job {number}", partial(job, number), "key")
    assert background.pending == 3
    assert await background.drain()
    assert order == [0, 1, 2]
    assert [(failure.job, failure.reason) for failure in background.failures] == [("job 1", "ValueError: broken")]


def test_a_job_whose_loop_ends_is_run_by_the_next_drain() -> None:
    background = Background()
    done: list[str] = []
    slow = True

    async def job() -> None:
        if slow:
            await asyncio.sleep(60)
        done.append("done")

    async def submit() -> None:
        background.submit("job", job)
        await asyncio.sleep(0.01)

    asyncio.run(submit())
    assert background.pending == 1
    slow = False
    assert asyncio.run(background.drain(5))
    assert done == ["done"]
    assert background.pending == 0


async def test_a_turn_passes_to_the_next_when_one_gives_up_or_fails() -> None:
    queue = KeyedQueue()
    order: list[str] = []

    async def work(name: str) -> None:
        async with queue.turn("key"):
            order.append(name)
            await asyncio.sleep(0.01)
            if name == "a":
                raise ValueError(name)

    tasks = [asyncio.create_task(work(name)) for name in "abcd"]
    await asyncio.sleep(0)
    tasks[2].cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert order == ["a", "b", "d"]
    assert isinstance(results[0], ValueError)
    assert isinstance(results[2], asyncio.CancelledError)
    await asyncio.wait_for(work("e"), 1)


def test_turns_hold_across_threads_and_loops() -> None:
    queue = KeyedQueue()
    inside = 0
    most = 0

    async def work() -> None:
        nonlocal inside, most
        for _ in range(20):
            async with queue.turn("key"):
                inside += 1
                most = max(most, inside)
                await asyncio.sleep(0.0005)
                inside -= 1

    threads = [threading.Thread(target=lambda: asyncio.run(work())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    assert most == 1


def test_a_portal_passes_errors_and_can_be_stopped_and_started() -> None:
    portal = Portal("test")

    async def fail() -> None:
        raise ConfigError("no")

    with pytest.raises(ConfigError, match="no"):
        portal.call(fail)
    portal.stop()
    portal.stop()
    with pytest.raises(ConfigError):
        portal.call(fail)
    portal.stop()


@pytest.mark.parametrize("order", [0, 1], ids=["memory first", "ledger first"])
@pytest.mark.parametrize("served", [False, True], ids=["side by side", "the ledger serves a talent too"])
async def test_memory_and_ledger_on_one_agent_share_one_search(
    provider: MemorySolutionProvider, tmp_path: Path, order: int, served: bool
) -> None:
    place = tmp_path / "elsewhere"
    place.mkdir()
    ledger = Ledger(place, as_chat_model("test"))
    ledger.save("The sea side house has a blue door")
    provider.get(tmp_path).remember("house", "The town house has a red door", 7)
    memory = MemoryCapability(provider, cwd=tmp_path)
    both = LedgerCapability(ledger, cwd=tmp_path if served else place, memory=memory.talent if served else None)
    names: list[str] = []
    said: list[str] = []

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        last = messages[-1].parts[-1]
        if isinstance(last, ToolReturnPart):
            return ModelResponse([TextPart(last.model_response_str())])
        names.extend(tool.name for tool in info.function_tools)
        said.append(info.instructions or "")
        return ModelResponse([ToolCallPart("memory_search", {"query": "house door"})])

    model = FunctionModel(answer)
    both.talent.ledger().disable_memory_hooks = True
    agent: Agent[Any, str] = Agent(model, capabilities=[memory, both][:: 1 if order == 0 else -1])
    found = (await agent.run("Which door?")).output
    assert "red door" in found
    assert "blue door" in found
    assert len(names) == len(set(names)) == 7
    assert said[0].count("red door") == 1
    assert said[0].count("blue door") == 1

    names.clear()
    said.clear()
    both.enabled = False
    only_memory = (await agent.run("Which door?")).output
    assert "red door" in only_memory
    assert "blue door" not in only_memory
    assert len(names) == 5
    both.enabled, memory.talent.enabled = True, False
    names.clear()
    only_ledger = (await agent.run("Which door?")).output
    assert "blue door" in only_ledger
    assert "red door" not in only_ledger
    assert sorted(names) == ["memory_get", "memory_save", "memory_search"]
