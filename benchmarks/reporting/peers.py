"""The part of the page about other memory stores: tables, pictures, and sentences made from the figures."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from benchmarks.reporting.results import Json, Results
from benchmarks.reporting.writing import Page, bars_chart, lines_chart, number, table, times

SPEEDS = (("search_ms", "answers a search"), ("add_ms", "adds"), ("add_and_search_ms", "adds and then finds"))
"""Medians in milliseconds that are compared, and what one does in that time."""
PARITY = 1.05
"""Below this factor nobody is called faster: a run differs from the next by as much."""


@dataclass(frozen=True, slots=True)
class Peers:
    """The report of `python benchmarks/peers` with ways to ask it."""

    report: Json

    @property
    def entries(self) -> list[Json]:
        found: list[Json] = self.report.get("peers", [])
        return found

    @property
    def sizes(self) -> list[int]:
        sizes: list[int] = self.report.get("settings", {}).get("sizes", [])
        return sizes

    def measured(self) -> list[Json]:
        return [entry for entry in self.entries if "skipped" not in entry]

    def ours(self) -> list[Json]:
        return [entry for entry in self.measured() if entry["kind"] == "ours"]

    def others(self) -> list[Json]:
        return [entry for entry in self.measured() if entry["kind"] != "ours"]

    def named(self, name: str) -> Json | None:
        return next((entry for entry in self.measured() if entry["name"] == name), None)


def peers_of(results: Results) -> Peers | None:
    """Return the report, if there is one."""
    found = results.one("peers")
    return None if found is None else Peers(found)


def peer_runs(results: Results) -> dict[str, Peers]:
    """Return every run with peers by its file's name, the earliest first."""
    runs = results.family("peers")
    return {name: Peers(runs[name]) for name in sorted(runs, key=lambda name: _date(runs[name]))}


def _date(report: Json) -> str:
    return str(report.get("machine", {}).get("date") or report.get("date") or "")


def median(entry: Json, size: int, figure: str) -> float | None:
    """Return a median at a size; None where it was not measured or with fewer texts than the size says."""
    found = entry.get("sizes", {}).get(str(size), {})
    if found.get("stored") != size or "error" in found:
        return None
    value: float | None = found.get(figure, {}).get("p50")
    return value


def section(page: Page, results: Results, folder: str) -> None:
    """Write the part."""
    page.say("## Beside other memory stores")
    peers = peers_of(results)
    if peers is None:
        page.say("Not measured: there is no `peers.json`.")
        return
    settings = peers.report.get("settings", {})
    page.say(
        "Same machine, same run, same texts (made from a seed), same vectors. Vectors are made once by "
        f"`{settings.get('embedder')}` ({settings.get('dim')} numbers) and handed over with each text and each query: "
        "**no figure contains embedding**. Each runs in a process and an environment of its own and is measured inside "
        "that process around its own call. All are filled first and then measured in turn, some queries of one, some "
        "of the next. They can reach nothing but this machine."
    )
    if not peers.report.get("complete", True):
        page.say("**The run was stopped before its end: what is missing below was not measured.**")
    _about(page, peers)
    _tables(page, peers)
    _charts(page, peers, folder)
    _safety(page, peers)
    _chinese(page, peers, folder)
    for name, run in peer_runs(results).items():
        if name != "peers":
            page.say(f"A run of its own, with fewer contenders (`{name}.json`):")
            _tables(page, run)


def _about(page: Page, peers: Peers) -> None:
    rows = [
        [
            entry["title"],
            ", ".join(f"{name} {version}" for name, version in entry.get("versions", {}).items()) or "–",
            entry.get("python", "–"),
            entry["finds_by"],
            f"skipped: {entry['skipped']}" if "skipped" in entry else "; ".join(entry.get("notes", [])),
        ]
        for entry in peers.entries
    ]
    page.add(*table(["what", "versions", "Python", "finds by", "notes"], rows, left=5))


def _tables(page: Page, peers: Peers) -> None:
    k = peers.report.get("settings", {}).get("top_k")
    for size in peers.sizes:
        page.say(f"### With {size:,} stored")
        heading = ["", "add p50", "search p50", "search p95", "add, then found p50", "asked for found", "filled in"]
        page.add(*table(heading, [_row(entry, size) for entry in peers.measured()]))
        page.say(
            f"Milliseconds; best {k}. *Asked for found*: the share of questions whose text is among them. *Filled in*: "
            "seconds, the fastest public way."
        )


