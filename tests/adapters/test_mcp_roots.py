"""The workspace from the client's roots: over stdio and HTTP, in both ages of the protocol, with the official client."""

import gc
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from mcp_types import ErrorData, ListRootsResult, Root, TextContent
from pydantic import FileUrl

from memory_core.adapters.desks import Desk, OpenDesks
from memory_core.adapters.mcp_roots import RootDesks, directory
from memory_core.adapters.mcp_server import build_server
from memory_core.adapters.toolbox import Toolbox
from memory_core.adapters.workspace import open_desk
from memory_core.config import load_settings
from memory_core.loading import load_provider
from memory_core.talent import ToolContext

from .conftest import over_http, over_stdio

Mode = Literal["auto", "legacy"]
MODES: tuple[Mode, ...] = ("auto", "legacy")


class Roots:
    """What a client's user has open; it may change, and is counted when it is asked for."""

    def __init__(self, *folders: Path | str) -> None:
        self.folders: Sequence[Path | str] = folders
        self.asked = 0

    async def __call__(self, context: Any) -> ListRootsResult | ErrorData:
        self.asked += 1
        uris = [folder.as_uri() if isinstance(folder, Path) else folder for folder in self.folders]
        return ListRootsResult(roots=[Root(uri=FileUrl(uri)) for uri in uris])


@pytest.fixture
def folders(home: Path, tmp_path: Path) -> tuple[Path, Path, Path]:
    """Where the server starts, and two projects in it."""
    found = (tmp_path / "start", tmp_path / "start" / "one", tmp_path / "start" / "zwei 二 %20#?")
    for folder in found:
        folder.mkdir()
    return found


async def said(client: Client, tool: str, **arguments: Any) -> str:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result
    [content] = result.content
    assert isinstance(content, TextContent)
    return content.text


async def remember(client: Client, fact: str) -> None:
    await said(client, "memory_save", content=fact)
    await said(client, "memory_extract", key=f"k-{fact}", fact=fact, importance=6)


def kept(folder: Path) -> str:
    file = folder / "MEMORY.md"
    return file.read_text() if file.exists() else ""


@pytest.mark.parametrize("mode", MODES)
async def test_over_stdio_the_first_usable_root_is_the_workspace(folders: tuple[Path, Path, Path], mode: Mode) -> None:
    start, one, two = folders
    (start / "a-file").write_text("")
    roots = Roots(start / "missing", start / "a-file", two, one)
    async with Client(over_stdio(None, start=start), mode=mode, list_roots_callback=roots) as client:
        await remember(client, "Twos deadline is Friday")
        assert "Friday" in await said(client, "memory_search", query="deadline")
        assert {"memory_extract", "memory_save"} <= {tool.name for tool in (await client.list_tools()).tools}
        listed = {resource.name for resource in (await client.list_resources()).resources}
        assert listed >= {"MEMORY.md"} if mode == "legacy" else not listed
        assert "Friday" in str(await client.read_resource("ledger:///MEMORY.md"))
        assert "Friday" in str((await client.get_prompt("memory", {"input": "deadline"})).messages)
        for name in ("cwd", "root", "roots", "workspace"):
            assert (await client.call_tool("memory_search", {"query": "x", name: str(one)})).is_error
    assert "Friday" in kept(two)
    assert not kept(start)
    assert not kept(one)


@pytest.mark.parametrize("mode", MODES)
async def test_a_given_cwd_wins_and_nobody_is_asked(folders: tuple[Path, Path, Path], mode: Mode) -> None:
    start, one, two = folders
    roots = Roots(two)
    async with Client(over_stdio(one, start=start), mode=mode, list_roots_callback=roots) as client:
        await remember(client, "Here")
    assert "Here" in kept(one)
    assert not kept(two)
    assert roots.asked == 0


@pytest.mark.parametrize("mode", MODES)
async def test_without_roots_the_directory_where_the_server_was_started(
    folders: tuple[Path, Path, Path], mode: Mode
) -> None:
    async def refuse(context: Any) -> ErrorData:
        return ErrorData(code=-32601, message="no")

    start = folders[0]
    async with Client(over_stdio(None, start=start), mode=mode) as client:
        await remember(client, "No capability")
    async with Client(over_stdio(None, start=start), mode=mode, list_roots_callback=Roots()) as client:
        await remember(client, "Nothing open")
        assert "No capability" in await said(client, "memory_search", query="capability")
    assert "Nothing open" in kept(start)
    if mode == "legacy":  # since then the client itself ends a call whose question is refused
        async with Client(over_stdio(None, start=start), mode=mode, list_roots_callback=refuse) as client:
            await remember(client, "Refused")
        assert "Refused" in kept(start)


@pytest.mark.parametrize("mode", MODES)
async def test_roots_of_which_none_can_be_used_are_an_error(folders: tuple[Path, Path, Path], mode: Mode) -> None:
    start = folders[0]
    roots = Roots(start / "missing", "file://other-host/srv", "file:///")
    async with Client(over_stdio(None, start=start), mode=mode, list_roots_callback=roots) as client:
        with pytest.raises(MCPError, match="None of the 3 roots"):
            await client.call_tool("memory_save", {"content": "x"})
        assert (await client.list_tools()).tools  # which do not depend on it
        assert not (await client.list_resources()).resources
    assert not kept(start)


@pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")
async def test_roots_that_change_are_followed(folders: tuple[Path, Path, Path]) -> None:
    start, one, two = folders
    assert issubclass(MCPDeprecationWarning, Warning)
    roots = Roots(one)
    async with Client(over_stdio(None, start=start), mode="legacy", list_roots_callback=roots) as client:
        await remember(client, "First")
        await remember(client, "Again")
        assert roots.asked == 1
        roots.folders = [two]
        await remember(client, "Not announced")
        await client.send_roots_list_changed()  # pyright: ignore[reportDeprecated] - what clients of that age send
        await remember(client, "Second")
        assert roots.asked == 2
    assert all(fact in kept(one) for fact in ("First", "Again", "Not announced"))
    assert kept(two).count("- ") == 1
    later = Roots(one)
    async with Client(over_stdio(None, start=start), list_roots_callback=later) as client:
        await remember(client, "Asked with each call")
        later.folders = [two]
        await remember(client, "So it needs no announcement")
    assert "Asked with each call" in kept(one)
    assert "needs no announcement" in kept(two)


@pytest.mark.parametrize("mode", MODES)
async def test_over_http_each_client_has_its_own_root_within_the_servers_directory(
    folders: tuple[Path, Path, Path], tmp_path: Path, mode: Mode
) -> None:
    start, one, two = folders
    (tmp_path / "outside").mkdir()
    (start / "link").symlink_to(tmp_path / "outside")
    first, second = Roots(one), Roots(tmp_path / "outside", two)
    with over_http(None, start=start) as url:
        async with (
            Client(url, mode=mode, list_roots_callback=first) as ann,
            Client(url, mode=mode, list_roots_callback=second) as bob,
            Client(url, mode=mode, list_roots_callback=Roots(start / "link", tmp_path / "outside")) as eve,
        ):
            for client, fact in ((ann, "Ann is here"), (bob, "Bob is there"), (ann, "Ann again")):
                await remember(client, fact)
            assert "Bob" not in await said(ann, "memory_search", query="here there")
            assert "Ann" not in await said(bob, "memory_search", query="here there again")
            if mode == "legacy":
                assert (first.asked, second.asked) == (1, 1)  # each connection is asked once
            with pytest.raises(MCPError, match="None of the 2 roots"):
                await eve.call_tool("memory_get", {"path": "MEMORY.md"})
    assert kept(one).count("- Ann") == 2
    assert "Bob" in kept(two)
    assert not kept(start)
    assert not kept(tmp_path / "outside")


@pytest.fixture
def desks(folders: tuple[Path, Path, Path]) -> Iterator[RootDesks]:
    def open_at(workspace: Path) -> Desk:
        return open_desk(load_provider(workspace), load_settings(workspace), workspace)

    desks = RootDesks(open_at, folders[0])
    yield desks
    desks.close()


async def test_a_connection_that_ended_is_forgotten(desks: RootDesks, folders: tuple[Path, Path, Path]) -> None:
    for _ in range(3):
        async with Client(build_server(desks), mode="legacy", list_roots_callback=Roots(folders[1])) as client:
            await remember(client, "x")
            assert len(desks._known) == 1
        del client
        gc.collect()
        assert not desks._known


async def test_an_answer_of_another_kind_is_refused(desks: RootDesks) -> None:
    from mcp_types import ClientCapabilities, CreateMessageResult, RootsCapability

    class Session:
        client_capabilities = ClientCapabilities(roots=RootsCapability())
        protocol_version = "2026-07-28"

    class Context:
        session = Session()

    answer = CreateMessageResult(role="user", content=TextContent(type="text", text="x"), model="m")
    context: Any = Context()
    with pytest.raises(MCPError, match="not a list of roots"):
        await desks.locate(context, {"roots": answer})
    assert await desks.locate_unasked(context) is None


@pytest.mark.parametrize(
    "uri",
    [
        "http://localhost/tmp",
        "file:relative",
        "file://host/tmp",
        "file:///tmp?x",
        "file:///tmp#x",
        "file:///",
        "file:///no/such/directory",
        "file:///%00",
        "file://[",
        "",
        "/tmp",
    ],
)
def test_what_is_no_root(uri: str) -> None:
    assert directory(uri) is None


def test_a_root_is_a_directory_with_links_followed(tmp_path: Path) -> None:
    folder = tmp_path / "a b ü"
    folder.mkdir()
    (tmp_path / "link").symlink_to(folder)
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    assert directory(folder.as_uri()) == folder
    assert directory(folder.as_uri().replace("file:///", "file://localhost/")) == folder
    assert directory((tmp_path / "link").as_uri()) == folder
    assert directory((tmp_path / "loop").as_uri()) is None


def test_few_workspaces_stay_open_and_none_closes_while_it_is_used(tmp_path: Path) -> None:
    closed: list[Path] = []

    def open_at(place: Path) -> Desk:
        close: Callable[[], None] = lambda: closed.append(place)  # noqa: E731 - the place of this call
        return Desk(Toolbox([], ToolContext(str(place))), (), str, close)

    desks = OpenDesks(open_at, limit=2)
    one, two, three, four = (tmp_path / name for name in "1234")
    with desks.at(one) as first:
        for place in (two, three, four):
            with desks.at(place):
                pass
        assert closed == [two, three]
        with desks.at(one) as again:
            assert again is first
    desks.close()
    assert sorted(closed) == [one, two, three, four]
