"""Short-term memory: neutral messages, sessions that survive restarts, the transcript and the search over it."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memory_core.sessions.file import FileAgentSession, FileSessions
    from memory_core.sessions.loading import build_sessions, build_transcript_search, load_sessions
    from memory_core.sessions.memory import InMemoryAgentSession, InMemorySessions, temporary_session
    from memory_core.sessions.messages import Message, assistant_message, text_of, tool_message, user_message
    from memory_core.sessions.search import TranscriptHit, TranscriptSearch
    from memory_core.sessions.session import AgentSession, SessionProvider, SessionState
    from memory_core.sessions.tools import SessionTools
    from memory_core.sessions.transcript import TranscriptLog

_HOMES = {
    "file": ("FileAgentSession", "FileSessions"),
    "loading": ("build_sessions", "build_transcript_search", "load_sessions"),
    "memory": ("InMemoryAgentSession", "InMemorySessions", "temporary_session"),
    "messages": ("Message", "assistant_message", "text_of", "tool_message", "user_message"),
    "search": ("TranscriptHit", "TranscriptSearch"),
    "session": ("AgentSession", "SessionProvider", "SessionState"),
    "tools": ("SessionTools",),
    "transcript": ("TranscriptLog",),
}
_MODULES = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "AgentSession",
    "FileAgentSession",
    "FileSessions",
    "InMemoryAgentSession",
    "InMemorySessions",
    "Message",
    "SessionProvider",
    "SessionState",
    "SessionTools",
    "TranscriptHit",
    "TranscriptLog",
    "TranscriptSearch",
    "assistant_message",
    "build_sessions",
    "build_transcript_search",
    "load_sessions",
    "temporary_session",
    "text_of",
    "tool_message",
    "user_message",
]


def __getattr__(name: str) -> Any:
    """Import a public name at its first use, so that the plugin registry loads nothing of it."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
