"""One toolbox for an agent, and the OpenAI form of it."""

import json
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memory_core.adapters.openai import openai_tools, run_tool_calls
from memory_core.adapters.toolbox import Toolbox
from memory_core.contracts import MemorySolution, MemorySolutionProvider
from memory_core.errors import MemoryCoreError
from memory_core.talent import MemoryTalent, ToolContext

NAMES = ["memory_extract", "memory_recall", "memory_search", "memory_consolidate", "memory_prune"]


@pytest.fixture
def talent(provider: MemorySolutionProvider) -> MemoryTalent:
    return MemoryTalent(provider, session_isolation=True)


@pytest.fixture
def toolbox(talent: MemoryTalent, workspace: object) -> Toolbox:
    return Toolbox([talent.tools], ToolContext(str(workspace), "alice"))


def call(name: str, arguments: object, id: str = "call-1") -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def test_calls_reach_the_store_of_the_caller(toolbox: Toolbox, solution: MemorySolution) -> None:
    result = toolbox.call("memory_extract", {"key": "drink", "fact": "Drinks tea", "importance": 8})
    assert result.ok
    assert solution.recall("drink", user_id="alice") is not None
    assert solution.recall("drink") is None
    assert "Drinks tea" in toolbox.call("memory_recall", {"key": "drink"}).text


@pytest.mark.parametrize("name", ["user_id", "user", "session_id", "cwd", "workspace"])
def test_who_calls_is_no_argument(toolbox: Toolbox, name: str) -> None:
    result = toolbox.call("memory_recall", {"key": "drink", name: "bob"})
    assert not result.ok
    assert name in result.text


def test_an_unknown_tool_is_answered_with_what_there_is(toolbox: Toolbox) -> None:
    result = toolbox.call("memory_serch", {"query": "x"})
    assert not result.ok
    assert "memory_search" in result.text
    assert result.data["error"] == result.text


def test_tools_that_are_off_are_gone_at_once(talent: MemoryTalent, toolbox: Toolbox) -> None:
    assert [spec.name for spec in toolbox.specs()] == NAMES
    talent.enabled = False
    assert toolbox.specs() == []
    assert "There are: none" in toolbox.call("memory_recall", {"key": "k"}).text


def test_two_tools_of_one_name_are_refused(talent: MemoryTalent) -> None:
    with pytest.raises(MemoryCoreError, match="give a tool named"):
        Toolbox([talent.tools, talent.tools], ToolContext("."))


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    name=st.sampled_from([*NAMES, "other", ""]),
    arguments=st.none() | st.dictionaries(st.text(max_size=5) | st.sampled_from(["key", "query", "fact"]), st.text()),
)
def test_no_call_raises(toolbox: Toolbox, name: str, arguments: "dict[str, str] | None") -> None:
    assert toolbox.call(name, arguments).text


# --- OpenAI --------------------------------------------------------------------------------------------------------


def test_the_schemas_are_openai_functions(toolbox: Toolbox) -> None:
    tools = json.loads(json.dumps(openai_tools(toolbox)))
    assert [tool["function"]["name"] for tool in tools] == NAMES
    assert all(tool["type"] == "function" and tool["function"]["parameters"]["type"] == "object" for tool in tools)


def test_each_call_gets_its_answer_in_order(toolbox: Toolbox) -> None:
    extract = json.dumps({"key": "drink", "fact": "Drinks tea", "importance": 8})
    answers = run_tool_calls(
        toolbox, [call("memory_extract", extract, "a"), call("memory_recall", {"key": "drink"}, "b")]
    )
    assert [(answer["role"], answer["tool_call_id"]) for answer in answers] == [("tool", "a"), ("tool", "b")]
    assert "Drinks tea" in answers[1]["content"]


def test_the_clients_own_objects_are_understood(toolbox: Toolbox) -> None:
    from openai.types.chat import ChatCompletionMessageFunctionToolCall

    native = ChatCompletionMessageFunctionToolCall.model_validate(call("memory_search", '{"query": "*"}'))
    loose = SimpleNamespace(id="x", function=SimpleNamespace(name="memory_search", arguments='{"query": "*"}'))
    answers = run_tool_calls(toolbox, [native, loose])
    assert [answer["tool_call_id"] for answer in answers] == ["call-1", "x"]
    assert "FAILED" not in answers[0]["content"] == answers[1]["content"]


@pytest.mark.parametrize(
    "arguments", ['{"key": ', "[1, 2]", "null", '"text"', "", None, 7, "NaN", '{"key": null}', "[" * 100_000]
)
def test_arguments_that_are_no_object_are_answered(toolbox: Toolbox, arguments: object) -> None:
    [answer] = run_tool_calls(toolbox, [call("memory_recall", arguments)])
    assert "FAILED" in answer["content"]


def test_a_call_without_a_function_is_answered(toolbox: Toolbox) -> None:
    [answer] = run_tool_calls(toolbox, [{"id": "c"}])
    assert answer["tool_call_id"] == "c"
    assert "There is no tool" in answer["content"]
