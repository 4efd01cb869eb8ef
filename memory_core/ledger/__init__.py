"""Memory in files that people can read: a daily ledger, and the curated `MEMORY.md` that is made of it."""

from memory_core.ledger.combined import CombinedTalent
from memory_core.ledger.config import FlushTrigger, MemoryConfig
from memory_core.ledger.index import LedgerHit
from memory_core.ledger.ledger import Ledger
from memory_core.ledger.models import FunctionModel, OpenAICompatibleModel, PydanticAIModel, as_chat_model
from memory_core.ledger.opening import open_ledger
from memory_core.ledger.prompts import (
    DEFAULT_CONSOLIDATION_PROMPT,
    DEFAULT_CONSOLIDATION_PROMPT_ZH,
    DEFAULT_FLUSH_PROMPT,
    DEFAULT_FLUSH_PROMPT_ZH,
    NO_REPLY,
)
from memory_core.ledger.reading import Excerpt, PathRefusedError
from memory_core.ledger.results import ConsolidationResult, FlushResult, MaintenanceReport
from memory_core.ledger.saving import Saved
from memory_core.ledger.talent import LedgerTalent
from memory_core.ledger.undo import NothingToUndoError

__all__ = [
    "DEFAULT_CONSOLIDATION_PROMPT",
    "DEFAULT_CONSOLIDATION_PROMPT_ZH",
    "DEFAULT_FLUSH_PROMPT",
    "DEFAULT_FLUSH_PROMPT_ZH",
    "NO_REPLY",
    "CombinedTalent",
    "ConsolidationResult",
    "Excerpt",
    "FlushResult",
    "FlushTrigger",
    "FunctionModel",
    "Ledger",
    "LedgerHit",
    "LedgerTalent",
    "MaintenanceReport",
    "MemoryConfig",
    "NothingToUndoError",
    "OpenAICompatibleModel",
    "PathRefusedError",
    "PydanticAIModel",
    "Saved",
    "as_chat_model",
    "open_ledger",
]