def _row(entry: Json, size: int) -> list[str]:
    found = entry.get("sizes", {}).get(str(size), {})
    title = entry["title"]
    if "error" in found or "search_ms" not in found:
        return [title, found.get("error", "not measured"), *[""] * 5]
    if found["stored"] < size:
        title += f" (only {found['stored']:,} stored: the time for filling was over)"
    both = found["search_ms"]
    added, again = (found.get(name, {}).get("p50") for name in ("add_ms", "add_and_search_ms"))
    figures = [number(value) for value in (added, both["p50"], both["p95"], again)]
    if found.get("found_at_once", 1.0) < 1:
        figures[-1] += f" (found: {found['found_at_once']:.0%})"
    return [title, *figures, f"{found['found_at_k']:.0%}", f"{number(found['fill_s'])} s"]


def _charts(page: Page, peers: Peers, folder: str) -> None:
    for figure, name, title in (
        ("search_ms", "peers-search", "Search, median"),
        ("add_ms", "peers-add", "Add, median"),
    ):
        for kind, beside in (("memory", "beside other memory stores"), ("bare", "beside bare libraries")):
            shown = [*peers.ours(), *(entry for entry in peers.others() if entry["kind"] == kind)]
            series = {
                entry["title"]: values
                for entry in shown
                if any(values := [median(entry, size, figure) for size in peers.sizes])
            }
            if len(series) > len(peers.ours()):
                chart = lines_chart(f"{title}, {beside}", peers.sizes, series, "stored", "ms")
                page.chart(folder, f"{name}-{kind}", chart)


def _safety(page: Page, peers: Peers) -> None:
    page.say("### What is left after a crash, and with two writers")
    rows: list[list[str]] = []
    for entry in peers.measured():
        crash, writers = entry.get("crash", {}), entry.get("writers", {})
        after, during = crash.get("after_ack", {}), crash.get("mid_write", {})
        rows.append(
            [
                entry["title"],
                lost(after),
                lost(during),
                number(writers.get("attempted")),
                number(writers.get("errors")),
                lost(writers),
                "; ".join(_said(crash, after, during, writers)) or "",
            ]
        )
    heading = ["", "killed after the last add: lost", "killed in the next add: lost"]
    heading += ["two writers: adds", "refused", "lost", "what they said"]
    page.add(*table(heading, rows))
    page.say(
        "*Lost* counts entries that had been acknowledged and are not there when a new process opens the same place. "
        "The process is killed with SIGKILL. What lives in memory only loses everything: that is its nature, and no "
        "fault. *Refused* are adds that were answered with an error: nothing was promised, nothing was lost."
    )


def lost(found: Json) -> str:
    """Return `3 of 50`, or `–` where it was not measured."""
    return f"{found['lost']:,} of {found['acknowledged']:,}" if "lost" in found else "–"


def _said(*parts: Json) -> Iterator[str]:
    seen: set[str] = set()
    for part in parts:
        for name in ("error", "first_error"):
            if (text := part.get(name)) and text not in seen:
                seen.add(text)
                yield text


def _chinese(page: Page, peers: Peers, folder: str) -> None:
    asked = [entry for entry in peers.measured() if "queries" in entry.get("chinese", {})]
    if not asked:
        return
    queries, stored = asked[0]["chinese"]["queries"], asked[0]["chinese"]["stored"]
    page.say(
        "### Chinese",
        f"{queries} short queries, each with one right entry among {stored}: words inside sentences without spaces, "
        "words that touch Latin letters, single characters (`benchmarks/peers/chinese.py`). What finds by vectors "
        "alone finds as well as its model reads Chinese; the model here is English.",
    )
    rows = [
        [
            entry["title"],
            entry["finds_by"],
            entry["chinese"]["found_at_5"],
            entry["chinese"]["found_at_10"],
            " ".join(entry["chinese"]["missed"][:12]) + (" …" if len(entry["chinese"]["missed"]) > 12 else ""),
        ]
        for entry in asked
    ]
    page.add(*table(["", "finds by", "in the best 5", "in the best 10", "missed"], rows, left=2))
    found: list[float | None] = [float(entry["chinese"]["found_at_10"]) for entry in asked]
    title = f"Chinese queries found, of {queries}"
    page.chart(
        folder, "peers-chinese", bars_chart(title, [e["title"] for e in asked], {"found": found}, "in the best 10")
    )


def wins(peers: Peers) -> list[str]:
    """Return a sentence for each thing in which a peer is better than one of ours, made from the figures."""
    sentences: list[str] = []
    for entry in peers.others():
        for figure, does in SPEEDS:
            for size in peers.sizes:
                sentences += _faster(entry, peers.ours(), size, figure, does)
        sentences += _finds_more(entry, peers)
    return sentences


