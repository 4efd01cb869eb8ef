"""What a strategy is: a generator that asks a model and returns a text, so that sync and async callers share it.

A strategy yields a `ModelRequest` for each call it wants made and is sent the `ModelReply`; a failed call is thrown in
as `SummaryFailedError`, one that was too long as `PromptTooLongError`. It returns the text that is to stand for the
compacted messages; to give up, it raises `SummaryFailedError` or returns None.
"""

import re
from collections.abc import Generator
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeAlias, runtime_checkable

from memory_core.context.render import quoted, render
from memory_core.context.tokens import TokenCounter
from memory_core.contracts import ModelReply
from memory_core.errors import MemoryCoreError
from memory_core.sessions.messages import Message
from memory_core.text import estimate_tokens
from memory_core.thoughts import without_thoughts

MAX_NARROWINGS = 4
"""How often a call that was too long is tried again with half of the conversation."""


class SummaryFailedError(MemoryCoreError):
    """The model gave no usable summary; the context stays as it was."""


class PromptTooLongError(SummaryFailedError):
    """The summary call itself did not fit into the model's window."""


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One call that a strategy wants made."""

    system: str
    user: str
    max_output_tokens: int


Steps: TypeAlias = Generator[ModelRequest, ModelReply, str | None]


@dataclass(frozen=True, slots=True)
class SummaryJob:
    """What is to be condensed.

    `messages` are the compacted ones, `earlier_summaries` what stood for even older ones, oldest first. The summary has
    at most about `max_tokens` tokens; a call's conversation at most about `input_tokens`. `prompt` holds `{messages}`.
    """

    messages: tuple[Message, ...]
    earlier_summaries: tuple[str, ...]
    first_request: str | None
    max_tokens: int
    input_tokens: int
    prompt: str
    count: TokenCounter = field(default=estimate_tokens, compare=False)

    def narrowed(self) -> "SummaryJob":
        """Return the job with room for half of what the conversation takes now."""
        return replace(self, input_tokens=max(200, min(self.input_tokens, self.count(self.conversation())) // 2))

    def conversation(self) -> str:
        """Return everything that the summary must be made from, as text of about `input_tokens`."""
        parts: list[str] = []
        if self.first_request:
            parts.append(f"[first request]\n{quoted(self.first_request)}")
        parts += [f"[earlier summary]\n{quoted(summary)}" for summary in self.earlier_summaries]
        room = max(100, self.input_tokens - self.count("\n\n".join(parts)))
        return "\n\n".join(filter(None, [*parts, render(self.messages, room, self.count)]))


@runtime_checkable
class Strategy(Protocol):
    """Makes the text that stands for compacted messages."""

    def steps(self, job: SummaryJob) -> Steps:
        """Return the generator described above."""
        ...


_FENCE = re.compile(r"\A```[a-z]*\n(.*)\n```\Z", re.DOTALL)


def cleaned(text: str) -> str:
    """Return a model's answer without its thoughts and without a code fence around the whole."""
    text = without_thoughts(text).strip()
    fenced = _FENCE.match(text)
    return fenced[1].strip() if fenced and "\n```" not in fenced[1] else text


def ask(system: str, prompt: str, job: SummaryJob) -> Generator[ModelRequest, ModelReply, str]:
    """Ask for one text about the job's conversation; narrow it when it is too long, insist once when it is cut off.

    Raises:
        SummaryFailedError: The call failed, or the answer is blank or was cut off twice.
        PromptTooLongError: Narrowing did not help.
    """
    insist = ""
    for attempt in range(MAX_NARROWINGS + 1):
        user = prompt.replace("{messages}", job.conversation())
        try:
            reply = yield ModelRequest(system, insist + user, job.max_tokens)
        except PromptTooLongError:
            if attempt == MAX_NARROWINGS:
                raise
            job = job.narrowed()
            continue
        text = cleaned(reply.text)
        if not text:
            raise SummaryFailedError("The model answered the request for a summary with nothing.")
        if reply.finish_reason != "length":
            return text
        if insist:
            break
        insist = f"Use at most {max(80, job.max_tokens // 3)} words.\n\n"
    raise SummaryFailedError(f"The model's summary was cut off at {job.max_tokens} tokens, twice.")
