"""What was promised, as one table, and whether the figures keep it."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.quality import FULLTEXT_AT_LEAST, HYBRID_AT_LEAST
from benchmarks.reporting.peers import Peers, median, peer_runs, peers_of
from benchmarks.reporting.results import Json, Results
from benchmarks.reporting.writing import number, times

AT = 10_000
FULLTEXT_FASTER, LANCEDB_FASTER = 20.0, 10.0
QUALITY_S = 900.0
WORD_SEARCHERS = ("fulltext", "whoosh", "hybrid")
"""What reads Chinese by itself; vectors alone read it as their model does."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One thing that was checked: the figure in words, and whether it holds; None when it was not measured."""

    what: str
    figure: str
    holds: bool | None


@dataclass(frozen=True, slots=True)
class Promise:
    """A promise and how it is checked; `check` gives nothing when there are no results to check."""

    text: str
    check: Callable[[Results], Iterator[Verdict]]


def verdicts(results: Results) -> list[tuple[Promise, list[Verdict]]]:
    """Return every promise with what was found; an empty list where nothing was measured."""
    return [(promise, list(promise.check(results))) for promise in PROMISES]


def _faster(ours: tuple[str, ...], theirs: tuple[str, ...], bound: float) -> Callable[[Results], Iterator[Verdict]]:
    def check(results: Results) -> Iterator[Verdict]:
        runs = peer_runs(results)
        for own in ours if runs else ():
            for peer in theirs:
                yield _latest(runs, own, peer, bound)

    return check


def _latest(runs: Mapping[str, Peers], own: str, peer: str, bound: float) -> Verdict:
    """Judge by the latest run that measured both."""
    found = {name: _ratio(run, own, peer, bound) for name, run in runs.items()}
    name = next((name for name in reversed(found) if found[name].holds is not None), next(iter(found)))
    verdict = found[name]
    where = "" if name == "peers" else f", a later run with fewer contenders: `{name}.json`"
    return Verdict(verdict.what, f"{verdict.figure}{where}", verdict.holds)


def _ratio(peers: Peers, own: str, peer: str, bound: float) -> Verdict:
    what = f"{own} against {peer}"
    one, other = peers.named(own), peers.named(peer)
    mine = None if one is None else median(one, AT, "search_ms")
    found: Json = {} if other is None else other.get("sizes", {}).get(str(AT), {})
    their_ms = None if "error" in found else found.get("search_ms", {}).get("p50")
    if not mine or not their_ms:
        return Verdict(what, f"not measured at {AT:,}", None)
    figure = f"{times(their_ms / mine)} ({number(mine)} ms, {number(their_ms)} ms)"
    holds = their_ms / mine >= bound
    if found["stored"] < AT:  # it would be slower with more, so this is the least that the factor can be
        return Verdict(what, f"{figure}, it with {found['stored']:,} only", True if holds else None)
    return Verdict(what, figure, holds)


def _nothing_lost(results: Results) -> Iterator[Verdict]:
    peers = peers_of(results)
    for entry in peers.ours() if peers else ():
        crash: Json = entry.get("crash", {})
        parts = {
            "killed after the last add": crash.get("after_ack", {}),
            "killed in the next add": crash.get("mid_write", {}),
            "two writers": entry.get("writers", {}),
        }
        for part, found in parts.items():
            if "lost" not in found:
                why = found.get("error") or crash.get("error")
                yield Verdict(f"{entry['name']}, {part}", f"not measured: {why}" if why else "not measured", None)
                continue
            wrong = {name: found.get(name, 0) for name in ("lost", "errors", "twice", "not_found")}
            said = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in wrong.items() if value)
            holds = not any(wrong.values()) and "error" not in found
            yield Verdict(f"{entry['name']}, {part}", said or f"{found['acknowledged']} kept", holds)


def _chinese(results: Results) -> Iterator[Verdict]:
    peers = peers_of(results)
    for entry in peers.ours() if peers else ():
        searcher = entry["name"].partition("+")[2]
        found: Json = entry.get("chinese", {})
        if not searcher.startswith(WORD_SEARCHERS):
            continue
        if "found_at_10" not in found:
            yield Verdict(entry["name"], "not measured", None)
        else:
            text = f"{found['found_at_10']} of {found['queries']}"
            yield Verdict(entry["name"], text, found["found_at_10"] == found["queries"])


