"""Desks: what one workspace offers to one user, and which of several desks a caller is led to."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from memory_core.adapters.resources import ResourceSource
from memory_core.adapters.toolbox import Toolbox

MAX_OPEN = 32
"""So many workspaces are kept open when nobody uses them."""


@dataclass(frozen=True, slots=True)
class Desk:
    """The tools, what can be read beside them, and user input → the block for the prompt."""

    toolbox: Toolbox
    resources: Sequence[ResourceSource]
    instruction: Callable[[str], str]
    close: Callable[[], None] = lambda: None


class Desks(Protocol):
    """Leads a request to its desk."""

    async def locate(self, ctx: Any, responses: Mapping[str, Any] | None = None) -> Any:
        """Return where the request is served, or the protocol's result that asks the client first.

        Args:
            ctx: The request's context.
            responses: What the client answered to such a result.
        """
        ...

    async def locate_unasked(self, ctx: Any) -> Path | None:
        """Return where a request is served that cannot wait for an answer; None when that is not known."""
        ...

    def forget(self, ctx: Any) -> None:
        """Ask this client again: it said that its answer has changed."""
        ...

    def opened(self, place: Path | None) -> AbstractContextManager[Desk]:
        """Open the desk there, None being the server's own; it stays open at least as long as the block.

        Raises:
            MemoryCoreError: The workspace cannot be opened.
        """
        ...


class OneDesk:
    """Everybody is served at one desk, which was fixed when the server started."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def locate(self, ctx: Any, responses: Mapping[str, Any] | None = None) -> Path:
        """Return any path: there is one desk."""
        del ctx, responses
        return Path()

    async def locate_unasked(self, ctx: Any) -> Path:
        """Return any path: there is one desk."""
        del ctx
        return Path()

    def forget(self, ctx: Any) -> None:
        """Do nothing."""

    def opened(self, place: Path | None) -> AbstractContextManager[Desk]:
        """Return the desk."""
        del place
        return nullcontext(self._desk)

    def close(self) -> None:
        """Close the desk."""
        self._desk.close()


@dataclass(slots=True)
class _Held:
    desk: Desk
    users: int = 0


class OpenDesks:
    """The desks of the workspaces that are in use, and of the last ones that were; safe for several threads."""

    def __init__(self, open_desk: Callable[[Path], Desk], limit: int = MAX_OPEN) -> None:
        self._open_desk = open_desk
        self._limit = limit
        self._lock = threading.Lock()
        self._held: OrderedDict[Path, _Held] = OrderedDict()

    @contextmanager
    def at(self, place: Path) -> Generator[Desk, None, None]:
        """Open the desk of a workspace, or take the one that is open."""
        with self._lock:
            held = self._held.get(place)
            if held is None:
                held = self._held[place] = _Held(self._open_desk(place))
            self._held.move_to_end(place)
            held.users += 1
        try:
            yield held.desk
        finally:
            with self._lock:
                held.users -= 1
                self._close_down_to(self._limit)

    def close(self) -> None:
        """Close all that nobody uses."""
        with self._lock:
            self._close_down_to(0)

    def _close_down_to(self, limit: int) -> None:
        for place in [place for place, held in self._held.items() if not held.users]:
            if len(self._held) <= limit:
                return
            self._held.pop(place).desk.close()
