"""The MCP server, driven by the official client: in process, over stdio, and over HTTP."""

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import psutil  # type: ignore[import-untyped, unused-ignore]  # its stubs are a package that nothing else needs
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import TextContent, TextResourceContents

from memory_core.adapters.mcp_http import http_app, is_loopback
from memory_core.adapters.workspace import workspace_server
from memory_core.cli.run import run
from memory_core.config import load_settings
from memory_core.contracts import MemorySolution, MemorySolutionProvider
from memory_core.errors import ConfigError, InvalidKeyError, MissingExtraError, StorageUnavailableError
from memory_core.ledger.opening import open_ledger
from memory_core.sessions import TranscriptLog, user_message
from memory_core.sessions.loading import session_directory

from .conftest import TOKEN, command, environment, over_http, over_stdio

TOOLS = {"memory_extract", "memory_recall", "memory_search", "memory_consolidate", "memory_prune"}
LEDGER_TOOLS = {"memory_get", "memory_save"}
SESSION_TOOLS = {"session_search", "session_list", "session_history"}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}


async def said(client: Client, tool: str, **arguments: Any) -> str:
    """Call a tool that works and return its text."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result
    [content] = result.content
    assert isinstance(content, TextContent)
    return content.text


async def read(client: Client, uri: str) -> str:
    [content] = (await client.read_resource(uri)).contents
    assert isinstance(content, TextResourceContents)
    assert content.mime_type == "text/markdown"
    return content.text


@asynccontextmanager
async def http_client(url: str, **headers: str) -> AsyncGenerator[Client]:
    async with (
        httpx2.AsyncClient(headers=headers, timeout=30) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        yield client


def server(provider: MemorySolutionProvider, workspace: Path, user: str | None = None, **more: bool) -> Any:
    return workspace_server(provider, load_settings(workspace), workspace, user, **more)


# --- in process ----------------------------------------------------------------------------------------------------


async def test_the_tools_are_those_of_memory_ledger_and_sessions(
    provider: MemorySolutionProvider, workspace: Path
) -> None:
    async with Client(server(provider, workspace)) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == TOOLS | LEDGER_TOOLS | SESSION_TOOLS
        assert all(tool.description and tool.input_schema["type"] == "object" for tool in tools.values())
        assert client.server_info is not None
        assert client.server_info.name == "memory-core"
    async with Client(server(provider, workspace, ledger=False, sessions=False)) as client:
        assert {tool.name for tool in (await client.list_tools()).tools} == TOOLS


async def test_a_memory_is_stored_found_and_removed(
    provider: MemorySolutionProvider, workspace: Path, solution: MemorySolution
) -> None:
    async with Client(server(provider, workspace)) as client:
        await said(client, "memory_extract", key="drink", fact="Drinks black coffee", importance=8)
        assert solution.recall("drink") is not None
        found = await client.call_tool("memory_search", {"query": "coffee"})
        assert found.structured_content is not None
        assert [hit["key"] for hit in found.structured_content["hits"]] == ["drink"]
        await said(client, "memory_prune", key="drink")
        assert solution.recall("drink") is None


async def test_wrong_calls_are_errors_for_the_model(provider: MemorySolutionProvider, workspace: Path) -> None:
    async with Client(server(provider, workspace)) as client:
        for tool, arguments in (
            ("memory_recall", {}),
            ("memory_recall", {"key": 7}),
            ("memory_extract", {"key": "k", "fact": "f", "importance": "very"}),
            ("session_history", {"session_id": ""}),
        ):
            assert (await client.call_tool(tool, arguments)).is_error, tool
        unknown = await client.call_tool("no_such_tool", {})
        assert unknown.is_error
        assert "There is no tool" in str(unknown.content)


async def test_memories_and_ledger_files_are_resources(
    provider: MemorySolutionProvider, workspace: Path, solution: MemorySolution
) -> None:
    key = "名字 / a%2Fb?x#y"
    solution.remember(key, "# Drinks\ncoffee 咖啡", 8)
    open_ledger(workspace).save("The deadline is Friday")
    (workspace / "secret.md").write_text("not a memory")
    async with Client(server(provider, workspace)) as client:
        listed = (await client.list_resources()).resources
        assert {one.name for one in listed} >= {key, "MEMORY.md"}
        texts = {one.name: await read(client, str(one.uri)) for one in listed}
        assert texts[key] == "# Drinks\ncoffee 咖啡"
        assert "The deadline is Friday" in texts["MEMORY.md"]
        assert any(name.startswith("memory/") for name in texts)


@pytest.mark.parametrize(
    "uri",
    [
        "memory://workspace/nothing",
        "memory://workspace/",
        "memory://other/k",
        "memory://",
        "memory://workspace/%00",
        "ledger:///secret.md",
        "ledger:///../secret.md",
        "ledger:///memory/%2e%2e/secret.md",
        "ledger:////etc/passwd",
        "ledger:///",
        "file:///etc/passwd",
        "x",
    ],
)
async def test_what_is_no_resource_is_not_found(provider: MemorySolutionProvider, workspace: Path, uri: str) -> None:
    (workspace / "secret.md").write_text("not a memory")
    async with Client(server(provider, workspace)) as client:
        with pytest.raises(MCPError, match="There is no resource"):
            await client.read_resource(uri)


async def test_the_prompt_is_the_instruction_block(
    provider: MemorySolutionProvider, workspace: Path, solution: MemorySolution
) -> None:
    solution.remember("drink", "Drinks black coffee", 8)
    async with Client(server(provider, workspace)) as client:
        [prompt] = (await client.list_prompts()).prompts
        given = await client.get_prompt(prompt.name, {"input": "coffee"})
        assert "Drinks black coffee" in str(given.messages[0].content)
        assert "Drinks black coffee" in str((await client.get_prompt(prompt.name)).messages[0].content)
        with pytest.raises(MCPError, match="There is no prompt"):
            await client.get_prompt("other")


async def test_a_store_that_fails_is_an_error_with_its_sentence(
    provider: MemorySolutionProvider, workspace: Path, solution: MemorySolution, monkeypatch: pytest.MonkeyPatch
) -> None:
    def down(**_: Any) -> Any:
        raise StorageUnavailableError("The store is down.")

    monkeypatch.setattr(solution, "list_all", down)
    async with Client(server(provider, workspace)) as client:
        with pytest.raises(MCPError, match=r"The store is down\."):
            await client.list_resources()
        assert await said(client, "memory_recall", key="k")


async def test_conversations_are_searched_and_only_ones_own(provider: MemorySolutionProvider, workspace: Path) -> None:
    log = TranscriptLog(session_directory(load_settings(workspace)))
    log.write("s-all", [user_message("We decided to use Solon")])
    log.write("s-alice", [user_message("Alice decided to use Django")], user_id="alice")
    async with Client(server(provider, workspace)) as client:
        text = await said(client, "session_search", query="decided")
        assert "Solon" in text
        assert "Django" not in text
        assert "s-alice" not in await said(client, "session_list")
    async with Client(server(provider, workspace, "alice")) as client:
        text = await said(client, "session_search", query="decided")
        assert "Django" in text
        assert "Solon" not in text
        assert "Solon" not in await said(client, "session_history", session_id="s-all")


async def test_a_user_is_fixed(provider: MemorySolutionProvider, workspace: Path, solution: MemorySolution) -> None:
    solution.remember("drink", "Bob drinks tea", 8, user_id="bob")
    solution.remember("all", "Everybody drinks water", 8)
    async with Client(server(provider, workspace, "alice")) as client:
        assert not LEDGER_TOOLS & {tool.name for tool in (await client.list_tools()).tools}
        assert "Bob" not in await said(client, "memory_search", query="drinks")
        assert "Bob" not in await said(client, "memory_recall", key="drink")
        for name in ("user_id", "user", "session_id", "cwd"):
            refused = await client.call_tool("memory_recall", {"key": "drink", name: "bob"})
            assert refused.is_error
            assert "Bob" not in str(refused.content)
        assert (await client.list_resources()).resources == []
        with pytest.raises(MCPError):
            await client.read_resource("memory://workspace/drink")
        await said(client, "memory_prune", key="drink")
    assert solution.recall("drink", user_id="bob") is not None
    with pytest.raises(InvalidKeyError):
        server(provider, workspace, " ")


async def test_memory_that_is_off_has_no_tools(provider: MemorySolutionProvider, workspace: Path) -> None:
    loaded = load_settings(workspace, overrides={"talent": {"enabled": False}})
    async with Client(workspace_server(provider, loaded, workspace)) as client:
        assert (await client.list_tools()).tools == []


# --- stdio ---------------------------------------------------------------------------------------------------------


async def test_two_clients_on_one_workspace_at_once(workspace: Path) -> None:
    async with Client(over_stdio(workspace)) as one, Client(over_stdio(workspace)) as two:

        async def write(client: Client, who: str) -> None:
            for number in range(15):
                await said(client, "memory_extract", key=f"{who}-{number}", fact=f"{who} fact {number}", importance=6)

        await asyncio.gather(write(one, "one"), write(two, "two"))
        for client in (one, two):
            for who in ("one", "two"):
                for number in range(15):
                    assert f"{who} fact {number}" in await said(client, "memory_recall", key=f"{who}-{number}")
            assert "two fact 14" in await said(client, "memory_search", query="two fact 14")
            assert len((await client.list_resources()).resources) == 30


async def test_over_stdio_the_user_is_fixed_and_memories_survive_a_restart(workspace: Path) -> None:
    async with Client(over_stdio(workspace, "--user", "bob")) as bob:
        await said(bob, "memory_extract", key="drink", fact="Bob drinks tea", importance=8)
    async with Client(over_stdio(workspace, "--user", "alice")) as alice:
        assert "Bob drinks" not in await said(alice, "memory_search", query="drinks tea")
        assert (await alice.call_tool("memory_search", {"query": "tea", "user_id": "bob"})).is_error
    async with Client(over_stdio(workspace, "--user", "bob", "--no-sessions")) as bob:
        assert "Bob drinks tea" in await said(bob, "memory_recall", key="drink")
        assert {tool.name for tool in (await bob.list_tools()).tools} == TOOLS


def test_ctrl_c_ends_the_server_while_the_client_is_silent(workspace: Path) -> None:
    hello = {
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
    }  # fmt: skip
    with subprocess.Popen(
        command(workspace), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(json.dumps(hello).encode() + b"\n")
        server.stdin.flush()
        assert b"serverInfo" in server.stdout.readline()
        server.send_signal(signal.SIGINT)
        assert server.wait(10) == 130
        assert server.stderr is not None
        assert b"Traceback" not in server.stderr.read()


async def test_a_thousand_calls_do_not_grow_the_server(workspace: Path) -> None:
    before = set(psutil.Process().children(recursive=True))
    async with Client(over_stdio(workspace)) as client:

        async def calls(count: int) -> None:
            for number in range(count // 4):
                await said(client, "memory_extract", key=f"k{number % 20}", fact=f"fact {number}", importance=6)
                await said(client, "memory_search", query="fact")
                await said(client, "memory_recall", key=f"k{number % 20}")
                await said(client, "memory_search", query="*")

        await calls(400)  # caches and thread pool are warm
        [process] = set(psutil.Process().children(recursive=True)) - before
        rss, files, threads = process.memory_info().rss, process.num_fds(), process.num_threads()
        await calls(1_000)
        assert process.memory_info().rss - rss < 8_000_000
        assert process.num_fds() <= files + 4
        assert process.num_threads() <= threads + 2


# --- HTTP ----------------------------------------------------------------------------------------------------------


async def test_two_clients_over_http_with_the_token(workspace: Path) -> None:
    with over_http(workspace, variables={"MEMORY_CORE_MCP_TOKEN": TOKEN}) as url:
        bearer = {"Authorization": f"Bearer {TOKEN}"}
        async with http_client(url, **bearer) as one, http_client(url, **bearer) as two:
            await asyncio.gather(
                said(one, "memory_extract", key="a", fact="One was here", importance=8),
                said(two, "memory_extract", key="b", fact="Two was here", importance=8),
            )
            assert "Two was here" in await said(one, "memory_recall", key="b")
            assert "One was here" in await said(two, "memory_recall", key="a")
        async with httpx2.AsyncClient() as http:
            for given in ({}, {"Authorization": ""}, {"Authorization": f"Bearer {TOKEN}x"}, {"Authorization": TOKEN}):
                for method in ("POST", "GET", "DELETE", "OPTIONS"):
                    answer = await http.request(method, url, headers=given, json=INITIALIZE)
                    assert answer.status_code == 401, (method, given)
                    assert answer.headers["www-authenticate"] == "Bearer"
            odd = await http.post(url, headers=[(b"Authorization", "Bearer tokén".encode())], json=INITIALIZE)
            assert odd.status_code == 401
        with pytest.raises(BaseException):  # noqa: B017, PT011 - the client's own group of errors
            async with http_client(url, Authorization="Bearer wrong") as client:
                await client.list_tools()


async def test_a_foreign_page_cannot_use_the_server_on_loopback(workspace: Path) -> None:
    with over_http(workspace, "--allowed-host", "memory.example:*") as url:
        headers = {"Accept": "application/json, text/event-stream"}
        async with httpx2.AsyncClient(headers=headers) as http:
            for host in ("evil.example", "evil.example:8642", "localhost.evil.example:80", "127.0.0.1.evil.example:1"):
                answer = await http.post(url, headers={"Host": host}, json=INITIALIZE)
                assert answer.status_code == 421, host
            foreign = await http.post(url, headers={"Origin": "https://evil.example"}, json=INITIALIZE)
            assert foreign.status_code == 403
            for host in ("localhost:1", "memory.example:443"):
                assert (await http.post(url, headers={"Host": host}, json=INITIALIZE)).status_code == 200, host
        async with http_client(url) as client:
            assert (await client.list_tools()).tools


def test_another_address_needs_a_token(workspace: Path) -> None:
    result = subprocess.run(
        command(workspace, "--http", "--host", "0.0.0.0"),
        check=False,
        capture_output=True,
        text=True,
        env=environment(),
        timeout=60,
    )
    assert result.returncode == 1
    assert "MEMORY_CORE_MCP_TOKEN" in result.stderr
    assert "Traceback" not in result.stderr


def test_the_rules_of_addresses_and_tokens(provider: MemorySolutionProvider, workspace: Path) -> None:
    made = server(provider, workspace)
    for host in ("0.0.0.0", "::", "192.168.1.5", "example.org", "localhost.example.org", ""):
        assert not is_loopback(host)
        with pytest.raises(ConfigError, match="needs a token"):
            http_app(made, host)
    for host in ("127.0.0.1", "127.1.2.3", "::1", "localhost"):
        assert is_loopback(host)
    with pytest.raises(ConfigError, match="shorter than 16"):
        http_app(made, token="short")


async def test_every_loopback_address_refuses_foreign_hosts(provider: MemorySolutionProvider, workspace: Path) -> None:
    app = http_app(server(provider, workspace), "127.0.0.2")
    async with app.router.lifespan_context(app):
        transport = httpx2.ASGITransport(app=app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://evil.example") as http:
            headers = {"Accept": "application/json, text/event-stream"}
            assert (await http.post("/mcp", json=INITIALIZE, headers=headers)).status_code == 421
            own = {**headers, "Host": "127.0.0.2:8642"}
            assert (await http.post("/mcp", json=INITIALIZE, headers=own)).status_code == 200


async def test_the_token_is_asked_before_anything_else(provider: MemorySolutionProvider, workspace: Path) -> None:
    inner = http_app(server(provider, workspace))
    app = http_app(server(provider, workspace), "0.0.0.0", TOKEN, ["memory.example:*"])
    assert type(app) is not type(inner)
    transport = httpx2.ASGITransport(app=app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://memory.example:80") as http:
        for given in ({}, {"Authorization": "Bearer "}, {"Authorization": f"bearer {TOKEN}"}):
            answer = await http.post("/mcp", json=INITIALIZE, headers=given)
            assert answer.status_code == 401
            assert "bearer token" in answer.json()["error"]
        bearer = {"Authorization": f"Bearer {TOKEN}"}
        assert (await http.get("/elsewhere", headers=bearer)).status_code == 404


def test_the_command_serves_what_it_was_told(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import memory_core.adapters.mcp_http as http
    import memory_core.adapters.mcp_server as stdio

    served: list[Any] = []

    def serve(*given: Any) -> None:
        served.append(given)

    monkeypatch.setattr(http, "serve_http", serve)
    monkeypatch.setattr(stdio, "serve_stdio", served.append)
    arguments = ["mcp", "--cwd", str(workspace), "--no-ledger"]
    assert run(arguments) == 0
    assert served.pop().name == "memory-core"
    assert run([*arguments, "--http", "--port", "9"]) == 0
    assert served.pop()[1:] == ("127.0.0.1", 9)
    assert run([*arguments, "--http", "--host", "0.0.0.0"]) == 1
    monkeypatch.setenv("MEMORY_CORE_MCP_TOKEN", TOKEN)
    assert run([*arguments, "--http", "--host", "0.0.0.0"]) == 0
    assert served.pop()[1] == "0.0.0.0"


def test_a_missing_package_is_named(
    provider: MemorySolutionProvider, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mcp_types", None)
    with pytest.raises(MissingExtraError, match=r"memory-talent\[mcp\]"):
        server(provider, workspace)


def test_nothing_but_the_protocol_on_standard_output(workspace: Path) -> None:
    result = subprocess.run(
        command(workspace), check=False, input="", capture_output=True, text=True, env=environment(), timeout=60
    )
    assert (result.returncode, result.stdout) == (0, "")
