"""What Hermes needs to find the provider: a folder in `$HERMES_HOME/plugins`, and a model for the ledger's own calls.

`python -m memory_core.adapters.hermes_plugin [HERMES_HOME]` writes that folder.
"""

import asyncio
import importlib
import os
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from memory_core.adapters.hermes import HermesMemory
from memory_core.adapters.hermes_options import NAME
from memory_core.contracts import ModelReply
from memory_core.errors import ConfigError

MODEL_TIMEOUT_S = 100.0

INIT = '''"""Hermes finds this by the word register_memory_provider; everything else is in memory_core."""

from memory_core.adapters.hermes_plugin import register

__all__ = ["register"]
'''
MANIFEST = f"""name: {NAME}
version: 1.0.0
description: "Long-term memory in files of your own: keyed memories, a daily ledger and MEMORY.md, searched offline."
pip_dependencies:
  - memory-talent
hooks:
  - on_pre_compress
  - on_session_end
"""


class HermesModel:
    """A `ChatModel` over the model that Hermes itself uses, or the one set in its `auxiliary.memory_core`."""

    async def complete(self, system: str, user: str, max_output_tokens: int) -> ModelReply:
        """Ask it once; Hermes sees to provider, key and retries, and raises what it will."""
        call = importlib.import_module("agent.auxiliary_client").call_llm
        messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
        answer = await asyncio.to_thread(
            call, task=NAME, messages=messages, max_tokens=max_output_tokens, timeout=MODEL_TIMEOUT_S
        )
        choice = answer.choices[0]
        return ModelReply(str(choice.message.content or ""), str(choice.finish_reason or "stop"))


def register(ctx: Any) -> None:
    """Give Hermes a fresh provider; it asks for one for each agent."""
    base = importlib.import_module("agent.memory_provider").MemoryProvider
    # Ours first: Hermes's class fills in hooks that a later version adds.
    kind = type("MemoryCoreProvider", (HermesMemory, base), {})
    ctx.register_memory_provider(kind(model=HermesModel()))


def install(hermes_home: Path | str | None = None) -> Path:
    """Write the plugin's folder and return it.

    Args:
        hermes_home: Hermes's home or that of a profile; by default `$HERMES_HOME`, else `~/.hermes`.

    Raises:
        ConfigError: It cannot be written.
    """
    home = Path(hermes_home or os.environ.get("HERMES_HOME") or "~/.hermes").expanduser().absolute()
    folder = home / "plugins" / NAME
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in (("__init__.py", INIT), ("plugin.yaml", MANIFEST)):
            (folder / name).write_text(text, "utf-8")
    except OSError as error:
        raise ConfigError(f"The plugin could not be written to {folder}: {error}.") from error
    return folder


def main(arguments: list[str]) -> None:
    """Install and say what to do next."""
    parser = ArgumentParser(
        prog="python -m memory_core.adapters.hermes_plugin", description="Write the plugin's folder for Hermes."
    )
    parser.add_argument(
        "home", nargs="?", help="Hermes's home or that of a profile; by default $HERMES_HOME, else ~/.hermes"
    )
    folder = install(parser.parse_args(arguments).home)
    sys.stdout.write(f"Wrote {folder}\nNow: hermes config set memory.provider {NAME}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
