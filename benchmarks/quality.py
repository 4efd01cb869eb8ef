"""Do the searchers still find as well as docs/search.md says? `python benchmarks/quality.py --data DIR [--check]`.

Measures as `memory-core bench quality` does, with the same code, and holds the figures against the promises; with
`--check` the exit code is 1 when one does not hold. Vectors are cached in `--cache`: a second run embeds nothing.
"""

import argparse
import json
import sys
import tempfile
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from memory_core.evaluation import Result, find_sets, load_dataset
from memory_core.evaluation.opening import embedder_settings
from memory_core.evaluation.study import Setup, measure_all

SETS = ("locomo", "longmemeval_turns", "scifact", "cmrc2018", "cmrc_sent")
CHINESE = ("cmrc2018", "cmrc_sent")
DENSE = ("numpy", "lancedb")

FULLTEXT_AT_LEAST = {"locomo": 0.43, "longmemeval_turns": 0.64, "scifact": 0.685, "cmrc2018": 0.98, "cmrc_sent": 0.74}
WHOOSH_WITHIN = 0.015
HYBRID_AT_LEAST = {
    "static": {"locomo": 0.45, "longmemeval_turns": 0.665, "scifact": 0.705},
    "minilm": {"locomo": 0.465, "longmemeval_turns": 0.66, "scifact": 0.73},
}
BELOW_BEST_ARM, BELOW_FULLTEXT_CHINESE = 0.005, 0.003


def settings(embedder: str, extra: list[str]) -> dict[str, Any]:
    """Return the overrides for an embedder, and those given as `--set a.b.c=value`."""
    found = embedder_settings(embedder)
    for assignment in extra:
        path, _, value = assignment.partition("=")
        table = found
        *parents, last = path.split(".")
        for parent in parents:
            table = table.setdefault(parent, {})
        try:
            table[last] = json.loads(value)
        except ValueError:
            table[last] = value
    return found


def line(result: Result) -> str:
    """Return a result on one line."""
    figures = "  ".join(f"{measure} {value:.4f}" for measure, value in result.scores.items())
    return f"{result.dataset:18} {result.searcher:10} {figures}  {result.query_ms:7.2f} ms/query"


def broken(results: list[Result], embedder: str) -> list[str]:
    """Return the promises that do not hold, one sentence each."""
    wrong: list[str] = []
    for name in {result.dataset for result in results}:
        found = {result.searcher: result.scores["nDCG@10"] for result in results if result.dataset == name}

        def want(
            searcher: str, at_least: float | None, why: str, found: dict[str, float] = found, name: str = name
        ) -> None:
            if at_least is not None and searcher in found and found[searcher] < at_least:
                wrong.append(f"{name}: {searcher} {found[searcher]:.4f} is below {at_least:.4f} ({why})")

        want("fulltext", FULLTEXT_AT_LEAST.get(name), "its floor")
        want("hybrid", HYBRID_AT_LEAST.get(embedder, {}).get(name), f"its floor with {embedder}")
        if "fulltext" in found:
            want("whoosh", found["fulltext"] - WHOOSH_WITHIN, "near fulltext")
            if name in CHINESE:
                want("hybrid", found["fulltext"] - BELOW_FULLTEXT_CHINESE, "not below fulltext on Chinese")
            arms = [found["fulltext"], *(found[arm] for arm in DENSE if arm in found)]
            want("hybrid", max(arms) - BELOW_BEST_ARM, "not below its best arm")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--searchers", default="fulltext,whoosh,numpy,hybrid")
    parser.add_argument("--embedder", default="static", help="an embedder's name, or minilm")
    parser.add_argument("--questions", type=int, help="about so many questions of each set")
    parser.add_argument("--cache", type=Path, help="where vectors are kept between runs")
    parser.add_argument("--set", action="append", default=[], metavar="PATH=VALUE", help="a setting, as in memory.toml")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    if not options.data.is_dir():
        print(f"There are no labelled sets in {options.data}: nothing was measured.", file=sys.stderr)
        return 2
    sets = [load_dataset(path) for path in find_sets(options.data, options.sets.split(","))]
    if options.questions:
        sets = [data.head(options.questions) for data in sets]
    results: list[Result] = []
    with tempfile.TemporaryDirectory() as folder:
        cache = (options.cache or Path(folder)).absolute()
        cache.mkdir(parents=True, exist_ok=True)
        setup = Setup(settings(options.embedder, options.set), cache=cache)
        for result in measure_all(sets, options.searchers.split(","), setup):
            results.append(result)
            print(line(result), flush=True)
    if options.json:
        rows = [asdict(replace(result, each={}, kinds={})) for result in results]
        options.json.write_text(json.dumps(rows, indent=2))
    wrong = broken(results, options.embedder)
    for sentence in wrong:
        print(f"DOES NOT HOLD  {sentence}")
    return 1 if options.check and wrong else 0


if __name__ == "__main__":
    sys.exit(main())
