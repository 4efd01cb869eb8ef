"""Native messages to neutral ones and back, one file a framework; none of them is imported before it is used.

`from_x(native)` and `to_x(messages)` undo each other. What a framework has beyond the neutral fields travels in
`Message.native` and in each part's `extra`; it is used only when the message goes back to the same framework. A message
that came from another one is built from its neutral parts; what has no neutral form (an image, thinking) is then left
out or named in brackets.
"""

from memory_core.sessions.converters.langchain import from_langchain, to_langchain
from memory_core.sessions.converters.openai import from_openai, to_openai
from memory_core.sessions.converters.pydantic_ai import from_pydantic_ai, to_pydantic_ai

__all__ = ["from_langchain", "from_openai", "from_pydantic_ai", "to_langchain", "to_openai", "to_pydantic_ai"]
