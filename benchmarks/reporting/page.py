"""The whole page in its order."""

from benchmarks.reporting import others, peers, quality, speed
from benchmarks.reporting.bounds import verdicts
from benchmarks.reporting.results import Json, Results
from benchmarks.reporting.writing import Page, table

COMMANDS = (
    ("peers.json", "python benchmarks/peers --json benchmarks/results/peers.json"),
    ("quality.json", "memory-core bench quality --data DIR --json benchmarks/results/quality.json"),
    ("speed.json", "memory-core bench speed --json benchmarks/results/speed.json"),
    ("long_run.json", "memory-core bench long-run --json benchmarks/results/long_run.json"),
    *(
        (f"{name}.json", f"python benchmarks/{name}.py --json benchmarks/results/{name}.json")
        for name in others.WITH_ROWS
    ),
    *(
        (f"{name}.json", f"python benchmarks/{name}.py --json benchmarks/results/{name}.json")
        for name in ("engine", "ledger", "token_error")
    ),
)
"""The result files and how each is made."""


def written(results: Results, folder: str) -> Page:
    """Return the page.

    Args:
        results: What the benchmarks wrote.
        folder: Where the pictures lie, as seen from the page.

    """
    page = Page()
    page.say(
        "# Benchmarks",
        "`python benchmarks/report.py --results benchmarks/results --write docs/benchmarks.md` writes this page from "
        "the JSON of the benchmarks, sentences included: no figure here was typed, and a test fails when page and JSON "
        "part. Times depend on the machine; compare within one table, which is one run.",
    )
    found = peers.peers_of(results)
    if found is not None:
        page.points(peers.summary(found))
    _falls_short(page, results)
    _wins(page, found)
    peers.section(page, results, folder)
    quality.section(page, results, folder)
    speed.section(page, results, folder)
    speed.long_run(page, results)
    others.section(page, results)
    _machines(page, results)
    _repeat(page)
    if results.unreadable:
        page.points(results.unreadable)
    return page


def _falls_short(page: Page, results: Results) -> None:
    page.say("## What falls short")
    checked = verdicts(results)
    broken = [
        f"{promise.text} {verdict.what}: **{verdict.figure}**."
        for promise, found in checked
        for verdict in found
        if verdict.holds is False
    ]
    if broken:
        page.points(broken)
    else:
        page.say("Of what was measured, nothing." if any(found for _, found in checked) else "Nothing was measured.")
    rows = [
        [
            promise.text,
            sum(verdict.holds is True for verdict in found),
            sum(verdict.holds is False for verdict in found),
            sum(verdict.holds is None for verdict in found) if found else "all",
        ]
        for promise, found in checked
    ]
    page.add(*table(["promise", "holds", "falls short", "not measured"], rows))


def _wins(page: Page, found: peers.Peers | None) -> None:
    page.say("## Where a peer wins")
    if found is None:
        page.say("Not measured: there is no `peers.json`.")
        return
    sentences = peers.wins(found)
    page.points(sentences)
    if not sentences:
        page.say("Nowhere in what was measured.")


def _machines(page: Page, results: Results) -> None:
    page.say("## Machine, versions, date")
    rows: list[list[str]] = []
    packages: dict[str, str] = {}
    for name in results.files:
        report = results.one(name) or {}
        machine: Json = report.get("machine", {})
        if not machine:
            continue
        packages |= machine.get("packages", {})
        memory = machine.get("memory_gib")
        rows.append(
            [
                f"{name}.json",
                str(machine.get("date") or report.get("date") or "–"),
                f"{machine.get('processor')}, {machine.get('cores')} cores",
                "–" if memory is None else f"{memory} GiB",
                str(machine.get("system")),
                str(machine.get("python")),
                str(machine.get("sqlite")),
            ]
        )
    if not rows:
        page.say("Not known: no result file says.")
        return
    page.add(*table(["file", "date", "processor", "memory", "system", "Python", "SQLite"], rows, left=7))
    page.say(f"Packages: {', '.join(f'{name} {version}' for name, version in sorted(packages.items()))}.")


def _repeat(page: Page) -> None:
    page.say("## How to repeat")
    page.add(*table(["file", "command"], [[f"`{name}`", f"`{command}`"] for name, command in COMMANDS], left=2))
    page.say(
        "Peers get an environment each in `.bench-peers`, from pinned versions in `benchmarks/peers/requirements`; "
        "what cannot be installed is skipped with the reason. Labelled sets are directories as docs/bench.md describes "
        "them. Then write the page again."
    )
