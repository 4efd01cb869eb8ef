"""OpenAI function calling with any client: the schemas to send, and the calls that come back."""

import tempfile

from memory_core import load_provider
from memory_core.adapters.openai import openai_tools, run_tool_calls
from memory_core.adapters.toolbox import Toolbox
from memory_core.talent import MemoryTalent, ToolContext

with tempfile.TemporaryDirectory() as folder:
    provider = load_provider(folder, overrides={"home": folder})
    toolbox = Toolbox([MemoryTalent(provider).tools], ToolContext(folder))
    print([tool["function"]["name"] for tool in openai_tools(toolbox)])
    # What `reply.choices[0].message.tool_calls` holds:
    arguments = '{"key": "drink", "fact": "Drinks black coffee", "importance": 8}'
    calls = [{"id": "call_1", "function": {"name": "memory_extract", "arguments": arguments}}]
    print(run_tool_calls(toolbox, calls))
    provider.close()
