"""The MemoryTalent: five tools and the instruction that an agent gets."""

from memory_core.talent.specs import ToolContext, ToolResult, ToolSpec
from memory_core.talent.talent import MemoryTalent

__all__ = ["MemoryTalent", "ToolContext", "ToolResult", "ToolSpec"]
