"""Starts the processes of a long run, lets one die midway, and judges what all of them saw."""

import json
import subprocess
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from threading import Barrier, BrokenBarrierError
from typing import Any

from memory_core.evaluation.bench_pair import BenchPair
from memory_core.evaluation.long_run.history import Fault, History, Seen, Write, read_line
from memory_core.evaluation.long_run.journal import journal_path, lines
from memory_core.evaluation.long_run.report import NAMED, Outcome

_MODULE = "memory_core.evaluation.long_run.worker"
_START_S = 120.0


@dataclass(frozen=True, slots=True)
class LongRun:
    """How much is done: `operations` in all, by `processes` at once, within `budget_s` seconds a pair."""

    operations: int = 10_000
    processes: int = 4
    seed: int = 0
    budget_s: float = 900.0


def run_pair(pair: BenchPair, plan: LongRun) -> Outcome:
    """Do a long run on one pair, whose directory must be empty, and judge it.

    Process 0 dies without closing anything when half of its operations are done, and comes back. In the end a new
    process compares store and index with the model.
    """
    Path(pair.root).mkdir(parents=True, exist_ok=True)
    give_up = time.monotonic() + plan.budget_s
    started = Barrier(plan.processes)
    with ThreadPoolExecutor(plan.processes) as pool:
        running = [pool.submit(_life, pair, plan, process, started, give_up) for process in range(plan.processes)]
        failures = [failure for future in running for failure in future.result()]
    failures += _process({**_spec(pair, plan), "verify": True}, None, max(give_up, time.monotonic() + _START_S))
    return judged(pair, plan, failures)


def _spec(pair: BenchPair, plan: LongRun) -> dict[str, Any]:
    return {"pair": pair.to_json(), "seed": plan.seed, "processes": plan.processes}


def _life(pair: BenchPair, plan: LongRun, process: int, started: Barrier, give_up: float) -> list[str]:
    """Run one process' operations, process 0 in two halves; return what went wrong with the process itself."""
    share = plan.operations // plan.processes + (process < plan.operations % plan.processes)
    parts = [share] if process else [share // 2, share - share // 2]
    failures: list[str] = []
    for place, count in enumerate(parts):
        spec = {**_spec(pair, plan), "process": process, "operations": count, "crash": place + 1 < len(parts)}
        failures += _process(spec, None if place else started, give_up)
    return failures


def _process(spec: dict[str, Any], started: Barrier | None, give_up: float) -> list[str]:
    """Run one process to its end; those that share a barrier begin together."""
    name = "final check" if spec.get("verify") else f"process {spec['process']}"
    errors = Path(spec["pair"]["root"]) / f"stderr-{name.replace(' ', '-')}.txt"
    with errors.open("a+", encoding="utf-8", errors="replace") as stderr:
        child = subprocess.Popen(  # noqa: S603 - our own module in our own interpreter
            [sys.executable, "-m", _MODULE, json.dumps(spec)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
        try:
            if not spec.get("verify"):
                assert child.stdout is not None
                child.stdout.readline()
            if started is not None:
                started.wait(_START_S)
            child.communicate("go\n", timeout=max(1.0, give_up - time.monotonic()))
        except subprocess.TimeoutExpired:
            return [f"{name} did not finish in time"]
        except BrokenBarrierError:
            return [f"{name} waited in vain for the others to start"]
        finally:
            child.kill()
            child.communicate()
        if child.returncode != 0:
            stderr.seek(0)
            said = stderr.read().strip().splitlines()[-1:] or ["it said nothing"]
            return [f"{name} ended with {child.returncode}: {said[0]}"]
    return []


def judged(pair: BenchPair, plan: LongRun, failures: Iterable[str]) -> Outcome:
    """Return what the journals of a run say; `failures` are processes that went wrong."""
    root = Path(pair.root)
    faults = [Fault("error", failure) for failure in failures]
    history, reads, times, entries = History(), list[Seen](), dict[str, list[tuple[float, float]]](), 0
    for path in [*(journal_path(root, process) for process in range(plan.processes)), root / "verify.jsonl"]:
        for line in lines(path):
            event = read_line(line)
            if isinstance(event, Write):
                history.add(event)
            elif isinstance(event, Seen):
                reads.append(event)
            elif "op" in line:
                name, begin, end = line["op"]
                times.setdefault(name, []).append((begin, end))
            elif "entries" in line:
                entries = line["entries"]
            else:
                faults += [Fault("error", line["error"])] if "error" in line else [Fault("ghost", line["ghost"])]
    faults += [fault for fault in map(history.judge, reads) if fault is not None]
    done = [span for spans in times.values() for span in spans]
    if len(done) < plan.operations and not faults:
        faults.append(Fault("error", f"only {len(done)} of {plan.operations} operations were done"))
    counts = {kind: sum(1 for fault in faults if fault.kind == kind) for kind in ("error", "lost", "ghost")}
    return Outcome(
        pair.storer,
        pair.searcher,
        operations=len(done),
        seconds=max((end for _, end in done), default=0.0) - min((begin for begin, _ in done), default=0.0),
        entries=entries,
        restarts=1,
        checked=len(reads),
        errors=counts["error"],
        lost=counts["lost"],
        ghosts=counts["ghost"],
        op_ms={name: median(end - begin for begin, end in spans) * 1_000 for name, spans in sorted(times.items())},
        faults=tuple(faults[:NAMED]),
    )