def _long_run(results: Results) -> Iterator[Verdict]:
    report = results.one("long_run") or results.one("long-run")
    outcomes: list[Json] = report.get("outcomes", []) if report else []
    for one in outcomes:
        what = f"{one['storer']} × {one['searcher']}"
        if one.get("not_run"):
            yield Verdict(what, f"not run: {one['not_run']}", None)
        else:
            wrong = {name: one[name] for name in ("errors", "lost", "ghosts")}
            yield Verdict(what, ", ".join(f"{name} {value}" for name, value in wrong.items()), not any(wrong.values()))


def _quality(results: Results) -> Iterator[Verdict]:
    for name, report in results.family("quality").items():
        embedder = str(report.get("settings", {}).get("embedder"))
        floors: dict[str, dict[str, float]] = {"fulltext": FULLTEXT_AT_LEAST}
        for key, sets in HYBRID_AT_LEAST.items():
            if key in embedder or key in name:
                floors["hybrid"] = sets
        for result in report.get("results", []):
            floor = floors.get(result["searcher"], {}).get(result["dataset"])
            score = result.get("scores", {}).get("nDCG@10", {}).get("mean")
            if floor is not None and score is not None:
                what = f"{result['searcher']} on {result['dataset']} ({embedder})"
                yield Verdict(what, f"{score:.3f}, at least {floor:.3f}", score >= floor)


def _quality_time(results: Results) -> Iterator[Verdict]:
    for name, report in results.family("quality").items():
        found: list[Json] = report.get("results", [])
        spent = sum(one.get("index_s", 0) + one.get("query_ms", 0) * one.get("questions", 0) / 1_000 for one in found)
        if found:
            yield Verdict(f"{name}.json", f"{number(spent)} s", spent <= QUALITY_S)


def _rows(name: str) -> Callable[[Results], Iterator[Verdict]]:
    def check(results: Results) -> Iterator[Verdict]:
        for row in results.rows(name):
            if row.get("bound") is not None:
                yield Verdict(str(row.get("name")), figure_of(row), bool(row.get("holds")))

    return check


def figure_of(row: Json) -> str:
    """Return a row's figure with its bound."""
    sign = "≥" if row.get("at_least") else "≤"
    unit = f" {row['unit']}" if row.get("unit") else ""
    value: Any = row.get("value")
    return f"{number(value)}{unit} ({sign} {number(row.get('bound'))})"


PROMISES = (
    Promise(
        f"Search at {AT:,} by fulltext is at least {FULLTEXT_FASTER:g}× as fast as mem0 with its local qdrant and as "
        "LangGraph's InMemoryStore, embedding excluded.",
        _faster(("markdown+fulltext", "kv+fulltext"), ("mem0-qdrant", "langgraph"), FULLTEXT_FASTER),
    ),
    Promise(
        f"Search at {AT:,} by lancedb is at least {LANCEDB_FASTER:g}× as fast as both.",
        _faster(("kv+lancedb",), ("mem0-qdrant", "langgraph"), LANCEDB_FASTER),
    ),
    Promise("Nothing acknowledged is lost by a kill or by two writers, none is refused, all is found.", _nothing_lost),
    Promise("Whatever searches by words finds every Chinese query of the probe set.", _chinese),
    Promise("The long run has no errors, nothing lost, no ghosts.", _long_run),
    Promise("nDCG@10 on the labelled sets reaches its floors.", _quality),
    Promise(
        f"`bench quality` takes at most {QUALITY_S:g} s for all sets: indexing, and median time × questions.",
        _quality_time,
    ),
    Promise("The core keeps its bounds (`benchmarks/core.py`).", _rows("core")),
    Promise("The stores keep their bounds (`benchmarks/stores.py`).", _rows("stores")),
    Promise("The searchers keep their bounds (`benchmarks/search.py`).", _rows("search")),
    Promise("Sessions keep their bounds (`benchmarks/sessions.py`).", _rows("sessions")),
    Promise("The context keeps its bounds (`benchmarks/context.py`).", _rows("context")),
)
