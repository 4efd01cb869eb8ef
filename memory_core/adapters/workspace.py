"""Everything that serves one workspace to one user: memories, ledger, conversations, as one desk and one server."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memory_core.adapters.desks import Desk, OneDesk
from memory_core.adapters.resources import LedgerResources, MemoryResources, ResourceSource
from memory_core.adapters.toolbox import Toolbox
from memory_core.config import Loaded
from memory_core.contracts import MemorySolutionProvider
from memory_core.ledger.combined import CombinedTalent
from memory_core.ledger.opening import open_ledger
from memory_core.ledger.talent import LedgerTalent
from memory_core.model import SHARED_USER_ID, clean_name
from memory_core.plugins.registry import get_registry
from memory_core.sessions.loading import build_transcript_search, session_directory
from memory_core.sessions.tools import SessionTools
from memory_core.sessions.transcript import TranscriptLog
from memory_core.talent import MemoryTalent, ToolContext, ToolSpec

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server


def workspace_server(
    provider: MemorySolutionProvider,
    loaded: Loaded,
    workspace: Path,
    user: str | None = None,
    *,
    ledger: bool = True,
    sessions: bool = True,
) -> "Server[Any]":
    """Return an MCP server for one workspace and one user; the arguments are those of `open_desk`.

    Raises:
        MissingExtraError: The package `mcp` is not installed.
        InvalidKeyError: The user id cannot be stored.
    """
    from memory_core import __version__
    from memory_core.adapters.mcp_server import build_server

    desk = open_desk(provider, loaded, workspace, user, ledger=ledger, sessions=sessions)
    return build_server(OneDesk(desk), version=__version__)


def open_desk(
    provider: MemorySolutionProvider,
    loaded: Loaded,
    workspace: Path,
    user: str | None = None,
    *,
    ledger: bool = True,
    sessions: bool = True,
) -> Desk:
    """Return what one workspace offers to one user, with the settings in force; closing it closes the provider.

    Args:
        provider: Gives the workspace's solution.
        loaded: The settings that hold there.
        workspace: The directory.
        user: Whose memories; None for those that everybody shares.
        ledger: Offer the ledger's tools and files too; never where a user is named.
        sessions: Offer the search over that user's earlier conversations, which are those of all workspaces.

    Raises:
        InvalidKeyError: The user id cannot be stored.
    """
    user_id = SHARED_USER_ID if user is None else clean_name(user, "user id")
    settings = loaded.settings
    talent = MemoryTalent(
        provider,
        locale=settings.locale,
        session_isolation=user is not None,
        **settings.talent.model_dump(exclude={"session_isolation"}),
    )
    cwd = str(workspace)
    sources: list[Callable[[], Sequence[ToolSpec]]] = [talent.tools]
    resources: list[ResourceSource] = [MemoryResources(provider.get(workspace), user_id)]
    instruct: Callable[..., str] = talent.instruction
    # The ledger is one set of files for everybody: it is not offered where users are kept apart.
    if ledger and user is None and talent.enabled:
        files = open_ledger(workspace, loaded=loaded)
        combined = CombinedTalent(talent, LedgerTalent(files, locale=settings.locale))
        sources[:] = [lambda: combined.tools(cwd)]
        instruct = combined.instruction
        resources.append(LedgerResources(files))
    if sessions and talent.enabled:
        search = build_transcript_search(TranscriptLog(session_directory(loaded)), loaded, get_registry())
        sources.append(SessionTools(search, user_of=lambda _: user_id, locale=settings.locale).tools)
    return Desk(
        Toolbox(sources, ToolContext(cwd, user)),
        resources,
        lambda text: instruct(text, cwd=cwd, session_id=user),
        provider.close,
    )
