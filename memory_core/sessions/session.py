"""The contract of a session: one conversation, kept in order, restored when it is opened again."""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, cast

from pydantic import JsonValue

from memory_core.contracts import Problem
from memory_core.errors import CorruptEntryError, InvalidEntryError
from memory_core.model import clean_name
from memory_core.policy import check_count
from memory_core.sessions.messages import Message, OtherPart, message_from_json, message_to_json
from memory_core.sessions.pairs import safe_boundary

SNAPSHOT_VERSION = 1
DEFAULT_WINDOW = 8
"""How many messages of its session a new prompt carries."""
SYSTEM_PROMPT = "system-prompt"
"""The `OtherPart.kind` of a system prompt inside a user's message; sessions leave such parts out."""
INSTRUCTIONS = "instructions"
"""The native field in which a request repeats the agent's instructions; sessions leave it out."""

Change = Callable[[list[Message]], Sequence[Message]]


class SessionProvider(Protocol):
    """Anything that gives the session of an id: a class, a function, a lambda."""

    def __call__(self, session_id: str, /) -> "AgentSession":
        """Return the session with that id, new or restored."""
        ...


@dataclass(frozen=True, slots=True)
class SessionState:
    """What a session keeps beside its messages: the run's state, and whether it waits for something and for what."""

    snapshot: JsonValue = None
    pending: bool = False
    reason: str = ""


class AgentSession(ABC):
    """One conversation. Safe for several threads; those in files and in Redis also for several processes.

    Messages stay in the order in which they were appended. System messages are not stored: they belong to the agent,
    not to the conversation. No operation separates a tool call from its result. Writes are durable when they return
    and raise when they cannot be; what cannot be read is reported by `problems` and never rewritten silently.
    """

    def __init__(self, session_id: str) -> None:
        self.session_id = clean_name(session_id, "session id")

    @abstractmethod
    def messages(self) -> list[Message]:
        """Return every message, oldest first, those that others have written since included.

        Raises:
            StorageUnavailableError: They could not be read.

        """

    @abstractmethod
    def append(self, messages: Iterable[Message]) -> int:
        """Add messages at the end, durably, and return how many.

        System messages are left out, and so is a message whose id the session already has: repeating an append whose
        outcome is unknown is harmless.

        Raises:
            InvalidEntryError: A message is not JSON; nothing was added.
            StorageUnavailableError: They could not be written.

        """

    @abstractmethod
    def rewrite(self, change: Change) -> list[Message]:
        """Replace the messages by `change(messages)` in one step and return the new ones.

        `change` may be called more than once; it sees what others appended, so that nothing of theirs is lost. When it
        raises, nothing has changed.

        Raises:
            InvalidEntryError, StorageUnavailableError: As `append`.

        """

    @abstractmethod
    def state(self) -> SessionState:
        """Return snapshot and pending mark; an empty state when there is none or it cannot be read (see `problems`)."""

    @abstractmethod
    def change_state(self, change: Callable[[SessionState], SessionState]) -> SessionState:
        """Replace the state by `change(state)`, durably, and return the new one.

        Raises:
            InvalidEntryError: The snapshot is not JSON.
            StorageUnavailableError: It could not be written.

        """

    @abstractmethod
    def clear(self) -> None:
        """Forget all messages, the snapshot and the pending mark. The transcript is another matter and stays."""

    def problems(self) -> list[Problem]:
        """Say what could not be read: torn or corrupt lines, a snapshot of another version."""
        return []

    def close(self) -> None:
        """Release files and connections; closing twice is harmless."""
        return

    def latest(self, window: int = DEFAULT_WINDOW) -> list[Message]:
        """Return the last `window` messages, and the few before them that a tool pair across the border needs.

        Raises:
            BudgetError: `window` is not a whole number of at least 0.

        """
        check_count(window, "window")
        messages = self.messages()
        return messages[safe_boundary(messages, len(messages) - window) :] if window else []

    def remove_latest(self, count: int = 1) -> list[Message]:
        """Remove the last `count` messages, and those before them that they share a tool pair with; return them.

        Raises:
            BudgetError: `count` is not a whole number of at least 0.
            StorageUnavailableError: They could not be removed.

        """
        check_count(count, "count")
        removed: list[Message] = []

        def without(messages: list[Message]) -> list[Message]:
            start = safe_boundary(messages, len(messages) - count)
            removed[:] = messages[start:]
            return messages[:start]

        if count:
            self.rewrite(without)
        return removed

    def replace(self, old: Collection[str], new: Iterable[Message]) -> list[Message]:
        """Put `new` where the first of the messages with the ids `old` stands, drop those, and return all messages.

        What was appended meanwhile stays, so that a compaction never loses another writer's message. When none of
        `old` is there any more (another one compacted first), nothing changes.
        """
        gone, put = set(old), storable(new)

        def replaced(messages: list[Message]) -> list[Message]:
            at = next((index for index, message in enumerate(messages) if message.id in gone), None)
            if at is None:
                return messages
            kept = [message for message in messages if message.id not in gone]
            ids = {message.id for message in kept}
            return [*kept[:at], *(message for message in put if message.id not in ids), *kept[at:]]

        return self.rewrite(replaced)

    def snapshot(self) -> JsonValue:
        """Return the run's state as last stored, or None."""
        return self.state().snapshot

    def update_snapshot(self, snapshot: JsonValue) -> None:
        """Store the run's state (any JSON value; None forgets it), durably.

        Raises:
            InvalidEntryError, StorageUnavailableError: As `change_state`.

        """
        self.change_state(lambda state: replace(state, snapshot=snapshot))

    @property
    def pending(self) -> bool:
        """Whether the run waits for something (an approval, an answer)."""
        return self.state().pending

    @property
    def pending_reason(self) -> str:
        """What it waits for; empty when it does not."""
        return self.state().reason

    def set_pending(self, reason: str) -> None:
        """Mark the run as waiting for `reason`, durably."""
        self.change_state(lambda state: replace(state, pending=True, reason=reason))

    def resolve_pending(self) -> None:
        """Take the mark away, durably."""
        self.change_state(lambda state: replace(state, pending=False, reason=""))


