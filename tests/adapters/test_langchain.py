"""LangChain's tools and chat history, with the real package."""

from pathlib import Path

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from memory_core.adapters.langchain import SessionChatHistory, langchain_tools
from memory_core.adapters.toolbox import Toolbox
from memory_core.contracts import MemorySolution, MemorySolutionProvider
from memory_core.sessions import FileSessions, InMemorySessions
from memory_core.talent import MemoryTalent, ToolContext


@pytest.fixture
def toolbox(provider: MemorySolutionProvider, workspace: Path) -> Toolbox:
    return Toolbox([MemoryTalent(provider, session_isolation=True).tools], ToolContext(str(workspace), "alice"))


def test_the_tools_keep_names_schemas_and_the_caller(toolbox: Toolbox, solution: MemorySolution) -> None:
    tools = {tool.name: tool for tool in langchain_tools(toolbox)}
    assert list(tools) == [spec.name for spec in toolbox.specs()]
    for spec in toolbox.specs():
        assert tools[spec.name].args == spec.parameters["properties"]
        assert tools[spec.name].description == spec.description
    call = {"key": "drink", "fact": "Drinks tea", "importance": 8}
    message = tools["memory_extract"].invoke({"type": "tool_call", "id": "c1", "name": "memory_extract", "args": call})
    assert isinstance(message, ToolMessage)
    assert (message.tool_call_id, message.status) == ("c1", "success")
    assert solution.recall("drink", user_id="alice") is not None
    assert "Drinks tea" in tools["memory_recall"].invoke({"key": "drink"})


@pytest.mark.parametrize("arguments", [{}, {"key": 7}, {"key": "drink", "user_id": "bob"}, {"name": "x"}])
async def test_a_failed_call_is_an_error_message(toolbox: Toolbox, arguments: dict[str, object]) -> None:
    [tool] = [tool for tool in langchain_tools(toolbox) if tool.name == "memory_recall"]
    call = {"type": "tool_call", "id": "c1", "name": tool.name, "args": arguments}
    for message in (tool.invoke(call), await tool.ainvoke(call)):
        assert message.status == "error"
        assert "FAILED" in message.content


def test_a_model_is_bound_to_them(toolbox: Toolbox) -> None:
    from langchain_core.utils.function_calling import convert_to_openai_tool

    for tool, spec in zip(langchain_tools(toolbox), toolbox.specs(), strict=True):
        function = convert_to_openai_tool(tool)["function"]
        assert function["name"] == spec.name
        assert function["parameters"]["properties"].keys() == spec.parameters["properties"].keys()


async def test_a_history_survives_a_restart(tmp_path: Path) -> None:
    history = SessionChatHistory(FileSessions(tmp_path)("s1"))
    said = [
        HumanMessage("What is the weather?", id="1"),
        AIMessage("", id="2", tool_calls=[{"id": "c", "name": "weather", "args": {"city": "Ulm"}}]),
        ToolMessage("rain", tool_call_id="c", id="3"),
        AIMessage([{"type": "text", "text": "It rains."}], id="4"),
    ]
    history.add_messages([SystemMessage("Be kind."), *said[:2]])
    await history.aadd_messages(said[2:])
    history.add_messages(said)  # again: harmless
    again = SessionChatHistory(FileSessions(tmp_path)("s1"))
    kept = await again.aget_messages()
    assert [type(message) for message in kept] == [type(message) for message in said]
    assert [message.content for message in kept] == [message.content for message in said]
    assert kept[1].tool_calls[0]["args"] == {"city": "Ulm"}  # type: ignore[attr-defined]  # an AIMessage, as was just seen
    again.add_user_message("Thanks")
    assert "Human: Thanks" in str(history)
    await again.aclear()
    assert history.messages == []


def test_a_conversation_of_langchain_is_one_of_ours() -> None:
    session = InMemorySessions()("s")
    SessionChatHistory(session).add_messages([HumanMessage("hello"), AIMessage("hi")])
    assert [message.role for message in session.messages()] == ["user", "assistant"]
