"""The command: goes through all contenders and writes what came out as JSON."""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.peers.catalog import CONTENDERS, Contender, chosen
from benchmarks.peers.client import PeerError, PeerProcess
from benchmarks.peers.safety import Starter, after_a_crash, chinese, two_writers
from benchmarks.peers.speed import Running, Work, measure_size
from benchmarks.peers.texts import queries, texts
from benchmarks.peers.vectors import Vectors, open_static
from benchmarks.peers.venvs import UnavailableError, command
from benchmarks.peers.words import masked
from memory_core.evaluation.machine import describe_machine

FORMAT = 1
WARM_UP = 3
Commander = Callable[[Contender], list[str]]


class Options(argparse.Namespace):
    """The command line."""

    peers: str | None
    sizes: str
    json: Path | None
    venvs: Path
    python: str | None
    budget: float
    queries: int
    adds: int
    top_k: int
    writes: int
    crash_adds: int
    skip: str


def parse(arguments: Sequence[str] | None) -> Options:
    parser = argparse.ArgumentParser(prog="python benchmarks/peers", description=__doc__)
    parser.add_argument("--peers", help=f"of {', '.join(c.name for c in CONTENDERS)}; or ours, memory, bare")
    parser.add_argument("--sizes", default="1000,10000", help="how many are stored when adds and searches are timed")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--venvs", type=Path, default=Path(".bench-peers"), help="where their environments are kept")
    parser.add_argument("--python", help="an interpreter for the peers, if it is new enough")
    parser.add_argument("--budget", type=float, default=240.0, help="seconds for filling one of them to one size")
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--adds", type=int, default=30)
    parser.add_argument("--top-k", type=int, default=10)
    parser.add_argument("--writes", type=int, default=200, help="adds of each of two writers")
    parser.add_argument("--crash-adds", type=int, default=50, help="adds before a kill")
    parser.add_argument("--skip", default="", help="parts to leave out: speed, crash, writers, chinese")
    return parser.parse_args(arguments, namespace=Options())


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print a table, write JSON; return 0, or 2 when nothing could be measured."""
    options = parse(arguments)
    try:
        contenders = chosen(options.peers)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(dir=".", prefix=".bench-data-") as work:
        report = run(
            contenders,
            options,
            open_static(),
            Path(work).absolute(),
            lambda contender: command(contender, options.venvs, options.python),
            partial(_save, options.json),
        )
    print(table(report))
    return 0 if any("skipped" not in peer for peer in report["peers"]) else 2


def _save(target: Path | None, report: dict[str, Any]) -> None:
    if target is not None:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", "utf-8")


def run(
    contenders: Sequence[Contender],
    options: Options,
    vectors: Vectors,
    folder: Path,
    commander: Commander,
    save: Callable[[dict[str, Any]], None] = lambda _: None,
) -> dict[str, Any]:
    """Measure all contenders in `folder` and return the report.

    Args:
        contenders: Whom.
        options: The command line.
        vectors: Of whom everybody gets the same.
        folder: Where their data goes; nothing is in it.
        commander: Says how to start one, or raises `UnavailableError`.
        save: Told the report after each part, so that a run that is stopped leaves what it has; `complete` is false
            until the end.

    """
    say = _narrator()
    sizes = sorted({int(size) for size in options.sizes.split(",")})
    peers: list[dict[str, Any]] = []
    started: list[tuple[dict[str, Any], Contender, Starter]] = []
    for contender in contenders:
        entry = _about(contender)
        peers.append(entry)
        say(f"{contender.name}: making its environment")
        try:
            argv = commander(contender)
            starter = Starter(partial(PeerProcess, argv), folder / f"p{len(peers)}", vectors.dim, contender.options)
            with starter.open("probe") as process:
                entry["versions"], entry["python"] = process.versions, process.python
                process.close()
        except (UnavailableError, PeerError) as error:
            entry["skipped"] = masked(str(error))
            say(f"{contender.name}: skipped: {entry['skipped']}")
        else:
            started.append((entry, contender, starter))
    skip = {part.strip() for part in options.skip.split(",")}
    report = _report(peers, options, vectors, sizes)
    if "speed" not in skip:
        _speed(started, options, vectors, sizes, say)
        save(report)
    parts: dict[str, Callable[[Starter], Any]] = {
        "chinese": partial(chinese, vectors=vectors),
        "crash": partial(_crashes, vectors=vectors, count=options.crash_adds),
        "writers": partial(_writers, vectors=vectors, count=options.writes, budget_s=options.budget),
    }
    for name, part in parts.items():
        for entry, contender, starter in started:
            if name not in skip:
                say(f"{contender.name}: {name}")
                try:
                    entry[name] = part(starter)
                except PeerError as error:
                    entry[name] = {"error": masked(str(error))}
                save(report)
    report["complete"] = True
    save(report)
    return report


def _report(peers: list[dict[str, Any]], options: Options, vectors: Vectors, sizes: Sequence[int]) -> dict[str, Any]:
    """Return the frame of the report; `peers` is filled while it is measured."""
    return {
        "kind": "peers",
        "format": FORMAT,
        "complete": False,
        "machine": describe_machine(),
        "settings": {
            "sizes": list(sizes),
            "queries": options.queries,
            "adds": options.adds,
            "top_k": options.top_k,
            "budget_s": options.budget,
            "embedder": vectors.model_id,
            "dim": vectors.dim,
        },
        "peers": peers,
    }


def _about(contender: Contender) -> dict[str, Any]:
    return {
        "name": contender.name,
        "title": contender.title,
        "kind": contender.kind,
        "finds_by": contender.finds_by,
        "notes": list(contender.notes),
    }


def _speed(
    started: Sequence[tuple[dict[str, Any], Contender, Starter]],
    options: Options,
    vectors: Vectors,
    sizes: Sequence[int],
    say: Callable[[str], None],
) -> None:
    stored = vectors.items((text.key, text.text) for text in texts(max(sizes)))
    asked = vectors.items(((q.key, q.text) for q in queries(options.queries, min(sizes))), asked=True)
    warm_up = vectors.items(((q.key, q.text) for q in queries(WARM_UP, min(sizes), 8)), asked=True)
    with ExitStack() as open_ones:
        running: list[Running] = []
        for entry, contender, starter in started:
            say(f"{contender.name}: starting")
            try:
                process = open_ones.enter_context(starter.open("speed"))
            except PeerError as error:
                entry["sizes"] = {str(size): {"error": masked(str(error))} for size in sizes}
                continue
            running.append(Running(contender, process))
            entry["sizes"] = running[-1].sizes
        for place, size in enumerate(sizes):
            prefix, seed = f"added{place}", 1_000 + place
            added = vectors.items((text.key, text.text) for text in texts(options.adds, seed, prefix))
            by_key = {query.key: query for query in queries(options.adds, options.adds, seed, prefix)}
            asking = vectors.items(((item.key, by_key[item.key].text) for item in added), asked=True)
            measure_size(running, Work(size, stored, warm_up, asked, added, asking), options.top_k, options.budget, say)
        for entry, contender, _ in started:
            for one in running:
                if one.contender is contender and not one.broken:
                    entry["reached_for"] = _closed(one.process)


def _closed(process: PeerProcess) -> list[str]:
    try:
        return process.close()
    except PeerError:  # what it measured counts; how it ends does not
        return []


def _crashes(starter: Starter, vectors: Vectors, count: int) -> dict[str, Any]:
    items = vectors.items((text.key, text.text) for text in texts(count + 1, 31, "crash"))
    rounds = [
        after_a_crash(starter, items[: count // 2], f"mid-write-{number}", in_flight=items[-1]) for number in range(3)
    ]
    whole: dict[str, Any] = {
        name: sum(found.get(name, 0) for found in rounds) for name in ("acknowledged", "lost", "not_found")
    }
    if errors := [found["error"] for found in rounds if "error" in found]:
        whole["error"] = errors[0]
    return {"after_ack": after_a_crash(starter, items[:count], "after-ack"), "mid_write": whole}


def _writers(starter: Starter, vectors: Vectors, count: int, budget_s: float) -> dict[str, Any]:
    one, two = (
        vectors.items((text.key, text.text) for text in texts(count, seed, name))
        for name, seed in (("first", 41), ("second", 42))
    )
    return two_writers(starter, one, two, budget_s)


def _narrator() -> Callable[[str], None]:
    """Return what shows progress on stderr: one changing line on a terminal, else a line a step."""
    begun = time.monotonic()
    end = "" if sys.stderr.isatty() else "\n"
    start = "\r\x1b[2K" if sys.stderr.isatty() else ""

    def say(step: str) -> None:
        print(f"{start}[{time.monotonic() - begun:5.0f} s] {step}", end=end, file=sys.stderr, flush=True)

    return say


def table(report: dict[str, Any]) -> str:
    """Return the report as a table for a terminal."""
    lines = [f"\n{'':32}{'size':>8}{'add p50':>10}{'search p50':>12}{'p95':>9}{'found':>7}   (ms)"]
    for peer in report["peers"]:
        if "skipped" in peer:
            lines.append(f"{peer['title']:32}skipped: {peer['skipped']}")
        for size, found in peer.get("sizes", {}).items():
            if "error" in found or "search_ms" not in found:
                lines.append(f"{peer['title']:32}{size:>8}  {found.get('error', 'not measured')}")
                continue
            lines.append(
                f"{peer['title']:32}{found['stored']:>8}{found['add_ms']['p50']:>10.3f}{found['search_ms']['p50']:>12.3f}"
                f"{found['search_ms']['p95']:>9.2f}{found['found_at_k']:>7.2f}"
            )
    lines.append(f"\n{'':32}{'crash lost':>11}{'mid-write':>11}{'two writers':>13}{'errors':>8}{'中文':>7}")
    for peer in report["peers"]:
        if "skipped" in peer:
            continue
        crash, two, zh = peer.get("crash", {}), peer.get("writers", {}), peer.get("chinese", {})
        after, during = crash.get("after_ack", {}), crash.get("mid_write", {})
        lines.append(
            f"{peer['title']:32}{_of(after):>11}{_of(during):>11}{_of(two):>13}{two.get('errors', '–')!s:>8}"
            f"{zh.get('found_at_10', '–')!s:>4}/{zh.get('queries', '–')}"
        )
    return "\n".join(lines)


def _of(found: dict[str, Any]) -> str:
    return f"{found['lost']}/{found['acknowledged']}" if "lost" in found else "–"
