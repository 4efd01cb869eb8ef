"""Long conversations piece by piece: each call sees the summary so far and the next part; nothing is left out."""

from collections.abc import Iterator
from dataclasses import replace

from memory_core.context.prompts import ROLLING_PROMPT, SUMMARY_SYSTEM
from memory_core.context.render import render
from memory_core.context.strategies.base import Steps, SummaryJob, ask
from memory_core.sessions.messages import Message


class RollingSummary:
    """A summary that rolls over the conversation in parts of about `part_tokens` tokens.

    The last call uses the configured prompt, so that the outcome has its sections; a conversation of one part needs
    only that call. Earlier summaries are where the rolling starts.
    """

    def __init__(self, part_tokens: int = 16_000) -> None:
        self.part_tokens = max(200, part_tokens)

    def steps(self, job: SummaryJob) -> Steps:
        """Ask once for each part."""
        parts = list(self._parts(job))
        so_far = job.earlier_summaries
        for number, part in enumerate(parts, start=1):
            step = replace(job, messages=part, earlier_summaries=so_far)
            prompt = job.prompt if number == len(parts) else ROLLING_PROMPT
            so_far = ((yield from ask(SUMMARY_SYSTEM, prompt, step)),)
        return so_far[0] if so_far else None

    def _parts(self, job: SummaryJob) -> Iterator[tuple[Message, ...]]:
        room = min(self.part_tokens, job.input_tokens)
        part: list[Message] = []
        spent = 0
        for message in job.messages:
            tokens = job.count(render([message], room, job.count))
            if part and spent + tokens > room:
                yield tuple(part)
                part, spent = [], 0
            part.append(message)
            spent += tokens
        if part or not job.messages:
            yield tuple(part)
