"""Whose memory a run uses, and from where: from the program, never from the model."""

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from memory_core.model import SHARED_USER_ID
from memory_core.naming import joined
from memory_core.sessions.transcript import DEFAULT_AGENT


@dataclass(frozen=True, slots=True)
class RunScope:
    """Directory, session, user and agent of a run.

    Without `user_id` everybody shares the memories (or each session has its own, when the talent isolates sessions);
    with it that user's memories are used and nobody else's.
    """

    cwd: str = "."
    session_id: str | None = None
    user_id: str | None = None
    agent_id: str = DEFAULT_AGENT

    @property
    def isolation_key(self) -> str:
        """Whose throttle the flush counts for."""
        return joined(self.user_id or SHARED_USER_ID, self.session_id or "tmp")


CURRENT: ContextVar[RunScope | None] = ContextVar("memory_core_run_scope", default=None)
"""The scope of the prompt that an engine runs at the moment; wins over everything else."""

_FIELDS = ("cwd", "session_id", "user_id", "agent_id")


def scope_of(deps: object, default: RunScope) -> RunScope:
    """Return the scope of a run: the engine's, else `default` with what the run's deps say.

    Deps may be a `RunScope`, any object with attributes of these names, or a mapping with such keys; what is neither
    text nor a path is ignored.
    """
    running = CURRENT.get()
    if running is not None:
        return running
    said: dict[str, Any] = {}
    for name in _FIELDS:
        value = cast("Mapping[str, Any]", deps).get(name) if isinstance(deps, Mapping) else getattr(deps, name, None)
        if isinstance(value, str | Path) and str(value):
            said[name] = str(value)
    return replace(default, **said) if said else default
