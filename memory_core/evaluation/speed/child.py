"""The process of one cell: `python -m memory_core.evaluation.speed.child SPEC`, SPEC being JSON.

It writes one JSON object a line: `{"stage": NAME}` when it begins something, `{"figure": [NAME, VALUE]}` when it has
measured something. What goes wrong is `{"failed": SENTENCE}`, and exit code 1.
"""

import json
import sys
from typing import Any, TextIO

from memory_core.errors import MemoryCoreError
from memory_core.evaluation.bench_pair import BenchPair
from memory_core.evaluation.redis_server import used_bytes
from memory_core.evaluation.speed.measure import fill, measure
from memory_core.evaluation.speed.plan import Repeats
from memory_core.evaluation.speed.sources import open_texts


def run(spec: dict[str, Any], out: TextIO) -> int:
    """Do what `spec` says (`"do": "fill"` or `"measure"`) and return the exit code."""

    def line(**fields: Any) -> None:
        out.write(json.dumps(fields) + "\n")
        out.flush()

    def tell(name: str, value: float) -> None:
        line(figure=[name, value])

    pair, size = BenchPair(**spec["pair"]), int(spec["size"])
    try:
        texts = open_texts(spec["seed"], spec["data"], size)
        if spec["do"] == "fill":
            line(stage="filling")
            empty = used_bytes(pair.redis_url) if pair.storer == "redis" else 0
            fill(pair, texts, size, tell)
            if pair.storer == "redis":
                tell("store_files", 0)
                tell("store_bytes", used_bytes(pair.redis_url) - empty)
        else:
            repeats = Repeats(**spec["repeats"])
            measure(pair, texts, size, repeats=repeats, tell=tell, stage=lambda name: line(stage=name))
    except MemoryCoreError as error:
        line(failed=" ".join(str(error).split()))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(run(json.loads(sys.argv[1]), sys.stdout))
