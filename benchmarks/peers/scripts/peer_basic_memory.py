"""basic-memory by its own tools, in this process: `write_note` and `search_notes` (text search).

`fill` is its own way to take many notes in: Markdown files in its folder, then `basic-memory reindex --search`.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import Coroutine, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.peers.serving import Item, Peer, serve

FOLDER = "memories"


class BasicMemoryPeer(Peer):
    """One project with one folder of notes; a note's title is the key."""

    packages = ("basic-memory", "fastmcp")

    def open(self, folder: Path, dim: int, options: dict[str, Any]) -> None:
        del dim, options
        self._notes = folder / "notes" / FOLDER
        self._notes.mkdir(parents=True, exist_ok=True)
        os.environ.update(  # read when the package is imported
            {
                "BASIC_MEMORY_CONFIG_DIR": str(folder / "config"),
                "BASIC_MEMORY_HOME": str(folder / "notes"),
                "BASIC_MEMORY_SEMANTIC_SEARCH_ENABLED": "false",
                "BASIC_MEMORY_LOG_LEVEL": "ERROR",
            }
        )
        self._loop = asyncio.new_event_loop()
        self._tools = import_module("basic_memory.mcp.tools")

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self._loop.run_until_complete(work)

    def add(self, item: Item) -> None:
        result: Any = self._run(
            self._tools.write_note(title=item.key, content=item.text, directory=FOLDER, output_format="json")
        )
        if "error" in result or isinstance(result, str):  # trouble comes as a text
            raise RuntimeError(f"write_note said: {str(result)[:200]}")

    def fill(self, items: Sequence[Item]) -> None:
        for item in items:
            note = f"---\ntitle: {item.key}\ntype: note\n---\n{item.text}\n"
            (self._notes / f"{item.key}.md").write_text(note, "utf-8")
        self._reindex()

    def _reindex(self) -> None:
        command = Path(sys.executable).with_name("basic-memory")
        subprocess.run([command, "reindex", "--search"], check=True, stdout=subprocess.DEVNULL)

    def search(self, query: Item, k: int) -> list[str]:
        found: Any = self._run(
            self._tools.search_notes(query=query.text, search_type="text", page_size=k, output_format="json")
        )
        if isinstance(found, str):
            raise RuntimeError(f"search_notes said: {str(found)[:200]}")
        return [hit["title"] for hit in found["results"]]

    def keys(self) -> list[str]:
        self._reindex()  # it also writes the files of notes that were accepted before a crash
        return [path.stem for path in self._notes.glob("*.md")]

    def close(self) -> None:
        self._loop.close()


if __name__ == "__main__":
    serve(BasicMemoryPeer())
