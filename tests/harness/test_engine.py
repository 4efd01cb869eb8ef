"""The engine end to end, against a real HTTP server that speaks OpenAI's chat API."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.exceptions import ModelAPIError, ModelHTTPError

from memory_core.context import CompactionConfig, ToolResultEvictionConfig
from memory_core.errors import ConfigError
from memory_core.harness import HarnessEngine
from memory_core.ledger import FlushTrigger, MemoryConfig
from memory_core.sessions import InMemorySessions, text_of
from tests.harness.chat_server import (
    ChatServer,
    Request,
    Say,
    Script,
    check_pairs,
    is_flush,
    last_of,
    overflow,
    system_of,
)
from tests.harness.conftest import chat_model

Serve = Callable[[Script], ChatServer]
EngineAt = Callable[..., HarnessEngine]

FACT = "The user prefers the editor vim"


def vim(request: Request) -> Say:
    """Store what one is told; answer from the instructions; flush one fact."""
    if is_flush(request):
        return Say("- Deploys with Docker")
    last = last_of(request)
    if last["role"] == "tool":
        return Say("noted")
    if "I prefer" in last["content"]:
        return Say(calls=[("memory_extract", {"key": "user-editor", "fact": FACT, "importance": "8/10"})])
    return Say("You use vim." if FACT in system_of(request) else "I do not know.")


async def test_a_fact_of_session_1_is_used_in_session_2_after_a_restart(serve: Serve, engine_at: EngineAt) -> None:
    server = serve(vim)
    async with engine_at(server) as engine:
        assert str(await engine.prompt("I prefer vim", session="one")) == "noted"
    async with engine_at(server) as engine:
        assert str(await engine.prompt("Which editor do I use?", session="two")) == "You use vim."
        assert [text_of(message) for message in engine.get_session("two").messages()] == [
            "Which editor do I use?",
            "You use vim.",
        ]
    assert "Deploys with Docker" in next((engine.workspace / "memory").glob("20*.md")).read_text("utf-8")
    assert engine.health().failures == ()


async def test_a_stream_gives_the_text_in_pieces_and_runs_tools(serve: Serve, engine_at: EngineAt) -> None:
    async with engine_at(serve(vim)) as engine:
        pieces = [piece async for piece in engine.stream("I prefer vim", session="one")]
        assert "".join(pieces) == "noted"
        pieces = [piece async for piece in engine.stream("Which editor?", session="one")]
        assert "".join(pieces) == "You use vim."
        assert len(pieces) > 1
        assert len(engine.get_session("one").messages()) == 6


async def test_a_session_carries_its_window_and_survives_a_restart(serve: Serve, engine_at: EngineAt) -> None:
    server = serve(lambda request: Say("- x" if is_flush(request) else "ok"))
    async with engine_at(server, ledger=False, session_window_size=4) as engine:
        for number in range(5):
            await engine.prompt(f"number {number}", session="s")
    async with engine_at(server, ledger=False, session_window_size=4) as engine:
        await engine.prompt("last", session="s")
        said = [message["content"] for message in server.requests[-1]["messages"] if message["role"] == "user"]
        assert said == ["number 3", "number 4", "last"]
        engine.session_window_size = 0
        await engine.prompt("alone", session="s")
        said = [message["content"] for message in server.requests[-1]["messages"] if message["role"] == "user"]
        assert said == ["alone"]


async def test_without_a_session_no_history_is_left(serve: Serve, engine_at: EngineAt) -> None:
    server = serve(vim)
    async with engine_at(server) as engine:
        await engine.prompt("hello")
        await engine.prompt("again")
        assert [message["role"] for message in server.requests[-1]["messages"]].count("user") == 1
    assert list(engine.harness_sessions.glob("*")) == []


async def test_memory_off_makes_no_memory_call(serve: Serve, engine_at: EngineAt, tmp_path: Path) -> None:
    class Refusing:
        def get(self, cwd: object) -> Any:
            raise AssertionError("the memory was asked")

    server = serve(lambda _request: Say("hello"))
    async with engine_at(server, memory_enabled=False, memory_provider=Refusing) as engine:
        await engine.prompt("hello", session="s")
        assert await engine.drain()
    assert len(server.requests) == 1
    names = [tool["function"]["name"] for tool in server.requests[0].get("tools", [])]
    assert names == ["read_tool_result"]
    assert system_of(server.requests[0]) == ""
    assert list((tmp_path / "work").iterdir()) == []


async def test_memory_is_switched_at_run_time(serve: Serve, engine_at: EngineAt) -> None:
    server = serve(vim)
    async with engine_at(server, ledger=False) as engine:
        await engine.prompt("I prefer vim", session="one")
        engine.memory_enabled = False
        await engine.prompt("Which editor?", session="two")
        assert FACT not in str(server.requests[-1]["messages"])
        engine.memory_enabled = True
        assert str(await engine.prompt("Which editor?", session="three")) == "You use vim."
        engine.memory_relevance_count, engine.memory_priority_count, engine.memory_summary_length = 0, 0, 20
        assert engine.memory_talent.summary_length == 20
        assert str(await engine.prompt("Which editor?", session="four")) == "I do not know."


@pytest.mark.parametrize(
    ("settings", "tools", "injected", "flushed"),
    [
        ({"disable_memory_tools": True}, False, True, True),
        ({"permissions": ["shell"]}, False, True, True),
        ({"permissions": ["memory"]}, True, True, True),
        ({"disable_memory_hooks": True}, True, True, False),
        ({"disable_memory_hooks": True, "disable_memory_tools": True}, False, False, False),
    ],
)
async def test_tools_and_hooks_are_switched_off(
    serve: Serve, engine_at: EngineAt, settings: dict[str, Any], tools: bool, injected: bool, flushed: bool
) -> None:
    server = serve(lambda _request: Say("- Deploys with Docker"))
    async with engine_at(server, ledger=False) as engine:
        engine.memory_talent.extract("user-editor", FACT, 8, cwd=engine.workspace)
    (engine.workspace / "MEMORY.md").write_text("- Lives in Bern\n", "utf-8")
    async with engine_at(server, tool_result_eviction=False, **settings) as engine:
        await engine.prompt("hello", session="s")
    request = server.requests[0]
    names = {tool["function"]["name"] for tool in request.get("tools", [])}
    assert ("memory_search" in names and "memory_save" in names) is tools
    assert bool(names) is tools
    assert (FACT in system_of(request) and "Lives in Bern" in system_of(request)) is injected
    assert ("memory_extract" in system_of(request)) is tools
    assert (len(server.requests) > 1) is flushed


async def test_a_long_conversation_is_compacted_with_every_pair_intact(serve: Serve, engine_at: EngineAt) -> None:
    asked = 0

    def script(request: Request) -> Say:
        nonlocal asked
        if is_flush(request):
            return Say("SESSION INTENT: to talk." if "SESSION INTENT" in str(request["messages"]) else "NO_REPLY")
        check_pairs(request)
        if last_of(request)["role"] == "tool":
            return Say("done")
        asked += 1
        return Say(calls=[("memory_search", {"query": f"thing {asked}"}), ("memory_recall", {"key": f"key {asked}"})])

    server = serve(script)
    async with engine_at(server, session_window_size=200, compression_max_messages=20) as engine:
        for number in range(20):
            await engine.prompt(f"question {number}", session="s")
        messages = engine.get_session("s").messages()
        summaries = [message for message in messages if message.kind == "summary"]
        assert len(summaries) == 1
        assert len(messages) < 40
        chat = [request for request in server.requests if not is_flush(request)]
        assert max(len(request["messages"]) for request in chat) <= 40
        assert "question 0" in str(chat[-1]["messages"])  # the first request is carried along
    log = engine.harness_sessions / "s.log.jsonl"
    assert log.read_text("utf-8").count('"question ') >= 20  # the transcript is whole
    made = [request for request in server.requests if is_flush(request) and "SESSION INTENT" in str(request)]
    assert len(made) < 10  # a summary is made once, not at every request


@pytest.mark.parametrize("streamed", [False, True])
async def test_an_overflow_recovers_once(serve: Serve, engine_at: EngineAt, streamed: bool) -> None:
    refused = 0

    def script(request: Request) -> Say:
        nonlocal refused
        if is_flush(request):
            return Say("SESSION INTENT: numbers")
        if len(request["messages"]) > 8:
            refused += 1
            return overflow()
        return Say("fine")

    server = serve(script)
    async with engine_at(server, session_window_size=100, tool_result_eviction=False) as engine:
        for number in range(4):
            await engine.prompt(f"number {number}", session="s")
        if streamed:
            assert "".join([piece async for piece in engine.stream("one more", session="s")]) == "fine"
        else:
            assert str(await engine.prompt("one more", session="s")) == "fine"
        assert refused == 1
        assert [message.kind for message in engine.get_session("s").messages()].count("summary") == 1
        assert await engine.drain()


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


async def test_one_session_is_served_in_order_and_different_ones_side_by_side(
    serve: Serve, engine_at: EngineAt
) -> None:
    active: list[str] = []
    most = {"same": 0, "all": 0}

    def script(request: Request) -> Say:
        if is_flush(request):
            return Say("NO_REPLY")
        session = last_of(request)["content"].split()[0]
        active.append(session)
        most["same"] = max(most["same"], active.count(session))
        most["all"] = max(most["all"], len(active))
        time.sleep(0.05)
        active.remove(session)
        return Say("ok")

    async with engine_at(serve(script)) as engine:
        prompts = [engine.prompt(f"{name} {number}", session=name) for number in range(4) for name in ("a", "b", "c")]
        await asyncio.gather(*prompts)
        for name in ("a", "b", "c"):
            said = [text_of(message) for message in engine.get_session(name).messages()]
            assert said == [text for number in range(4) for text in (f"{name} {number}", "ok")]
    assert most["same"] == 1
    assert most["all"] > 1


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


async def test_a_large_tool_result_is_moved_to_a_file(serve: Serve, engine_at: EngineAt) -> None:
    def script(request: Request) -> Say:
        if is_flush(request):
            return Say("NO_REPLY")
        last = last_of(request)
        if last["role"] == "user":
            return Say(calls=[("shell", {})])
        if "too long" in last["content"] and "read_tool_result" in last["content"]:
            path = last["content"].split("full text is in ")[1].split(". ")[0].rstrip(".")
            return Say(calls=[("read_tool_result", {"path": path, "start_line": 500, "end_line": 500})])
        return Say(last["content"])

    def shell() -> str:
        return "\n".join(f"line {number}" for number in range(1, 1000))

    config = ToolResultEvictionConfig(max_chars=3000, preview_chars=500)
    server = serve(script)
    async with engine_at(server, tools=[shell], tool_result_eviction=config) as engine:
        reply = await engine.prompt("run it", session="s")
        assert "line 500" in str(reply)
        assert max(len(str(message)) for message in engine.get_session("s").messages()) < 4000


def test_the_engine_works_without_an_event_loop(serve: Serve, engine_at: EngineAt) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with engine_at(serve(vim), session_provider=InMemorySessions()) as engine:
        assert str(engine.prompt_sync("I prefer vim", session="one")) == "noted"

        def ask(name: str) -> str:
            return str(engine.prompt_sync("Which?", session=name))

        with ThreadPoolExecutor(4) as pool:
            replies = list(pool.map(ask, "abcdaabb"))
        assert set(replies) == {"You use vim."}
        assert len(engine.get_session("a").messages()) == 6
    assert engine.close_sync()


async def test_the_synchronous_call_inside_a_loop_says_what_to_do(serve: Serve, engine_at: EngineAt) -> None:
    async with engine_at(serve(vim)) as engine:
        with pytest.raises(ConfigError, match="await"):
            engine.prompt_sync("hello")


async def test_users_of_one_engine_do_not_see_each_other(serve: Serve, engine_at: EngineAt) -> None:
    async with engine_at(serve(vim), ledger=False) as engine:
        await engine.prompt("I prefer vim", session="one", user_id="ann")
        assert str(await engine.prompt("Which?", session="two", user_id="bob")) == "I do not know."
        assert str(await engine.prompt("Which?", session="three")) == "I do not know."
        assert str(await engine.prompt("Which?", session="four", user_id="ann")) == "You use vim."


async def test_memory_and_compaction_have_their_own_models(serve: Serve, engine_at: EngineAt) -> None:
    main = serve(lambda _request: Say("ok"))
    flushes = serve(lambda _request: Say("- A fact"))
    summaries = serve(lambda _request: Say("SESSION INTENT: numbers"))
    config = CompactionConfig(trigger_messages=6, keep_messages=2, model=chat_model(summaries))
    async with engine_at(main, memory_model=chat_model(flushes), compaction=config, session_window_size=50) as engine:
        for number in range(6):
            await engine.prompt(f"number {number}", session="s")
    assert len(main.requests) == 6
    assert flushes.requests
    assert summaries.requests


@pytest.mark.parametrize("provider", [42, object()])
def test_a_provider_that_is_none_is_refused(engine_at: EngineAt, serve: Serve, provider: object) -> None:
    with pytest.raises(ConfigError, match=r"get\(cwd\)"):
        engine_at(serve(vim), memory_provider=provider)


def test_its_places_are_readable(engine_at: EngineAt, serve: Serve, tmp_path: Path) -> None:
    with engine_at(serve(vim)) as engine:
        assert engine.harness_sessions == tmp_path / "home" / "sessions"
        assert engine.harness_memory == tmp_path / "home" / "memory"
        assert engine.ledger is not None