def _faster(entry: Json, ours: Sequence[Json], size: int, figure: str, does: str) -> Iterator[str]:
    theirs = median(entry, size, figure)
    known = sorted((value, own["name"]) for own in ours if (value := median(own, size, figure)) is not None)
    beaten = [(value, name) for value, name in known if theirs is not None and value >= theirs * PARITY]
    if theirs is None or not beaten:
        return
    start = f"**{entry['title']}** {does} at {size:,} in {number(theirs)} ms"
    if len(beaten) == len(known):
        value, name = known[0]
        fastest = f"{times(value / theirs)} the speed of the fastest ({name}, {number(value)} ms)"
        yield f"{start}: faster than all of ours, {fastest}."
    else:
        names = ", ".join(f"{name} ({number(value)} ms)" for value, name in beaten)
        rest = ", ".join(f"{name} ({number(value)} ms)" for value, name in known if (value, name) not in beaten)
        yield f"{start}: faster than {names}; not faster than {rest}."


def _finds_more(entry: Json, peers: Peers) -> Iterator[str]:
    for size in peers.sizes:
        share = _found(entry, size)
        better = [
            own
            for own in peers.ours()
            if (own_share := _found(own, size)) is not None and share and own_share < share - 0.005
        ]
        if better and share is not None:
            names = ", ".join(f"{own['name']} ({_found(own, size):.0%})" for own in better)
            start = f"**{entry['title']}** finds what is asked for at {size:,} in {share:.0%} of questions"
            yield f"{start}: more than {names}."
    theirs = entry.get("chinese", {}).get("found_at_10")
    fewer = [
        own for own in peers.ours() if theirs is not None and own.get("chinese", {}).get("found_at_10", theirs) < theirs
    ]
    if fewer:
        names = ", ".join(f"{own['name']} ({own['chinese']['found_at_10']})" for own in fewer)
        yield f"**{entry['title']}** finds {theirs} of the Chinese queries: more than {names}."


def _found(entry: Json, size: int) -> float | None:
    value: float | None = entry.get("sizes", {}).get(str(size), {}).get("found_at_k")
    return value


def summary(peers: Peers) -> list[str]:
    """Return the sentences that come first: speed of our default, what is lost, what Chinese is found."""
    return [*_default_speed(peers), *_losers(peers), *_readers(peers)]


def _default_speed(peers: Peers) -> Iterator[str]:
    size = max(peers.sizes, default=0)
    base = peers.named("markdown+fulltext")
    ours = None if base is None else median(base, size, "search_ms")
    if base is None or not ours:
        return
    compared = [(theirs / ours, e["title"]) for e in peers.others() if (theirs := median(e, size, "search_ms"))]
    faster = [f"{times(ratio)} that of {title}" for ratio, title in sorted(compared, reverse=True) if ratio >= PARITY]
    slower = [f"{title} ({times(1 / ratio)})" for ratio, title in sorted(compared) if ratio <= 1 / PARITY]
    if faster:
        start = f"At {size:,} stored, {base['name']} (the default) searches in {number(ours)} ms"
        yield f"{start}; its speed is {', '.join(faster)}."
    if slower:
        yield f"Faster than the default at {size:,}: {', '.join(slower)}."


def _losers(peers: Peers) -> Iterator[str]:
    checks: dict[str, Callable[[Json], Json]] = {
        "a kill after the last add": lambda entry: entry.get("crash", {}).get("after_ack", {}),
        "a kill in the next add": lambda entry: entry.get("crash", {}).get("mid_write", {}),
        "two writers at once": lambda entry: entry.get("writers", {}),
    }
    for what, of in checks.items():
        found = [(entry, of(entry)) for entry in peers.measured() if "lost" in of(entry)]
        losers = [f"{entry['title']} ({lost(figures)})" for entry, figures in found if figures["lost"]]
        if losers:
            mine = sum(entry["kind"] == "ours" and figures["lost"] > 0 for entry, figures in found)
            end = "none of ours" if not mine else f"{mine} of them ours"
            yield f"After {what}, acknowledged entries are missing in {', '.join(losers)}: {end}."


def _readers(peers: Peers) -> Iterator[str]:
    found = [(e["chinese"], e) for e in peers.measured() if "found_at_10" in e.get("chinese", {})]
    everything = [entry["title"] for figures, entry in found if figures["found_at_10"] == figures["queries"]]
    rest = [
        f"{entry['title']} {figures['found_at_10']}" for figures, entry in found if entry["title"] not in everything
    ]
    if found:
        start = f"All {found[0][0]['queries']} Chinese queries are found by {', '.join(everything) or 'nobody'}"
        yield f"{start}; by the others: {', '.join(rest)}." if rest else f"{start}."
