"""What goes wrong between engine and model: overflows, errors, time outs, cut streams."""

import asyncio
from collections.abc import Callable

import pytest
from pydantic_ai.exceptions import ModelAPIError, ModelHTTPError

from memory_core.harness import HarnessEngine
from tests.harness.chat_server import (
    ChatServer,
    Request,
    Say,
    Script,
    is_flush,
    overflow,
)
from tests.harness.conftest import chat_model

Serve = Callable[[Script], ChatServer]

EngineAt = Callable[..., HarnessEngine]


async def test_a_second_overflow_goes_to_the_caller(serve: Serve, engine_at: EngineAt) -> None:
    chat = 0

    def script(request: Request) -> Say:
        nonlocal chat
        if is_flush(request):
            return Say("SESSION INTENT: numbers")
        chat += 1
        return overflow() if chat > 4 else Say("fine")

    server = serve(script)
    async with engine_at(server, session_window_size=100) as engine:
        for number in range(4):
            await engine.prompt(f"number {number}", session="s")
        before = engine.get_session("s").messages()
        with pytest.raises(ModelHTTPError, match="maximum context"):
            await engine.prompt("one more", session="s")
        assert chat == 6
        assert engine.get_session("s").messages() == before


async def test_without_compaction_an_overflow_goes_to_the_caller(serve: Serve, engine_at: EngineAt) -> None:
    server = serve(lambda _request: overflow())
    async with engine_at(server, compaction=False) as engine:
        with pytest.raises(ModelHTTPError):
            await engine.prompt("hello", session="s")
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [401, 429, 500, 503])
async def test_an_error_leaves_the_session_as_it_was(serve: Serve, engine_at: EngineAt, status: int) -> None:
    failing = False

    def script(request: Request) -> Say:
        return Say(status=status) if failing and not is_flush(request) else Say("ok")

    async with engine_at(serve(script)) as engine:
        await engine.prompt("hello", session="s")
        before = engine.get_session("s").messages()
        failing = True
        with pytest.raises(ModelHTTPError):
            await engine.prompt("again", session="s")
        with pytest.raises(ModelHTTPError):
            [piece async for piece in engine.stream("again", session="s")]
        assert engine.get_session("s").messages() == before
        failing = False
        assert str(await engine.prompt("again", session="s")) == "ok"


async def test_a_rate_limit_that_passes_is_waited_out_by_the_client(serve: Serve, engine_at: EngineAt) -> None:
    answers = iter([Say(status=429), Say("ok")])
    server = serve(lambda request: Say("NO_REPLY") if is_flush(request) else next(answers))
    async with engine_at(server, model=chat_model(server, retries=1)) as engine:
        assert str(await engine.prompt("hello", session="s")) == "ok"


async def test_a_time_out_is_an_error_and_the_next_prompt_works(serve: Serve, engine_at: EngineAt) -> None:
    slow = True
    server = serve(lambda request: Say("ok", delay_s=1.0 if slow and not is_flush(request) else 0.0))
    async with engine_at(server, model=chat_model(server, timeout_s=0.2)) as engine:
        with pytest.raises(ModelAPIError):
            await engine.prompt("hello", session="s")
        slow = False
        assert str(await engine.prompt("hello", session="s")) == "ok"
        assert len(engine.get_session("s").messages()) == 2


async def test_a_cut_stream_is_an_error_and_leaves_the_session(serve: Serve, engine_at: EngineAt) -> None:
    cut = True

    def script(request: Request) -> Say:
        return Say("a long answer in many pieces", cut=2 if cut and not is_flush(request) else None)

    async with engine_at(serve(script)) as engine:
        stream = engine.stream("hello", session="s")
        assert await anext(stream)
        with pytest.raises(Exception, match=r"(?i)chunk|connection|incomplete|peer"):
            [piece async for piece in stream]
        assert engine.get_session("s").messages() == []
        cut = False
        assert "".join([piece async for piece in engine.stream("hello", session="s")]).endswith("pieces")


async def test_a_stream_that_is_given_up_frees_its_session(serve: Serve, engine_at: EngineAt) -> None:
    async with engine_at(serve(lambda _request: Say("a long answer in many pieces"))) as engine:
        stream = engine.stream("hello", session="s")
        assert await anext(stream)
        await stream.aclose()
        assert engine.get_session("s").messages() == []
        assert str(await asyncio.wait_for(engine.prompt("hello", session="s"), 5)) == "a long answer in many pieces"
