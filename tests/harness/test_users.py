"""Users and workspaces of one program never meet: in streams, ledgers, flushes and after a cancellation."""

import asyncio
import gc
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from memory_core import load_provider
from memory_core.harness import HarnessEngine, LedgerCapability, MemoryCapability, RunScope
from memory_core.harness.scope import CURRENT
from memory_core.ledger import Ledger, MemoryConfig
from memory_core.sessions import InMemorySessions, text_of
from memory_core.sessions.memory import InMemoryAgentSession
from memory_core.sessions.messages import Message

PIN = "Alice's PIN is 4711"


class Listening:
    """A model that answers `a b c` and keeps the instructions that it was given."""

    def __init__(self) -> None:
        self.instructions: list[str] = []
        self.model = FunctionModel(self._answer, stream_function=self._stream)

    def _answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.instructions.append(info.instructions or "")
        return ModelResponse([TextPart("a b c")])

    async def _stream(self, messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        self.instructions.append(info.instructions or "")
        for word in ("a ", "b ", "c"):
            yield word


async def recorder(system: str, user: str, limit: int) -> str:
    """Flush what mentions the number."""
    return f"- {PIN}" if "4711" in user else "NO_REPLY"


@pytest.fixture
def listening() -> Listening:
    return Listening()


@pytest.fixture
def engine_at(tmp_path: Path, listening: Listening) -> Callable[..., HarnessEngine]:
    def make(**settings: Any) -> HarnessEngine:
        return HarnessEngine(tmp_path / "work", tmp_path / "home", model=listening.model, **settings)

    return make


async def test_a_stream_s_user_is_nobody_else_s(
    engine_at: Callable[..., HarnessEngine], listening: Listening, tmp_path: Path
) -> None:
    async with engine_at(ledger=False) as engine:
        provider = load_provider(tmp_path / "work", overrides={"home": str(tmp_path / "home")})
        solution = provider.get(tmp_path / "work")
        solution.remember("secret", PIN, 9, user_id="alice")
        solution.remember("taste", "Bob likes tea", 9, user_id="bob")
        other = Agent(listening.model, capabilities=[MemoryCapability(provider, cwd=tmp_path / "work")])
        bob = RunScope(str(tmp_path / "work"), user_id="bob")

        async def asked_by_bob() -> str:
            await other.run("What do you know?", deps=bob)
            return listening.instructions[-1]

        stream = engine.stream("hello", session="s", user_id="alice")
        assert await anext(stream)
        assert "4711" in listening.instructions[-1]
        during = await asked_by_bob()
        await stream.aclose()
        after = await asked_by_bob()
        async for _ in engine.stream("hello", user_id="alice"):
            break  # never closed by hand
        gc.collect()
        for instructions in (during, after, await asked_by_bob()):
            assert "4711" not in instructions
            assert "tea" in instructions
        assert CURRENT.get() is None
        provider.close()


async def test_a_stream_given_up_by_a_cancellation_ends_its_run(engine_at: Callable[..., HarnessEngine]) -> None:
    async with engine_at(ledger=False) as engine:

        async def read() -> None:
            async for _ in engine.stream("hello", session="s"):
                await asyncio.sleep(60)

        reading = asyncio.create_task(read())
        await asyncio.sleep(0.2)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        assert engine.get_session("s").messages() == []
        assert str(await asyncio.wait_for(engine.prompt("again", session="s"), 10)) == "a b c"


async def test_each_user_of_an_engine_has_a_ledger(
    engine_at: Callable[..., HarnessEngine], listening: Listening, tmp_path: Path
) -> None:
    async with engine_at(memory_model=recorder) as engine:
        await engine.prompt("my PIN is 4711", user_id="alice")
        await engine.drain()
        (written,) = (tmp_path / "work").rglob("memory/*.md")
        assert written.relative_to(tmp_path / "work").parts[:2] == ("users", "alice")
        alone = Ledger(tmp_path / "work" / "users" / "alice")
        alone.save(PIN)
        for user in ("bob", "alice/..", None):
            await engine.prompt("hi", user_id=user)
            assert "4711" not in listening.instructions[-1]
        await engine.prompt("hi", user_id="alice")
        assert "4711" in listening.instructions[-1]


async def test_a_ledger_that_was_given_serves_the_engine_s_own_user_alone(
    engine_at: Callable[..., HarnessEngine], listening: Listening, tmp_path: Path
) -> None:
    ledger = Ledger(tmp_path / "hers", recorder)
    ledger.save(PIN)
    async with engine_at(ledger=ledger, user_id="alice") as engine:
        await engine.prompt("hi")
        assert "4711" in listening.instructions[-1]
        await engine.prompt("my PIN is 4711 too", user_id="bob")
        assert "4711" not in listening.instructions[-1]
    assert not any("too" in path.read_text() for path in (tmp_path / "hers").rglob("*.md"))


@pytest.mark.parametrize("trigger", ["always", 3_600])
async def test_each_workspace_s_talk_goes_to_its_own_ledger(tmp_path: Path, trigger: Any, listening: Listening) -> None:
    async def slow(system: str, user: str, limit: int) -> str:
        await asyncio.sleep(0.1)
        return "- " + " ".join(word for word in user.split() if word.startswith("SECRET"))

    config = MemoryConfig.from_mapping({"flush_trigger": trigger})
    ledgers = {str(tmp_path / name): Ledger(tmp_path / name, slow, config) for name in "ab"}
    capability = LedgerCapability(ledgers.__getitem__)
    agent = Agent(listening.model, capabilities=[capability])
    for name in "abab":
        await agent.run(f"it is SECRET-{name}", deps={"cwd": str(tmp_path / name)})
    assert await capability.finish()
    for name, other in ("ab", "ba"):
        (written,) = (tmp_path / name / "memory").glob("*.md")
        assert f"SECRET-{name}" in written.read_text()
        assert f"SECRET-{other}" not in written.read_text()


async def test_a_ledger_without_users_serves_none(tmp_path: Path, listening: Listening) -> None:
    ledger = Ledger(tmp_path, recorder)
    ledger.save(PIN)
    agent = Agent(listening.model, capabilities=[LedgerCapability(ledger)])
    await agent.run("hi", deps=RunScope(str(tmp_path), user_id="bob"))
    assert "4711" not in listening.instructions[-1]
    await agent.run("hi", deps=RunScope(str(tmp_path)))
    assert "4711" in listening.instructions[-1]


def test_throttles_of_different_users_never_meet() -> None:
    keys = {
        RunScope(".", session, user).isolation_key for user, session in (("a/b", "c"), ("a", "b/c"), ("a%2Fb", "c"))
    }
    assert len(keys) == 3


async def test_a_cancellation_while_a_reply_is_stored_waits_for_all_of_it(
    engine_at: Callable[..., HarnessEngine], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import time

    storing = asyncio.Event()
    loop = asyncio.get_running_loop()
    append = InMemoryAgentSession.append

    def slow(self: InMemoryAgentSession, messages: list[Message]) -> None:
        loop.call_soon_threadsafe(storing.set)
        time.sleep(0.2)
        append(self, messages)

    async with engine_at(ledger=False, session_provider=InMemorySessions()) as engine:
        with monkeypatch.context() as patched:
            patched.setattr(InMemoryAgentSession, "append", slow)
            asked = asyncio.create_task(engine.prompt("first", session="s"))
            await storing.wait()
            asked.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asked
        assert [text_of(message) for message in engine.get_session("s").messages()] == ["first", "a b c"]
        await engine.drain()
        (log,) = (tmp_path / "home" / "sessions").rglob("*.log.jsonl")
        assert "first" in log.read_text()


async def test_flushes_go_on_with_the_agent_s_own_model(
    engine_at: Callable[..., HarnessEngine], tmp_path: Path
) -> None:
    asked: list[str] = []

    def named(name: str) -> FunctionModel:
        def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            asked.append(name)
            return ModelResponse([TextPart("NO_REPLY")])

        return FunctionModel(answer)

    ledger = Ledger(tmp_path)
    capability = LedgerCapability(ledger)
    agent = Agent(named("own"), capabilities=[capability])
    await agent.run("hi", model=named("dear"))
    await capability.finish()
    assert asked == ["dear", "own"]
