"""Pluggable long-term memory for LLM agents.

```python
from memory_core import MemoryTalent, load_provider

talent = MemoryTalent(load_provider(), locale="en")
talent.extract(key="user-tech-stack", fact="Uses Python and Solon", importance=8, cwd=".")
```

What stands in `__all__` is the public interface; everything else may change. Nothing heavy is imported here.
"""

from typing import TYPE_CHECKING, Any

from memory_core.async_solution import AsyncMemorySolution
from memory_core.contracts import (
    BackendContext,
    ChatModel,
    Clock,
    Embedder,
    MemorySearcher,
    MemorySolution,
    MemorySolutionProvider,
    MemoryStorer,
    ModelReply,
    Problem,
)
from memory_core.errors import (
    ConfigError,
    InvalidEntryError,
    InvalidKeyError,
    MemoryCoreError,
    PluginError,
    SearcherError,
    StorerError,
)
from memory_core.model import (
    SHARED_USER_ID,
    ChangeBatch,
    MemoryEntry,
    MemoryId,
    SearchHit,
    SearchQuery,
)

from memory_core.solution import StandardSolution
from memory_core.talent import MemoryTalent, ToolContext, ToolResult, ToolSpec

if TYPE_CHECKING:
    from memory_core.loading import load_provider

__version__ = "0.1.0"

__all__ = [
    "SHARED_USER_ID",
    "AsyncMemorySolution",
    "BackendContext",
    "ChangeBatch",
    "ChatModel",
    "Clock",
    "ConfigError",
    "Embedder",
    "InvalidEntryError",
    "InvalidKeyError",
    "MemoryCoreError",
    "MemoryEntry",
    "MemoryId",
    "MemorySearcher",
    "MemorySolution",
    "MemorySolutionProvider",
    "MemoryStorer",
    "MemoryTalent",
    "ModelReply",
    "PluginError",
    "Problem",
    "SearchHit",
    "SearchQuery",
    "SearcherError",
    "StandardSolution",
    "StorerError",
    "ToolContext",
    "ToolResult",
    "ToolSpec",
    "load_provider",
]


def __getattr__(name: str) -> Any:
    """Import `load_provider` at its first use: reading settings is the slow part of starting up."""
    if name == "load_provider":
        from memory_core.loading import load_provider

        return load_provider
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
