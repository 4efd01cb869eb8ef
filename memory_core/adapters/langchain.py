"""LangChain: our tools as `StructuredTool`s, and a chat-message history over a session (extra `langchain`).

The LangGraph store stands in `memory_core.adapters.langgraph_store`.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from memory_core.adapters.toolbox import Toolbox
from memory_core.errors import MissingExtraError
from memory_core.sessions.converters.langchain import from_langchain, to_langchain
from memory_core.sessions.session import AgentSession

try:
    from langchain_core.chat_history import BaseChatMessageHistory
    from langchain_core.messages import BaseMessage
    from langchain_core.tools import BaseTool, StructuredTool, ToolException
except ModuleNotFoundError as error:
    raise MissingExtraError(
        f"LangChain's adapter needs the package {error.name!r}: pip install 'memory-talent[langchain]'."
    ) from error


def langchain_tools(toolbox: Toolbox) -> list[BaseTool]:
    """Return the tools that are on, for `create_agent(tools=[…])` or `model.bind_tools(…)`.

    A call that fails gives a `ToolMessage` of the status `error` with the reason; none raises. Who calls is what the
    toolbox says.
    """
    return [
        StructuredTool.from_function(
            func=partial(_call, toolbox, spec.name),
            name=spec.name,
            description=spec.description,
            args_schema=dict(spec.parameters),
            infer_schema=False,
            handle_tool_error=True,
        )
        for spec in toolbox.specs()
    ]


def _call(toolbox: Toolbox, name: str, /, **arguments: Any) -> str:
    result = toolbox.call(name, arguments)
    if not result.ok:
        raise ToolException(result.text)
    return result.text


class SessionChatHistory(BaseChatMessageHistory):
    """A session as LangChain's chat-message history (`RunnableWithMessageHistory` takes it).

    System messages are not kept: they belong to the agent. Adding a message whose id is there already is harmless.
    """

    def __init__(self, session: AgentSession) -> None:
        super().__init__()
        self.session = session

    @property
    def messages(self) -> list[BaseMessage]:  # type: ignore[override]  # the base class says itself: a property may be
        """Every message, oldest first.

        Raises:
            StorageUnavailableError: They could not be read.
        """
        return to_langchain(self.session.messages())

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Add messages at the end, durably.

        Raises:
            InvalidEntryError: One is no message of a conversation; nothing was added.
            StorageUnavailableError: They could not be written.
        """
        self.session.append(from_langchain(messages))

    def clear(self) -> None:
        """Forget the conversation."""
        self.session.clear()
