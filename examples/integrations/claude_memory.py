"""Claude's memory tool over our store: the commands that Claude sends, run without a model.

With a key, give `anthropic_tool(memory)` to `client.beta.messages.run_tools(tools=[…])`.
"""

import tempfile

from memory_core import load_provider
from memory_core.adapters.claude_memory import ClaudeMemory, anthropic_tool

with tempfile.TemporaryDirectory() as folder:
    provider = load_provider(folder, overrides={"home": folder})
    memory = ClaudeMemory(provider.get(folder), user_id="ann")
    tool = anthropic_tool(memory)
    for command in (
        {"command": "create", "path": "/memories/preferences.md", "file_text": "Likes tea\n"},
        {"command": "str_replace", "path": "/memories/preferences.md", "old_str": "tea", "new_str": "coffee"},
        {"command": "view", "path": "/memories"},
    ):
        print(tool.call(command))
    provider.close()
