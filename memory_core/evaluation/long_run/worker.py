"""A process of the long run: `python -m memory_core.evaluation.long_run.worker SPEC`, SPEC being JSON.

It says `ready` when the pair is open, starts at the next line on standard input, and writes its journal. A `crash`
ends it without closing anything, as a process does that is killed between two operations.
"""

import json
import os
import sys
from pathlib import Path
from random import Random
from typing import Any

from memory_core.evaluation.bench_pair import BenchPair
from memory_core.evaluation.long_run.history import Write, read_line
from memory_core.evaluation.long_run.journal import Journal, journal_path, lines
from memory_core.evaluation.long_run.player import Player
from memory_core.evaluation.long_run.stories import Stories
from memory_core.evaluation.long_run.verify import verify


def work(spec: dict[str, Any]) -> None:
    """Do one process' operations, or with `"verify"` the final comparison."""
    pair = BenchPair(**spec["pair"])
    root = Path(pair.root)
    if spec.get("verify"):
        verify(pair, spec["seed"], [journal_path(root, n) for n in range(spec["processes"])], root / "verify.jsonl")
        return
    process = int(spec["process"])
    path = journal_path(root, process)
    before = [event for event in map(read_line, lines(path)) if isinstance(event, Write)]
    provider = pair.open()
    journal = Journal(path)
    source = Random(f"{spec['seed']}-{process}-{len(before)}")
    player = Player(provider.get(pair.work), journal, Stories(spec["seed"]), process, spec["processes"], source)
    player.resume(before)
    player.solution.search("warm up")  # loads what is loaded at the first use, which is no part of the day
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    player.play(spec["operations"])
    if spec.get("crash"):
        journal.flush()
        os._exit(0)
    provider.close()
    journal.close()


if __name__ == "__main__":
    work(json.loads(sys.argv[1]))
