"""The engine end to end, against a real HTTP server that speaks OpenAI's chat API."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from memory_core.context import CompactionConfig, ToolResultEvictionConfig
from memory_core.errors import ConfigError
from memory_core.harness import HarnessEngine
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
