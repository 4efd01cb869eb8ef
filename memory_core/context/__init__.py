"""A context that fits: compaction, truncation, pruning, eviction, overflow, token estimates.

`plan`, `apply`, `truncate_args`, `prune` and `plan_eviction` are pure; `compact` runs a strategy with a model;
`LargeResults` keeps evicted results in files; `with_recovery` compacts when the model says that it is too much.
"""

from memory_core.context.compact import Compaction, compact, compact_sync
from memory_core.context.config import (
    CompactionConfig,
    PruneConfig,
    ToolResultEvictionConfig,
    TruncateArgsConfig,
)
from memory_core.context.evict import plan_eviction
from memory_core.context.files import LargeResults, read_tool_text
from memory_core.context.overflow import is_overflow
from memory_core.context.plan import Plan, apply, plan
from memory_core.context.prune import prune
from memory_core.context.recover import with_recovery, with_recovery_sync
from memory_core.context.tokens import MessageSizer, tiktoken_counter
from memory_core.context.truncate import truncate_args

__all__ = [
    "Compaction",
    "CompactionConfig",
    "LargeResults",
    "MessageSizer",
    "Plan",
    "PruneConfig",
    "ToolResultEvictionConfig",
    "TruncateArgsConfig",
    "apply",
    "compact",
    "compact_sync",
    "is_overflow",
    "plan",
    "plan_eviction",
    "prune",
    "read_tool_text",
    "tiktoken_counter",
    "truncate_args",
    "with_recovery",
    "with_recovery_sync",
]
