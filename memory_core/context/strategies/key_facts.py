"""One call, a list of facts: for conversations in which details matter and the course of events does not."""

from memory_core.context.prompts import KEY_FACTS_PROMPT, SUMMARY_SYSTEM
from memory_core.context.strategies.base import Steps, SummaryJob, ask


class KeyFacts:
    """Bullets of what must not be lost. `prompt` must contain `{messages}`."""

    def __init__(self, prompt: str = KEY_FACTS_PROMPT) -> None:
        if "{messages}" not in prompt:
            raise ValueError("The prompt of KeyFacts must contain {messages}, where the conversation goes.")
        self.prompt = prompt

    def steps(self, job: SummaryJob) -> Steps:
        """Ask once, narrowing when that is too long."""
        return (yield from ask(SUMMARY_SYSTEM, self.prompt, job))
