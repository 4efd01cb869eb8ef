"""No model at all: a notice that something was cut off, and what earlier summaries said."""

from memory_core.context.strategies.base import Steps, SummaryJob


class PlainCut:
    """Drops the compacted messages; the first request and earlier summaries are still carried."""

    def steps(self, job: SummaryJob) -> Steps:
        """Ask nobody."""
        yield from ()
        notice = f"[{len(job.messages)} earlier messages were removed to make room; no summary of them was made.]"
        return "\n\n".join([*job.earlier_summaries, notice])
