"""One call, one structured summary: intent, what happened, artifacts, next steps."""

from memory_core.context.prompts import SUMMARY_SYSTEM
from memory_core.context.strategies.base import Steps, SummaryJob, ask


class Summary:
    """The default: the configured prompt over the whole conversation, earlier summaries included."""

    def steps(self, job: SummaryJob) -> Steps:
        """Ask once, narrowing when that is too long."""
        return (yield from ask(SUMMARY_SYSTEM, job.prompt, job))
