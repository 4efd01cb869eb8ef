"""How long an add and a search take at each size: all contenders are filled first, then measured in turn.

In turn means: some queries of one, then some of the next, round after round, so that a machine that is busy for a
while is busy for all of them.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from benchmarks.peers.catalog import Contender
from benchmarks.peers.client import PeerError, PeerProcess
from benchmarks.peers.serving import Item
from benchmarks.peers.words import masked

ROUNDS = 5
Say = Callable[[str], None]


@dataclass(slots=True)
class Running:
    """A contender's process while the sizes are gone through; `sizes` is what came out."""

    contender: Contender
    process: PeerProcess
    stored: int = 0
    broken: bool = False
    sizes: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])


@dataclass(frozen=True, slots=True)
class Work:
    """What is stored, asked and added at one size; queries say which key they are about. `warm_up` is not timed."""

    size: int
    items: Sequence[Item]
    warm_up: Sequence[Item]
    queries: Sequence[Item]
    added: Sequence[Item]
    asked_for_added: Sequence[Item]


def measure_size(running: Sequence[Running], work: Work, k: int, budget_s: float, say: Say) -> None:
    """Fill everyone to `work.size`, then measure; what came out stands in each one's `sizes`."""
    for one in running:
        if not one.broken:
            say(f"{one.contender.name}: filling to {work.size:,}")
            _guard(one, work.size, partial(_fill, one, work, budget_s))
    alive = [one for one in running if not one.broken]
    say(f"searching at {work.size:,}, in turn")
    _in_rounds(alive, work.size, work.queries, lambda one, part: _search(one, part, k, work.size))
    say(f"adding at {work.size:,}, in turn")
    pairs = list(zip(work.added, work.asked_for_added, strict=True))
    _in_rounds(alive, work.size, pairs, lambda one, part: _add(one, part, k, work.size))
    for one in alive:
        one.sizes[str(work.size)] = _summary(one.sizes[str(work.size)])


def _in_rounds(
    running: Sequence[Running], size: int, all_of_it: Sequence[Any], run: Callable[[Running, Sequence[Any]], None]
) -> None:
    step = max(1, -(-len(all_of_it) // ROUNDS))
    for start in range(0, len(all_of_it), step):
        for one in running:
            if not one.broken:
                _guard(one, size, partial(run, one, all_of_it[start : start + step]))


def _guard(one: Running, size: int, run: Callable[[], None]) -> None:
    """Run a step; a contender that raises is left out from then on, with its words."""
    try:
        run()
    except PeerError as error:
        one.broken = True
        one.sizes.setdefault(str(size), {})["error"] = masked(str(error))


def _fill(one: Running, work: Work, budget_s: float) -> None:
    figures: dict[str, Any] = {"wanted": work.size, "fill_s": 0.0, "queries": [], "adds": []}
    one.sizes[str(work.size)] = figures
    end = time.monotonic() + budget_s
    while one.stored < work.size and time.monotonic() < end:
        batch = work.items[one.stored : min(one.stored + one.contender.batch, work.size)]
        figures["fill_s"] += one.process.fill(batch)
        one.stored += len(batch)
    figures["fill_s"] += one.process.flush()
    figures["stored"] = one.stored
    one.process.search(work.warm_up, 5)


def _search(one: Running, queries: Sequence[Item], k: int, size: int) -> None:
    seconds, found = one.process.search(queries, k)
    answered = zip(queries, seconds, found, strict=True)
    one.sizes[str(size)]["queries"] += [(taken, query.key in keys) for query, taken, keys in answered]


def _add(one: Running, pairs: Sequence[tuple[Item, Item]], k: int, size: int) -> None:
    """Add texts one by one; ask for each at once, because some only store now and index later."""
    for item, query in pairs:
        added = one.process.add([item])[0]
        seconds, found = one.process.search([query], k)
        one.sizes[str(size)]["adds"].append((added, seconds[0], item.key in found[0]))


def _summary(figures: dict[str, Any]) -> dict[str, Any]:
    searched, added = figures.pop("queries", []), figures.pop("adds", [])
    figures["fill_s"] = round(figures["fill_s"], 3)
    if searched:
        figures["search_ms"] = quantiles([seconds for seconds, _ in searched])
        figures["found_at_k"] = round(sum(hit for _, hit in searched) / len(searched), 4)
    if added:
        figures["add_ms"] = quantiles([seconds for seconds, _, _ in added])
        figures["add_and_search_ms"] = quantiles([first + second for first, second, _ in added])
        figures["found_at_once"] = round(sum(hit for _, _, hit in added) / len(added), 4)
    return figures


def quantiles(seconds: Sequence[float]) -> dict[str, float]:
    """Return p50 and p95 in milliseconds, to four digits, and how many were measured."""
    ordered = sorted(seconds)
    high = ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]
    median, high = (float(f"{value * 1_000:.4g}") for value in (statistics.median(ordered), high))
    return {"p50": median, "p95": high, "n": len(ordered)}
