"""One of our sessions for the OpenAI Agents SDK: `Runner.run(agent, "…", session=session)`."""

import asyncio
import tempfile

from memory_core.adapters.openai_agents import AgentsSession
from memory_core.sessions import FileSessions


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        session = AgentsSession(FileSessions(folder)("chat-1"))
        await session.add_items([{"role": "user", "content": "I drink coffee"}])
        again = AgentsSession(FileSessions(folder)("chat-1"))  # after a restart
        print(await again.get_items())


asyncio.run(main())
