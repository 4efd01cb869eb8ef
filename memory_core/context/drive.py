"""Drives a strategy's generator; the two callers differ only in how they call a model."""

import inspect
from collections.abc import Callable
from typing import Any, TypeAlias

from memory_core.context.overflow import is_overflow
from memory_core.context.strategies.base import (
    ModelRequest,
    PromptTooLongError,
    Steps,
    Strategy,
    SummaryFailedError,
    SummaryJob,
)
from memory_core.contracts import ChatModel, ModelReply

Complete: TypeAlias = Callable[[str, str, int], ModelReply]
"""A synchronous model: system text, user text, most output tokens → reply."""
Interceptor: TypeAlias = Strategy | Callable[[SummaryJob], Any]


async def run(chosen: Interceptor, job: SummaryJob, model: ChatModel | None) -> str | None:
    """Return the text that the strategy or callable made.

    Raises:
        SummaryFailedError: It did not; whatever it or the model raised is the cause.
    """
    if not isinstance(chosen, Strategy):
        try:
            outcome = chosen(job)
            return _text(await outcome if inspect.isawaitable(outcome) else outcome)
        except Exception as error:
            raise _failure(error) from error
    dialogue = _Dialogue(chosen.steps(job))
    request = dialogue.start()
    while request is not None:
        if model is None:
            raise _no_model(chosen)
        try:
            reply = await model.complete(request.system, request.user, request.max_output_tokens)
        except Exception as error:  # noqa: BLE001 - any failure of any provider is a failed summary, never a crash
            request = dialogue.fail(error)
        else:
            request = dialogue.answer(reply)
    return dialogue.text


def run_sync(chosen: Interceptor, job: SummaryJob, complete: Complete | None) -> str | None:
    """The same for a synchronous model.

    Raises:
        SummaryFailedError: As `run`, or the callable is async.
    """
    if not isinstance(chosen, Strategy):
        try:
            outcome = chosen(job)
        except Exception as error:
            raise _failure(error) from error
        if inspect.isawaitable(outcome):
            if inspect.iscoroutine(outcome):
                outcome.close()
            raise SummaryFailedError("The compression_interceptor is async: use `compact` instead of `compact_sync`.")
        return _text(outcome)
    dialogue = _Dialogue(chosen.steps(job))
    request = dialogue.start()
    while request is not None:
        if complete is None:
            raise _no_model(chosen)
        try:
            reply = complete(request.system, request.user, request.max_output_tokens)
        except Exception as error:  # noqa: BLE001 - as in `run`
            request = dialogue.fail(error)
        else:
            request = dialogue.answer(reply)
    return dialogue.text


class _Dialogue:
    """A strategy's generator; each step gives its next request, or None when `text` is what it returned."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps
        self.text: str | None = None

    def start(self) -> ModelRequest | None:
        return self._step(lambda: next(self._steps))

    def answer(self, reply: ModelReply) -> ModelRequest | None:
        return self._step(lambda: self._steps.send(reply))

    def fail(self, error: Exception) -> ModelRequest | None:
        failure = _failure(error)
        failure.__cause__ = error
        return self._step(lambda: self._steps.throw(failure))

    def _step(self, step: Callable[[], ModelRequest]) -> ModelRequest | None:
        try:
            return step()
        except StopIteration as done:
            self.text = _text(done.value)
            return None
        except Exception as error:
            raise _failure(error) from error


def _text(outcome: Any) -> str | None:
    if outcome is None or isinstance(outcome, str):
        return outcome
    raise SummaryFailedError(f"The strategy gave {type(outcome).__name__}, not a text.")


def _failure(error: Exception) -> SummaryFailedError:
    if isinstance(error, SummaryFailedError):
        return error
    if is_overflow(error):
        return PromptTooLongError(f"The summary call was too long for the model: {error}")
    return SummaryFailedError(f"The summary failed: {type(error).__name__}: {error}")


def _no_model(chosen: Interceptor) -> SummaryFailedError:
    return SummaryFailedError(f"{type(chosen).__name__} needs a model, and none was given.")