def storable(messages: Iterable[Message]) -> list[Message]:
    """Return what a session stores of `messages`: nothing that belongs to the agent instead of the conversation.

    System messages are left out, and of other messages the system prompts and instructions that a framework put there.
    """
    kept = (_without_prompts(message) for message in messages if message.role != "system")
    return [message for message in kept if message is not None]


def _without_prompts(message: Message) -> Message | None:
    parts = tuple(part for part in message.parts if not (isinstance(part, OtherPart) and part.kind == SYSTEM_PROMPT))
    if len(parts) != len(message.parts):
        if not parts:
            return None
        message = replace(message, parts=parts)
    native = message.native
    if native is not None and INSTRUCTIONS in native.data:
        data = {name: value for name, value in native.data.items() if name != INSTRUCTIONS}
        message = replace(message, native=replace(native, data=data))
    return message


def unseen(messages: Iterable[Message], ids: Collection[str]) -> list[Message]:
    """Return the messages whose id is neither in `ids` nor further ahead among them."""
    fresh: dict[str, Message] = {}
    for message in messages:
        if message.id not in ids:
            fresh.setdefault(message.id, message)
    return list(fresh.values())


def stored_form(message: Message) -> tuple[bytes, Message]:
    """Return a message as its line of JSON, and as it will be read from there: a copy that shares nothing.

    Raises:
        InvalidEntryError: It would not be readable: a field is wrong, or native data is not JSON.
    """
    try:
        line = message_to_json(message).encode()
        return line, message_from_json(line)
    except (TypeError, ValueError, AttributeError, RecursionError) as error:
        raise InvalidEntryError(
            f"The message {message.id!r} is not plain JSON and cannot be stored: {error}."
        ) from error
    except CorruptEntryError as error:
        raise InvalidEntryError(f"The message {message.id!r} cannot be stored. {error}") from error


def state_to_json(state: SessionState) -> str:
    """Return the stored form of a state.

    Raises:
        InvalidEntryError: The snapshot is not JSON.

    """
    fields = {
        "version": SNAPSHOT_VERSION,
        "snapshot": state.snapshot,
        "pending": state.pending,
        "reason": state.reason,
    }
    try:
        return json.dumps(fields, allow_nan=False)  # ASCII: a lone surrogate in it stays what it is
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidEntryError(f"The snapshot cannot be stored, it is not plain JSON: {error}.") from error


def state_from_json(text: str | bytes) -> SessionState:
    """Build a state from its stored form.

    Raises:
        CorruptEntryError: It is not JSON, not a state, or of another version; the sentence says which.

    """
    try:
        fields: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CorruptEntryError(f"The snapshot is not JSON: {error}.") from error
    fields = cast("dict[str, Any]", fields) if isinstance(fields, dict) else {}
    version = fields.get("version")
    if version != SNAPSHOT_VERSION:
        raise CorruptEntryError(f"The snapshot has the version {version!r}; this program reads {SNAPSHOT_VERSION}.")
    pending, reason = fields.get("pending", False), fields.get("reason", "")
    if not isinstance(pending, bool) or not isinstance(reason, str):
        raise CorruptEntryError("The snapshot's `pending` or `reason` is of a wrong type.")
    return SessionState(fields.get("snapshot"), pending, reason)
