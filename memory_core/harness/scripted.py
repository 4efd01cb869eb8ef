"""A demonstration model: no network, no intelligence. It stores what it is told and quotes what it is shown."""

import re
from collections.abc import AsyncIterator

from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel

from memory_core.text import tokens

_TELL = re.compile(
    r"^\s*(?:please\s+)?remember\s*(?:that\b|:)?\s*(?P<fact>.+)$|^\s*记住[:：,，]?\s*(?P<zh>.+)$", re.I | re.S
)
_MEMORY = re.compile(r"^- \[[^\]]*\] \[[^\]]*\] (?P<key>.+?) \(importance \d+\): (?P<text>.+)$", re.MULTILINE)


def scripted_model() -> FunctionModel:
    """Return the model. `remember: …` stores a fact; a question is answered with the memories that share its words."""
    return FunctionModel(_answer, stream_function=_stream, model_name="scripted")


def _answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    last = messages[-1].parts[-1]
    if isinstance(last, ToolReturnPart):
        return ModelResponse([TextPart(last.model_response_str())])
    said = str(last.content) if isinstance(last, UserPromptPart) else ""
    told = _TELL.match(said)
    if told and any(tool.name == "memory_extract" for tool in info.function_tools):
        fact = (told["fact"] or told["zh"]).strip()
        key = "-".join(tokens(fact, None)[:5]) or "fact"
        return ModelResponse([ToolCallPart("memory_extract", {"key": key, "fact": fact, "importance": 7})])
    asked = _words(said)
    known = [match["text"] for match in _MEMORY.finditer(info.instructions or "")]
    fitting = [text for text in known if asked & _words(text)]
    if fitting:
        return ModelResponse([TextPart("I remember: " + " ".join(fitting))])
    return ModelResponse([TextPart("I remember nothing about that. Tell me: remember: …")])


async def _stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | dict[int, DeltaToolCall]]:
    for part in _answer(messages, info).parts:
        if isinstance(part, ToolCallPart):
            yield {
                0: DeltaToolCall(name=part.tool_name, json_args=part.args_as_json_str(), tool_call_id=part.tool_call_id)
            }
        elif isinstance(part, TextPart):
            for word in part.content.split(" "):
                yield word + " "


def _words(text: str) -> set[str]:
    """Return the words that say something; of English ones those of more than three letters."""
    return {token for token in tokens(text) if len(token) > 3 or not token.isascii()}
