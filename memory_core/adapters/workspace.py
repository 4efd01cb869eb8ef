"""Everything that serves one workspace to one user: memories, ledger, conversations, as one toolbox and one server."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memory_core.adapters.toolbox import Toolbox
from memory_core.config import Loaded
from memory_core.contracts import MemorySolutionProvider
from memory_core.ledger.combined import CombinedTalent
from memory_core.ledger.opening import open_ledger
from memory_core.ledger.talent import LedgerTalent
from memory_core.model import SHARED_USER_ID, clean_name
from memory_core.talent import MemoryTalent, ToolContext, ToolSpec

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server


def workspace_server(
    provider: MemorySolutionProvider, loaded: Loaded, workspace: Path, user: str | None = None, *, ledger: bool = True
) -> "Server[Any]":
    """Return an MCP server for one workspace and one user, with the settings in force.

    Args:
        provider: Gives the workspace's solution.
        loaded: The settings that hold there.
        workspace: The directory.
        user: Whose memories; None for those that everybody shares.
        ledger: Offer the ledger's tools and `MEMORY.md` too.

    Raises:
        MissingExtraError: The package `mcp` is not installed.
        InvalidKeyError: The user id cannot be stored.
    """
    from memory_core import __version__
    from memory_core.adapters.mcp_server import build_server

    user_id = SHARED_USER_ID if user is None else clean_name(user, "user id")
    settings = loaded.settings
    talent = MemoryTalent(
        provider,
        locale=settings.locale,
        session_isolation=user is not None,
        **settings.talent.model_dump(exclude={"session_isolation"}),
    )
    cwd = str(workspace)
    tools: Callable[[], Sequence[ToolSpec]] = talent.tools
    instruct = talent.instruction
    # The ledger is one set of files for everybody: it is not offered where users are kept apart.
    if ledger and user is None and talent.enabled:
        combined = CombinedTalent(talent, LedgerTalent(open_ledger(workspace, loaded=loaded), locale=settings.locale))
        tools, instruct = (lambda: combined.tools(cwd)), combined.instruction
    return build_server(
        Toolbox([tools], ToolContext(cwd, user)),
        solution=provider.get(workspace),
        user_id=user_id,
        instruction=lambda text: instruct(text, cwd=cwd, session_id=user),
        version=__version__,
    )
