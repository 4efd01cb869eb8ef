"""Two MCP clients on one workspace, over stdio: what one stores, the other finds.

python examples/integrations/mcp_client.py
"""

import asyncio
import os
import sys
import tempfile

from mcp import Client, StdioServerParameters


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        server = StdioServerParameters(
            command=sys.executable,
            args=["-m", "memory_core.cli", "mcp", "--cwd", folder],
            env={**os.environ, "MEMORY_CORE_HOME": folder},
        )
        async with Client(server) as one, Client(server) as two:
            await one.call_tool("memory_extract", {"key": "drink", "fact": "Drinks black coffee", "importance": 8})
            found = await two.call_tool("memory_search", {"query": "coffee"})
            print(found.content[0])


asyncio.run(main())
