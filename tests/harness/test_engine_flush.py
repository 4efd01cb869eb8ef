"""Flushes beside the conversation: slow, throttled, failing, made up for."""

import asyncio
from collections.abc import Callable

import pytest

from memory_core.errors import ConfigError
from memory_core.harness import HarnessEngine
from memory_core.ledger import FlushTrigger, MemoryConfig
from tests.harness.chat_server import (
    ChatServer,
    Request,
    Say,
    Script,
    is_flush,
)

Serve = Callable[[Script], ChatServer]

EngineAt = Callable[..., HarnessEngine]


async def test_a_slow_flush_does_not_hold_up_the_reply_and_is_not_lost(serve: Serve, engine_at: EngineAt) -> None:
    flushing = asyncio.Event()

    def script(request: Request) -> Say:
        if not is_flush(request):
            return Say("ok")
        loop.call_soon_threadsafe(flushing.set)
        return Say("- Deploys with Docker", delay_s=0.3)

    loop = asyncio.get_running_loop()
    engine = engine_at(serve(script))
    await engine.prompt("hello", session="s")
    assert engine.health().pending > 0  # the reply is here, the flush is not
    assert not (engine.workspace / "memory").exists() or not list((engine.workspace / "memory").glob("20*.md"))
    await asyncio.wait_for(flushing.wait(), 5)
    assert not await engine.drain(timeout_s=0.01)
    assert await engine.close()
    assert "Docker" in next((engine.workspace / "memory").glob("20*.md")).read_text("utf-8")
    with pytest.raises(ConfigError, match="closed"):
        await engine.prompt("hello", session="s")


async def test_what_throttling_kept_back_is_flushed_at_the_end(serve: Serve, engine_at: EngineAt) -> None:
    from datetime import timedelta

    server = serve(lambda request: Say("- A fact" if is_flush(request) else "ok"))
    config = MemoryConfig(flush_trigger=FlushTrigger.throttled(timedelta(hours=1)))
    async with engine_at(server, memory=config) as engine:
        for number in range(3):
            await engine.prompt(f"number {number}", session="s")
        await engine.drain()
        flushes = [request for request in server.requests if is_flush(request) and "number 0" in str(request)]
        assert len(flushes) == 1
        assert not [request for request in server.requests if is_flush(request) and "number 2" in str(request)]
    rest = [request for request in server.requests if is_flush(request) and "number 2" in str(request)]
    assert len(rest) == 1
    assert "number 1" in str(rest[0])


async def test_a_flush_that_fails_is_reported_and_made_up_for(serve: Serve, engine_at: EngineAt) -> None:
    failing = True

    def script(request: Request) -> Say:
        if not is_flush(request):
            return Say("ok")
        return Say(status=500) if failing else Say("- A fact")

    server = serve(script)
    async with engine_at(server) as engine:
        assert str(await engine.prompt("important", session="s")) == "ok"
        await engine.drain()
        health = engine.health()
        assert not health.ok
        assert health.failures[0].job == "flush"
        assert any("ledger-flush" in problem for problem in health.problems)
        failing = False
        await engine.prompt("later", session="s")
        await engine.drain()
        flushes = [str(request) for request in server.requests if is_flush(request)]
        assert any("important" in request and "later" in request for request in flushes)
