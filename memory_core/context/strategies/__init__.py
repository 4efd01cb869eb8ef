"""How compacted messages become a text: with a model or without, in one call or several, alone or together."""

from memory_core.context.strategies.base import (
    ModelRequest,
    PromptTooLongError,
    Steps,
    Strategy,
    SummaryFailedError,
    SummaryJob,
)
from memory_core.context.strategies.compose import FirstOf, Together
from memory_core.context.strategies.cut import PlainCut
from memory_core.context.strategies.key_facts import KeyFacts
from memory_core.context.strategies.rolling import RollingSummary
from memory_core.context.strategies.summary import Summary

__all__ = [
    "FirstOf",
    "KeyFacts",
    "ModelRequest",
    "PlainCut",
    "PromptTooLongError",
    "RollingSummary",
    "Steps",
    "Strategy",
    "Summary",
    "SummaryFailedError",
    "SummaryJob",
    "Together",
]
