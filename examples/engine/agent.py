"""A memory and a bounded context for an agent of pydantic-ai that exists already."""

import asyncio
import tempfile
from pathlib import Path

from pydantic_ai import Agent

from memory_core import load_provider
from memory_core.context import CompactionConfig
from memory_core.harness import ContextCapability, MemoryCapability, RunScope
from memory_core.harness.scripted import scripted_model


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        provider = load_provider(folder, overrides={"home": str(Path(folder) / "home")})
        agent = Agent(
            scripted_model(),
            deps_type=RunScope,
            capabilities=[MemoryCapability(provider, cwd=folder), ContextCapability(CompactionConfig())],
        )
        ann = RunScope(cwd=folder, user_id="ann")
        print((await agent.run("remember: my editor is vim", deps=ann)).output)
        print((await agent.run("which editor do I use?", deps=ann)).output)
        print((await agent.run("which editor do I use?", deps=RunScope(cwd=folder, user_id="bob"))).output)
        provider.close()


if __name__ == "__main__":
    asyncio.run(main())
