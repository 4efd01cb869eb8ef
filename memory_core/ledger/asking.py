"""Asking the model: with a time limit, every failure as one kind of error."""

import asyncio
from typing import Any

from memory_core.contracts import ChatModel, ModelReply
from memory_core.errors import MemoryCoreError


class ModelFailedError(MemoryCoreError):
    """The model did not give a usable answer."""


async def ask(model: ChatModel | None, system: str, user: str, max_output_tokens: int, timeout_s: float) -> ModelReply:
    """Return the model's reply.

    Raises:
        ModelFailedError: There is no model, it raised, it took longer than `timeout_s`, or gave no `ModelReply`.
    """
    if model is None:
        raise ModelFailedError("there is no model: give the ledger one, or set `model` in MemoryConfig")
    try:
        async with asyncio.timeout(timeout_s):
            reply: Any = await model.complete(system, user, max_output_tokens)
    except TimeoutError as error:
        raise ModelFailedError(f"the model took longer than {timeout_s:g} s") from error
    except Exception as error:
        raise ModelFailedError(
            f"the model raised {type(error).__name__}: {' '.join(str(error).split())[:300]}"
        ) from error
    if not isinstance(reply, ModelReply) or not isinstance(reply.text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ModelFailedError(f"the model gave {type(reply).__name__}, not a ModelReply with text")
    return reply
