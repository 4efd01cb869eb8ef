"""Memory for Hermes (`hermes-agent`): install the provider into a home, and do what Hermes does in two sessions.

In earnest: `python -m memory_core.adapters.hermes_plugin`, `hermes config set memory.provider memory_core`, `hermes`.
"""

import json
import os
import tempfile
from importlib import import_module

from memory_core.adapters.hermes_plugin import install


def main() -> None:
    with tempfile.TemporaryDirectory() as home:
        os.environ["HERMES_HOME"] = home
        install(home)
        print(session("memory_extract", {"key": "drink", "fact": "Drinks black coffee", "importance": 8}))
        print(session("memory_recall", {"key": "drink"}))


def session(tool: str, arguments: dict[str, object]) -> str:
    """Run a session of one turn, as Hermes does it: open, recall, call a tool, end."""
    manager = import_module("agent.memory_manager").MemoryManager()
    manager.add_provider(import_module("plugins.memory").load_memory_provider("memory_core"))
    manager.initialize_all("session", platform="cli", agent_context="primary")
    try:
        recalled: str = manager.prefetch_all("What do I drink?")
        answer: dict[str, str] = json.loads(manager.handle_tool_call(tool, arguments))
        return "\n".join(filter(None, [recalled, answer.get("result")]))
    finally:
        manager.shutdown_all()


if __name__ == "__main__":
    main()
