"""Writes docs/benchmarks.md and its pictures from the JSON of the benchmarks, or checks that they agree.

    python benchmarks/report.py [--results benchmarks/results] [--write docs/benchmarks.md] [--check]

With `--check` nothing is written; the exit code is 1 when the page, or a picture, is not what the JSON gives.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
if __name__ == "__main__":
    sys.path[0] = str(ROOT)  # started by its path, Python would look for modules in this folder

from benchmarks.reporting.page import written  # noqa: E402 - see above
from benchmarks.reporting.results import load  # noqa: E402 - see above
from benchmarks.reporting.writing import Page  # noqa: E402 - see above

PICTURES = Path("images") / "benchmarks"


def problems(page: Page, target: Path) -> list[str]:
    """Return what differs between the page and what lies at `target` and beside it."""
    wrong: list[str] = []
    if not target.is_file() or target.read_text("utf-8") != page.text():
        wrong.append(f"{target.name} is not what the JSON gives.")
    folder = target.parent / PICTURES
    for name, chart in page.charts.items():
        path = folder / name
        if not path.is_file() or path.read_text("utf-8").partition("\n")[0] != chart.mark:
            wrong.append(f"{name} does not show the figures of the JSON.")
    wrong += [
        f"{path.name} belongs to no page." for path in sorted(folder.glob("*.svg")) if path.name not in page.charts
    ]
    return wrong


def write(page: Page, target: Path) -> None:
    """Write the page and its pictures; take away pictures that it no longer shows."""
    folder = target.parent / PICTURES
    folder.mkdir(parents=True, exist_ok=True)
    target.write_text(page.text(), "utf-8")
    for name, chart in page.charts.items():
        (folder / name).write_text(chart.svg(), "utf-8")
    for path in folder.glob("*.svg"):
        if path.name not in page.charts:
            path.unlink()


def main(arguments: Sequence[str] | None = None) -> int:
    """Write or check; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results", help="where the JSON lies")
    parser.add_argument("--write", type=Path, default=ROOT / "docs" / "benchmarks.md", metavar="PAGE")
    parser.add_argument("--check", action="store_true", help="write nothing; fail when something differs")
    options = parser.parse_args(arguments)
    results = load(options.results)
    page = written(results, PICTURES.as_posix())
    for sentence in results.unreadable:
        print(sentence, file=sys.stderr)
    if options.check:
        wrong = problems(page, options.write)
        for sentence in wrong:
            print(sentence, file=sys.stderr)
        if wrong:
            print("Run `python benchmarks/report.py` and commit what it writes.", file=sys.stderr)
        return 1 if wrong else 0
    write(page, options.write)
    print(
        f"{options.write.name}: {len(page.lines)} lines, {len(page.charts)} pictures, from {len(results.files)} files"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
