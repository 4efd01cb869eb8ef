"""Our memory and others' on the same machine, in the same run, with the same texts and vectors.

    python benchmarks/peers [--peers a,b] [--sizes 1000,10000] [--json FILE]

Each peer runs in an environment of its own, made at its first run from pinned versions; one that cannot be installed
is skipped with the reason.
"""

import sys
from pathlib import Path

if __name__ == "__main__":
    # Started by its folder, Python would find this folder's modules and not the package.
    sys.path[0] = str(Path(__file__).resolve().parents[2])
    from benchmarks.peers.runner import main

    sys.exit(main())
