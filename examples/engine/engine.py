"""A fact told in one session is used in the next, by an engine that was started anew."""

import asyncio
import tempfile
from pathlib import Path

from memory_core.harness import HarnessEngine
from memory_core.harness.scripted import scripted_model


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        async with HarnessEngine(folder, home, model=scripted_model(), ledger=False) as engine:
            print(await engine.prompt("remember: my editor is vim", session="monday"))

        async with HarnessEngine(folder, home, model=scripted_model(), ledger=False) as engine:
            async for piece in engine.stream("which editor do I use?", session="tuesday"):
                print(piece, end="", flush=True)
            print()
            print("healthy:", engine.health().ok)


if __name__ == "__main__":
    asyncio.run(main())
