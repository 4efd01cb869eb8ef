"""The workspace from the client's roots (`roots/list`): what its user has open, never an argument of a call.

Clients of the handshake versions (to 2025-11-25) are asked once in a connection, and again when they say that their
roots changed. Since 2026-07-28 a server cannot ask by itself: the first answer to a call is then the question, and the
client repeats the call with its roots.
"""

import logging
import weakref
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from memory_core.adapters.desks import Desk, OpenDesks

log = logging.getLogger(__name__)

KEY = "roots"
"""Under which name the question stands in the result that asks it."""
ROOTS_WAIT_S = 10.0

Context = ServerRequestContext[Any, Any]


class RootDesks:
    """Serves each client in its first root that can be a workspace; without roots, in the server's own directory.

    Args:
        open_desk: Opens the desk of a workspace.
        own: Where clients are served that have no roots, or do not answer.
        within: Only roots in this directory are taken, links followed; None takes every one. A server that others
            reach must have it: a root is a path of the server's machine.
    """

    def __init__(self, open_desk: Callable[[Path], Desk], own: Path, within: Path | None = None) -> None:
        self._desks = OpenDesks(open_desk)
        self._own = own.resolve()
        self._within = None if within is None else within.resolve()
        self._known: dict[int, Path] = {}

    async def locate(
        self, ctx: Context, responses: Mapping[str, Any] | None = None
    ) -> Path | types.InputRequiredResult:
        """Return the client's workspace, or the result that asks for its roots.

        Raises:
            MCPError: It has roots, and none of them can be used.
        """
        capabilities = ctx.session.client_capabilities
        if capabilities is None or capabilities.roots is None:
            return self._own
        if ctx.session.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return await self._asked_once(ctx)
        if responses is None or KEY not in responses:
            return types.InputRequiredResult(input_requests={KEY: types.ListRootsRequest()})
        answer = responses[KEY]
        if not isinstance(answer, types.ListRootsResult):
            raise MCPError(code=types.INVALID_PARAMS, message=f"The answer {KEY!r} is not a list of roots.")
        return self._workspace(str(root.uri) for root in answer.roots)

    async def locate_unasked(self, ctx: Context) -> Path | None:
        """Return the client's workspace, or None where it could only be known by a question."""
        try:
            place = await self.locate(ctx)
        except MCPError:
            return None
        return place if isinstance(place, Path) else None

    def forget(self, ctx: Context) -> None:
        """Ask this client again at its next request."""
        self._known.pop(id(ctx.session.client_params), None)

    def opened(self, place: Path | None) -> AbstractContextManager[Desk]:
        """Open the desk of a workspace; None is the server's own."""
        return self._desks.at(self._own if place is None else place)

    def close(self) -> None:
        """Close all workspaces."""
        self._desks.close()

    async def _asked_once(self, ctx: Context) -> Path:
        # The parameters of the handshake are one object for as long as the connection lasts, and its only mark.
        connection = ctx.session.client_params
        known = self._known.get(id(connection))
        if known is not None:
            return known
        place = self._workspace(await _roots(ctx))
        if connection is not None:
            if id(connection) not in self._known:
                weakref.finalize(connection, self._known.pop, id(connection), None)
            self._known[id(connection)] = place
        return place

    def _workspace(self, uris: Iterable[str]) -> Path:
        refused = 0
        for uri in uris:
            place = directory(uri)
            if place is not None and (self._within is None or place.is_relative_to(self._within)):
                return place
            refused += 1
        if not refused:
            return self._own
        where = "" if self._within is None else f" in {self._within}"
        raise MCPError(
            code=types.INVALID_REQUEST,
            message=f"None of the {refused} roots of the client is a directory{where} on the server's machine. "
            "Open such a folder in the client, or start the server with --cwd.",
        )


def directory(uri: str) -> Path | None:
    """Return the directory that a `file://` URI names on this machine, links followed; None for anything else.

    The root of the file system is none that anybody works in.
    """
    try:
        parts = urlsplit(uri)
        if parts.scheme != "file" or parts.netloc not in ("", "localhost") or parts.query or parts.fragment:
            return None
        path = Path(url2pathname(parts.path))
        if not path.is_absolute():
            return None
        place = path.resolve(strict=True)
        return place if place.is_dir() and place != place.parent else None
    except (OSError, ValueError, RuntimeError):  # RuntimeError: a loop of links, before Python 3.13
        return None


async def _roots(ctx: Context) -> list[str]:
    """Ask a client of the handshake versions; a refusal, or no answer in time, counts as no roots."""
    # With the request that needs the answer: over HTTP that is a stream which is open for certain.
    metadata = ServerMessageMetadata(related_request_id=ctx.request_id)
    try:
        answer = await ctx.session.send_request(types.ListRootsRequest(), types.ListRootsResult, ROOTS_WAIT_S, metadata)
    except (MCPError, ValidationError) as error:
        log.warning("The client did not say its roots (%s); it is served in the server's own directory.", error)
        return []
    return [str(root.uri) for root in answer.roots]
