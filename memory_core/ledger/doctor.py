"""What `doctor` says about a ledger."""

from memory_core.contracts import Problem
from memory_core.errors import StorerError
from memory_core.ledger.disk import read_text
from memory_core.ledger.job import Job
from memory_core.text import estimate_tokens

_ADVICE = {
    "flush": "The next flush sees the conversation again. Check the model, and the workspace's permissions.",
    "consolidation": "MEMORY.md is as it was. Check the model, then run `memory-core ledger consolidate`.",
    "maintenance": "Each step is tried again in the next round, or now with `memory-core ledger maintain`.",
}


def problems(job: Job) -> list[Problem]:
    """Return the failures of the last runs, and what is wrong with `MEMORY.md`."""
    found: list[Problem] = []
    for name, run in sorted(job.state.health().items()):
        if run.get("error") and name in _ADVICE:
            when, error = run.get("at", ""), run["error"]
            found.append(
                Problem("error", f"ledger-{name}", f"The last {name} ({when}) failed: {error}", "memory", _ADVICE[name])
            )
    try:
        memory = read_text(job.places, job.places.memory_md) or ""
    except StorerError as error:
        return [*found, Problem("error", "memory-md", str(error), "MEMORY.md")]
    size, limit = estimate_tokens(memory), job.config.consolidation_max_tokens
    if size > limit:
        found.append(
            Problem(
                "warning",
                "memory-md-size",
                f"MEMORY.md has about {size} tokens; the limit is {limit}.",
                "MEMORY.md",
                "The next consolidation shortens it; or raise consolidation_max_tokens.",
            )
        )
    return found
