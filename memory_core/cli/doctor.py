"""`doctor`: store, index, plugins, configuration and what expires soon; with --audit the memories themselves."""

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from memory_core.cli.output import one_line, print_json, say
from memory_core.cli.progress import progress_bar
from memory_core.cli.state import State, pass_state, shared_options

if TYPE_CHECKING:
    from memory_core.audit import AuditReport
    from memory_core.config import Loaded
    from memory_core.contracts import MemorySolution, Problem, Progress

SOON_DAYS = 7
SHOWN_FINDINGS = 10
SEVERITIES = ("error", "warning", "info")


@click.command()
@click.option("--audit", is_flag=True, help="Look at every memory too: duplicates, secrets, fragments, loops.")
@click.option(
    "--soon",
    "soon_days",
    type=click.IntRange(min=0),
    default=SOON_DAYS,
    show_default=True,
    help="Days that count as soon.",
)
@shared_options("cwd", "user", "scope", "storer", "searcher", "json")
@pass_state
def doctor(state: State, audit: bool, soon_days: int) -> int | None:
    """Check configuration, plugins, store and index.

    Exit code 1 when there is an error. Broken files, one key stored twice, an index that lags behind, plugins that
    failed, what expires soon; each with what to do about it. --audit adds duplicates, fragments, secrets, oversized
    memories and recall loops.

    \b
    memory-core doctor
    memory-core doctor --audit --json
    """
    from memory_core.audit import CHECKS, AuditLimits, run_audit
    from memory_core.cli.ledger import ledger_problems
    from memory_core.contracts import Problem
    from memory_core.errors import MemoryCoreError

    problems = list(_plugin_problems())
    report: AuditReport | None = None
    facts: dict[str, Any] = {}
    solution = _opened(state, problems)
    if solution is not None:
        try:
            with progress_bar("Indexing") as progress:
                problems.extend(_index_problems(solution, state, facts, progress))
            problems.extend(solution.problems())
            with progress_bar("Reading the memories") as progress:
                report = run_audit(
                    solution,
                    user_id=state.user,
                    scope=state.scope,
                    checks=CHECKS if audit else ("shadowed", "expiring"),
                    limits=AuditLimits(soon_days=soon_days),
                    progress=progress,
                )
        except MemoryCoreError as error:
            problems.append(Problem("error", type(error).__name__, str(error)))
    problems.extend(ledger_problems(state))
    problems.sort(key=lambda problem: SEVERITIES.index(problem.severity))
    failed = any(problem.severity == "error" for problem in problems)
    if state.as_json:
        print_json(
            {
                "ok": not failed,
                **facts,
                "problems": [dataclasses.asdict(problem) for problem in problems],
                "audit": report.to_json() if report is not None else None,
            }
        )
        return 1 if failed else None
    for name, value in facts.items():
        say(f"{name}: {value}")
    for problem in problems:
        where = f" ({problem.where})" if problem.where else ""
        say(one_line(f"{problem.severity.upper()} {problem.message}{where} {problem.advice}"))
    if report is not None:
        _print_audit(report, full=audit)
    if not problems:
        found = report is not None and any(finding.check != "expiring" for finding in report.findings)
        say("Nothing is broken; see what was found above." if found else "Everything is well.")
    return 1 if failed else None


def _plugin_problems() -> "Iterator[Problem]":
    from memory_core.contracts import Problem
    from memory_core.plugins import get_registry

    for failure in get_registry().failures:
        yield Problem(
            "warning", "plugin-failed", str(failure.error), failure.plugin, "Repair it or uninstall its package."
        )


def _check_names(loaded: "Loaded") -> None:
    """Check the names that opening a solution does not look at.

    Raises:
        UnknownBackendError, ConfigError: A name or an option is wrong.
    """
    from memory_core.plugins import get_registry

    registry, settings = get_registry(), loaded.settings
    loaded.options(registry, "session_store", settings.session_store)
    if settings.embedder is not None:
        loaded.options(registry, "embedder", settings.embedder)


def _opened(state: State, problems: "list[Problem]") -> "MemorySolution | None":
    """Open the solution; what keeps it from opening is what the doctor is there to say."""
    from memory_core.contracts import Problem
    from memory_core.errors import MemoryCoreError

    try:
        _check_names(state.load())
        return state.open()
    except (MemoryCoreError, OSError) as error:
        problems.append(Problem("error", type(error).__name__, str(error)))
        return None


def _index_problems(
    solution: "MemorySolution", state: State, facts: dict[str, Any], progress: "Progress"
) -> "Iterator[Problem]":
    """Bring the index up to the store, and say how far it was behind."""
    from memory_core.contracts import Problem
    from memory_core.errors import MemoryCoreError

    users = [state.user] if state.user is not None else solution.storer.users()
    facts["store"] = type(solution.storer).__name__
    facts["index"] = type(solution.searcher).__name__
    facts["scopes"] = ", ".join(solution.scopes)
    facts["users"] = len(users)
    for user in users:
        try:
            solution.sync(user, progress)
        except MemoryCoreError as error:
            yield Problem("error", "index-failed", str(error), user, "Build it anew: memory-core reindex")


def _print_audit(report: "AuditReport", *, full: bool) -> None:
    say(f"memories: {report.entries}")
    for statement in report.notes:
        say(one_line(statement))
    for check, findings in report.by_check().items():
        say(f"{check}: {len(findings)}")
        for finding in findings[: None if full else SHOWN_FINDINGS]:
            say("  " + one_line(finding.message))
        if not full and len(findings) > SHOWN_FINDINGS:
            say(f"  … and {len(findings) - SHOWN_FINDINGS} more; --audit lists them.")
