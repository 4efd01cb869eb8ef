"""Strategies made of strategies."""

from collections.abc import Sequence
from dataclasses import replace

from memory_core.context.strategies.base import Steps, Strategy, SummaryFailedError, SummaryJob


class Together:
    """The texts of all `strategies`, one after another; each gets its share of the room. One failure fails all."""

    def __init__(self, strategies: Sequence[Strategy]) -> None:
        if not strategies:
            raise ValueError("Together needs at least one strategy.")
        self.strategies = tuple(strategies)

    def steps(self, job: SummaryJob) -> Steps:
        """Run them in their order."""
        share = replace(job, max_tokens=max(100, job.max_tokens // len(self.strategies)))
        texts: list[str] = []
        for strategy in self.strategies:
            text = yield from strategy.steps(share)
            if text is None or not text.strip():
                raise SummaryFailedError(f"{type(strategy).__name__} gave no text.")
            texts.append(text.strip())
        return "\n\n".join(texts)


class FirstOf:
    """The text of the first of `strategies` that succeeds, as a summary with a plain cut to fall back on."""

    def __init__(self, strategies: Sequence[Strategy]) -> None:
        if not strategies:
            raise ValueError("FirstOf needs at least one strategy.")
        self.strategies = tuple(strategies)

    def steps(self, job: SummaryJob) -> Steps:
        """Run them in their order until one gives a text."""
        failures: list[str] = []
        for strategy in self.strategies:
            try:
                text = yield from strategy.steps(job)
            except SummaryFailedError as error:
                failures.append(str(error))
                continue
            if text is not None and text.strip():
                return text
            failures.append(f"{type(strategy).__name__} gave no text.")
        raise SummaryFailedError(" ".join(failures))
