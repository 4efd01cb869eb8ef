"""What is left after a crash, what two writers leave, and whether Chinese is found: counted, not timed."""

import contextlib
import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.peers.chinese import PROBES, distractors
from benchmarks.peers.client import PeerDiedError, PeerError, PeerProcess
from benchmarks.peers.serving import Item
from benchmarks.peers.vectors import Vectors
from benchmarks.peers.words import masked

SAMPLE = 10


@dataclass(frozen=True, slots=True)
class Starter:
    """Starts processes of one contender; `folder` is its own."""

    start: Callable[[Path], PeerProcess]
    folder: Path
    dim: int
    options: dict[str, Any]

    def open(self, name: str) -> PeerProcess:
        """Start a process on the data in the subfolder `name`.

        Raises:
            PeerError: It does not open.

        """
        process = self.start(self.folder / "home")
        try:
            process.open(self.folder / name, self.dim, self.options)
        except BaseException:
            process.kill()
            raise
        return process


def after_a_crash(
    starter: Starter, items: Sequence[Item], name: str, *, in_flight: Item | None = None
) -> dict[str, Any]:
    """Add `items` one by one, kill the process, open the same folder anew and look what is there.

    Args:
        starter: Of the contender.
        items: Each is acknowledged before the next is sent.
        name: A folder that is not used otherwise.
        in_flight: One more that is sent, not acknowledged, and killed within its first milliseconds.

    Returns:
        `acknowledged`; `lost` of them; `not_found` of a sample of those that are there, by search; `error` when the
        folder does not open again.

    """
    acknowledged: list[Item] = []
    with starter.open(name) as process:
        for item in items:
            process.add([item])
            acknowledged.append(item)
        if in_flight is not None:
            with contextlib.suppress(PeerDiedError):
                process.send("add", items=[in_flight.fields()])
            time.sleep(random.Random(len(name)).uniform(0, 0.005))
        process.kill()
    result: dict[str, Any] = {"acknowledged": len(acknowledged)}
    try:
        with starter.open(name) as again:
            stored = set(again.keys())
            result["lost"] = sum(item.key not in stored for item in acknowledged)
            known = [*acknowledged, *([in_flight] if in_flight else [])]
            result["not_found"] = _not_found(again, [item for item in known if item.key in stored])
            again.close()
    except PeerError as error:
        result.setdefault("lost", len(acknowledged))
        result["error"] = masked(str(error))
    return result


def _not_found(process: PeerProcess, items: Sequence[Item]) -> int:
    """Return how many of the last few are not among the best ten for their own text."""
    process.learn(items)
    asked = items[-SAMPLE:]
    if not asked:
        return 0
    _, found = process.search(asked, 10)
    return sum(item.key not in keys for item, keys in zip(asked, found, strict=True))


def two_writers(starter: Starter, first: Sequence[Item], second: Sequence[Item], budget_s: float) -> dict[str, Any]:
    """Let two processes add to one folder at once; then open it anew.

    Returns:
        `attempted`; `errors` (not acknowledged) and `first_error`; `acknowledged`; `lost` of those; `twice` (keys that
        stand there twice).

    """
    errors: list[str] = []
    acknowledged: list[str] = []
    attempted = 0
    end = time.monotonic() + budget_s
    lock = threading.Lock()

    def write(process: PeerProcess | None, items: Sequence[Item], reason: str) -> None:
        nonlocal attempted
        for item in items:
            if time.monotonic() > end:
                return
            with lock:
                attempted += 1
            try:
                if process is None:
                    raise PeerError(reason)
                process.add([item])
            except PeerError as error:
                with lock:
                    errors.append(str(error))
            else:
                with lock:
                    acknowledged.append(item.key)

    processes: list[PeerProcess | None] = []
    threads: list[threading.Thread] = []
    try:
        for items in (first, second):
            reason = ""
            try:
                processes.append(starter.open("two-writers"))
            except PeerError as error:
                processes.append(None)
                reason = f"could not open: {error}"
            threads.append(threading.Thread(target=write, args=(processes[-1], items, reason)))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for process in processes:
            if process is not None:
                with contextlib.suppress(PeerError):
                    process.close()
    finally:
        for process in processes:
            if process is not None:
                process.kill()
    result: dict[str, Any] = {"attempted": attempted, "acknowledged": len(acknowledged), "errors": len(errors)}
    if errors:
        result["first_error"] = masked(errors[0])
    try:
        with starter.open("two-writers") as again:
            keys = again.keys()
            again.close()
    except PeerError as error:
        return {**result, "lost": len(acknowledged), "error": masked(str(error))}
    return {**result, "lost": len(set(acknowledged) - set(keys)), "twice": len(keys) - len(set(keys))}


def chinese(starter: Starter, vectors: Vectors, k: int = 10) -> dict[str, Any]:
    """Return how many probes are found among the best 5 and the best `k`, and which are missed."""
    stored = [*((probe.key, probe.text) for probe in PROBES), *distractors()]
    with starter.open("chinese") as process:
        process.fill(vectors.items(stored))
        process.flush()
        missed: list[str] = []
        at_5 = 0
        for probe, query in zip(PROBES, vectors.items([(p.key, p.query) for p in PROBES], asked=True), strict=True):
            try:
                keys = process.search([query], k)[1][0]
            except PeerDiedError:
                raise
            except PeerError:  # a query that raises is a query that finds nothing
                keys = []
            at_5 += probe.key in keys[:5]
            if probe.key not in keys:
                missed.append(probe.query)
        process.close()
    return {
        "queries": len(PROBES),
        "stored": len(stored),
        "found_at_5": at_5,
        "found_at_10": len(PROBES) - len(missed),
        "missed": missed,
    }
