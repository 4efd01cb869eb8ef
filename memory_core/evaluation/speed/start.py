"""A start from nothing, timed from within: run as a script in a new interpreter, nothing imported before the clock.

`python -P start.py SPEC` prints `{"start_s", "memory_mb", "hits"}`: seconds until the first search has answered,
imports included, and the resident memory after the remaining queries above what the bare interpreter had.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

MEGABYTE = 1_000_000


def resident_bytes() -> int:
    """Return this process' resident memory: now where the system tells, else the most that it ever had."""
    try:
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    except (OSError, IndexError, ValueError):
        import resource

        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024
    import os

    return pages * os.sysconf("SC_PAGE_SIZE")


def start(spec: dict[str, Any]) -> dict[str, float]:
    """Open the pair, ask the queries, and return what it took."""
    bare = resident_bytes()
    began = time.perf_counter()
    from memory_core.loading import load_provider

    provider = load_provider(spec["work"], config_file=spec["config"], overrides=spec["overrides"])
    solution = provider.get(spec["work"])
    first, *others = spec["queries"]
    hits = len(solution.search(first))
    start_s = time.perf_counter() - began
    for query in others:
        hits += len(solution.search(query))
    memory_mb = (resident_bytes() - bare) / MEGABYTE
    provider.close()
    return {"start_s": start_s, "memory_mb": memory_mb, "hits": hits}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(start(json.loads(sys.argv[1]))) + "\n")
