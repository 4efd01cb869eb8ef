"""Runs every cell in processes of its own, within its budget; one that fails is reported and the rest goes on."""

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

from memory_core.evaluation.bench_pair import BenchPair
from memory_core.evaluation.bench_stores import Ground
from memory_core.evaluation.speed import start
from memory_core.evaluation.speed.plan import Cell, Plan
from memory_core.evaluation.speed.sources import open_texts

_CHILD = "memory_core.evaluation.speed.child"
_START_QUERIES = 20


class NotMeasuredError(Exception):
    """Why a cell, or the rest of it, has no figures."""


def run_cells(ground: Ground, plan: Plan, told: Callable[[Cell], None] = lambda _: None) -> list[Cell]:
    """Measure every cell, tell each as soon as it is known, and return all: by store, then size, then searcher.

    A store of files is filled once for each size and copied for each searcher; what the filling took counts against
    the budget of each. A server is filled anew for each.
    """
    cells: list[Cell] = []
    for storer in plan.storers:
        for size in plan.sizes:
            filled = _Filled(ground, plan, storer, size)
            for searcher in plan.searchers:
                cell = _cell(ground, plan, filled, searcher)
                cells.append(cell)
                told(cell)
            filled.delete()
    return cells


class _Filled:
    """A filled store of files from which each searcher gets its copy, made when the first one needs it."""

    def __init__(self, ground: Ground, plan: Plan, storer: str, size: int) -> None:
        self.storer = storer
        self.size = size
        self._ground = ground
        self._plan = plan
        self._root = ground.folder / f"filled-{storer}-{size}"
        self._figures: dict[str, float] = {}
        self._reason: str | None = None

    def copy_to(self, pair: BenchPair, budget_s: float) -> dict[str, float]:
        """Fill the pair's store and return what was measured on the way."""
        if self.storer == "redis":
            return run_child(self._spec(pair), budget_s, Path(pair.root))
        if self._reason is None and not self._figures:
            template = BenchPair(self.storer, "fulltext", str(self._root), self._ground.embedder)
            try:
                self._figures = run_child(self._spec(template), budget_s, self._root)
            except NotMeasuredError as reason:
                self._reason = str(reason)
        if self._reason is not None:
            raise NotMeasuredError(self._reason)
        shutil.copytree(self._root, pair.root, dirs_exist_ok=True)
        return dict(self._figures)

    def _spec(self, pair: BenchPair) -> dict[str, Any]:
        return _spec(self._plan, pair, self.size, "fill")

    def delete(self) -> None:
        shutil.rmtree(self._root, ignore_errors=True)


def _cell(ground: Ground, plan: Plan, filled: _Filled, searcher: str) -> Cell:
    reason = ground.reason_against(filled.storer, searcher)
    if reason is not None:
        return Cell(filled.storer, searcher, filled.size, not_measured=reason)
    begin = time.monotonic()
    figures: dict[str, float] = {}
    with ground.pair(filled.storer, searcher, f"{filled.storer}-{searcher}-{filled.size}") as pair:
        try:
            figures.update(filled.copy_to(pair, plan.budget_s))
            give_up = begin + plan.budget_s
            spec = _spec(plan, pair, filled.size, "measure")
            run_child(spec, give_up - time.monotonic(), Path(pair.root), figures)
            _starts(plan, pair, filled.size, give_up, figures)
        except NotMeasuredError as why:
            reason = str(why)
        finally:
            shutil.rmtree(pair.root, ignore_errors=True)
    return Cell(filled.storer, searcher, filled.size, figures, reason, round(time.monotonic() - begin, 1))


def _spec(plan: Plan, pair: BenchPair, size: int, do: str) -> dict[str, Any]:
    return {
        "do": do,
        "pair": pair.to_json(),
        "size": size,
        "seed": plan.seed,
        "data": plan.data,
        "repeats": asdict(plan.repeats),
    }


def run_child(
    spec: dict[str, Any], budget_s: float, folder: Path, figures: dict[str, float] | None = None
) -> dict[str, float]:
    """Run a child to its end and put what it told into `figures`, also when it did not come to its end."""
    figures = {} if figures is None else figures
    told = folder / f"{spec['do']}.jsonl"
    stage, failed = "start", None
    try:
        _run([sys.executable, "-m", _CHILD, json.dumps(spec)], budget_s, told)
    except NotMeasuredError as reason:
        failed = str(reason)
    for line in told.read_text("utf-8").splitlines():
        with suppress(ValueError):
            fields = json.loads(line)
            stage = fields.get("stage", stage)
            failed = fields.get("failed", failed)
            if "figure" in fields:
                name, value = fields["figure"]
                figures[name] = float(value)
    if failed is not None:
        raise NotMeasuredError(f"{stage}: {failed}")
    return figures


def _run(command: list[str], budget_s: float, output: Path) -> None:
    """Run a process with its output in a file; kill it when the budget is used up."""
    output.parent.mkdir(parents=True, exist_ok=True)
    errors = output.with_suffix(".stderr")
    with output.open("wb") as stdout, errors.open("wb") as stderr:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr)  # noqa: S603 - ours
        try:
            code = process.wait(max(0.1, budget_s))
        except subprocess.TimeoutExpired:
            raise NotMeasuredError("the budget was used up") from None
        finally:
            process.kill()
            process.wait()
    if code != 0:
        said = errors.read_text("utf-8", "replace").strip().splitlines()[-1:] or ["it said nothing"]
        raise NotMeasuredError(f"the process ended with {code}: {said[0][:300]}")


def _starts(plan: Plan, pair: BenchPair, size: int, give_up: float, figures: dict[str, float]) -> None:
    """Measure a start without the index, and starts with it."""
    texts = open_texts(plan.seed, plan.data)
    spec = {
        "work": str(pair.work),
        "config": str(pair.config_file),
        "overrides": pair.overrides(),
        "queries": [texts.query(number, size) for number in range(_START_QUERIES)],
    }
    for folder in (pair.index_folder, pair.cache_folder):
        shutil.rmtree(folder, ignore_errors=True)
    figures["cold_start_s"] = timed_start(spec, give_up, pair, "cold start")["start_s"]
    warm = [timed_start(spec, give_up, pair, "warm start") for _ in range(plan.repeats.warm_starts)]
    figures["warm_start_s"] = median(one["start_s"] for one in warm)
    figures["memory_mb"] = median(one["memory_mb"] for one in warm)


def timed_start(spec: dict[str, Any], give_up: float, pair: BenchPair, stage: str) -> dict[str, float]:
    """Start a new process and return what it measured; `stage` stands in the reason when it could not."""
    output = Path(pair.root) / "start.json"
    try:
        _run([sys.executable, "-P", start.__file__, json.dumps(spec)], give_up - time.monotonic(), output)
        result: dict[str, float] = json.loads(output.read_text("utf-8"))
    except (NotMeasuredError, ValueError) as reason:
        raise NotMeasuredError(f"{stage}: {reason}") from reason
    if not result["hits"]:
        raise NotMeasuredError(f"{stage}: no query found anything")
    return result
