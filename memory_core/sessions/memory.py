"""Sessions in memory: as long as the process lives."""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from threading import RLock

from memory_core.policy import check_count
from memory_core.sessions.messages import Message, new_id
from memory_core.sessions.pairs import safe_boundary, safe_boundary_after
from memory_core.sessions.session import (
    AgentSession,
    Change,
    SessionState,
    state_from_json,
    state_to_json,
    storable,
    stored_form,
    unseen,
)


class InMemoryAgentSession(AgentSession):
    """A session of this process.

    With `max_messages` the oldest are dropped, whole tool pairs at a time; at least the latest pair stays, also when
    it alone has more messages than that.

    Raises:
        InvalidKeyError: The session id cannot be used.
        BudgetError: `max_messages` is below 1.

    """

    def __init__(self, session_id: str, max_messages: int | None = None) -> None:
        super().__init__(session_id)
        self._max = None if max_messages is None else check_count(max_messages, "max_messages", at_least=1)
        self._messages: list[Message] = []
        self._state = state_to_json(SessionState())
        self._lock = RLock()

    def messages(self) -> list[Message]:  # noqa: D102 - the contract says it
        with self._lock:
            return list(self._messages)

    def append(self, messages: Iterable[Message]) -> int:  # noqa: D102 - the contract says it
        given = [_copied(message) for message in storable(messages)]
        with self._lock:
            fresh = unseen(given, {message.id for message in self._messages})
            self._messages = self._bounded([*self._messages, *fresh])
            return len(fresh)

    def rewrite(self, change: Change) -> list[Message]:  # noqa: D102 - the contract says it
        with self._lock:
            changed = [_copied(message) for message in storable(change(list(self._messages)))]
            self._messages = self._bounded(changed)
            return list(self._messages)

    def state(self) -> SessionState:  # noqa: D102 - the contract says it
        return state_from_json(self._state)

    def change_state(self, change: Callable[[SessionState], SessionState]) -> SessionState:  # noqa: D102 - the contract says it
        with self._lock:
            self._state = state_to_json(change(self.state()))
            return self.state()

    def clear(self) -> None:  # noqa: D102 - the contract says it
        with self._lock:
            self._messages = []
            self._state = state_to_json(SessionState())

    def _bounded(self, messages: list[Message]) -> list[Message]:
        if self._max is None or len(messages) <= self._max:
            return messages
        start = safe_boundary_after(messages, len(messages) - self._max)
        if start == len(messages):  # one pair reaches to the end: rather too many messages than none
            start = safe_boundary(messages, len(messages) - self._max)
        return messages[start:]


class InMemorySessions:
    """Gives one `InMemoryAgentSession` per id; with `max_sessions`, the one not used for longest is forgotten."""

    def __init__(self, max_messages: int | None = None, max_sessions: int | None = None) -> None:
        self._max_messages = max_messages
        self._max_sessions = max_sessions
        self._sessions: OrderedDict[str, InMemoryAgentSession] = OrderedDict()
        self._lock = RLock()

    def __call__(self, session_id: str, /) -> InMemoryAgentSession:
        """Return the session with that id, the same object each time."""
        new = InMemoryAgentSession(session_id, self._max_messages)
        with self._lock:
            session = self._sessions.setdefault(new.session_id, new)
            self._sessions.move_to_end(new.session_id)
            if self._max_sessions is not None and len(self._sessions) > self._max_sessions:
                self._sessions.popitem(last=False)
            return session


def _copied(message: Message) -> Message:
    """Return a message that shares nothing with its giver, refusing what the other sessions could not store."""
    return stored_form(message)[1]


def temporary_session() -> InMemoryAgentSession:
    """Return a session that leaves no history: for a prompt without a session."""
    return InMemoryAgentSession(f"tmp-{new_id()}")
