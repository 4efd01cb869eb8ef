"""Messages go to each framework and back without a loss, and keep what we know about them."""

from datetime import UTC, datetime

from langchain_core.messages import (
    AIMessage,
)
from pydantic_ai.messages import (
    ModelRequest,
)

from memory_core.sessions.converters import (
    from_langchain,
    from_openai,
    from_pydantic_ai,
    to_langchain,
    to_openai,
    to_pydantic_ai,
)
from memory_core.sessions.messages import (
    Message,
    OtherPart,
    TextPart,
    ToolResultPart,
)

from ._histories import RICH_OPENAI, rich_langchain, rich_pydantic_ai


def test_from_one_framework_to_another() -> None:
    """What has no neutral form is named or left out; calls and results arrive."""
    chat = to_openai(from_pydantic_ai(rich_pydantic_ai()))
    assert chat[0]["content"].startswith("look at this\n[image-url]\n[binary]\nand this\nand at that")
    assert [call["id"] for call in chat[1]["tool_calls"]] == ["c1", "c2", "c3", "c4", "c5"]
    assert chat[1]["content"] == "I will look."
    assert [message["tool_call_id"] for message in chat[2:7]] == ["c1", "c2", "c3", "c4", "c5"]
    native = to_pydantic_ai(from_openai(RICH_OPENAI))
    assert isinstance(native[0], ModelRequest)
    assert [part.part_kind for part in native[0].parts] == ["system-prompt"]
    lang = to_langchain(from_openai(RICH_OPENAI))
    calling = next(message for message in lang if isinstance(message, AIMessage))
    assert [call["name"] for call in calling.tool_calls] == ["find"]
    assert [call["name"] for call in calling.invalid_tool_calls] == ["find", "shell"]
    back = to_openai(from_langchain(rich_langchain()))
    assert back[4]["role"] == "tool"
    assert to_openai([Message("assistant", (OtherPart("thinking", {}),))]) == []
    assert to_langchain([Message("assistant", (OtherPart("thinking", {}),))]) == []
    assert to_pydantic_ai([Message("assistant", (OtherPart("thinking", {}),))]) == []
    assert to_langchain([Message("user", (OtherPart("thinking", {}),))]) == []
    mixed = Message("user", (ToolResultPart("c", "x", "r"), TextPart("and")), time=datetime(2024, 1, 1, tzinfo=UTC))
    assert [m["role"] for m in to_openai([mixed])] == ["tool", "user"]
    assert [m.type for m in to_langchain([mixed])] == ["tool", "human"]
