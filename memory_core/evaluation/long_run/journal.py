"""What each process writes down while it works: one JSON object a line, read by its successor and by the judge."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from memory_core.evaluation.long_run.history import Seen, Write


class Journal:
    """Appends lines to a file; `flush` before the process may end."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="utf-8")

    def note(self, event: Write | Seen) -> None:
        """Write down a write or what a read showed."""
        self.line(event.to_json())

    def line(self, fields: dict[str, Any]) -> None:
        """Write down anything else."""
        self._file.write(json.dumps(fields) + "\n")

    def flush(self) -> None:
        """Hand everything to the system."""
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def journal_path(root: Path, process: int) -> Path:
    """Return where process number `process` keeps its journal."""
    return root / f"journal-{process}.jsonl"


def lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the lines of a journal; a last line that was cut off is left out, a missing file is empty."""
    if not path.exists():
        return
    with path.open(encoding="utf-8") as file:
        for line in file:
            try:
                yield json.loads(line)
            except ValueError:
                continue
