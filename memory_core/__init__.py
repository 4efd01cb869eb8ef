"""Pluggable long-term memory for LLM agents.

```python
from memory_core import MemoryTalent, load_provider

talent = MemoryTalent(load_provider(), locale="en")
talent.extract(key="user-tech-stack", fact="Uses Python and Solon", importance=8, cwd=".")
```

What stands in `__all__` is the public interface; everything else may change. Nothing heavy is imported here.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
    from memory_core.loading import load_provider
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


_WHERE = {
    "AsyncMemorySolution": "memory_core.async_solution",
    "BackendContext": "memory_core.contracts",
    "ChangeBatch": "memory_core.model",
    "ChatModel": "memory_core.contracts",
    "Clock": "memory_core.contracts",
    "ConfigError": "memory_core.errors",
    "Embedder": "memory_core.contracts",
    "InvalidEntryError": "memory_core.errors",
    "InvalidKeyError": "memory_core.errors",
    "MemoryCoreError": "memory_core.errors",
    "MemoryEntry": "memory_core.model",
    "MemoryId": "memory_core.model",
    "MemorySearcher": "memory_core.contracts",
    "MemorySolution": "memory_core.contracts",
    "MemorySolutionProvider": "memory_core.contracts",
    "MemoryStorer": "memory_core.contracts",
    "MemoryTalent": "memory_core.talent",
    "ModelReply": "memory_core.contracts",
    "PluginError": "memory_core.errors",
    "Problem": "memory_core.contracts",
    "SHARED_USER_ID": "memory_core.model",
    "SearchHit": "memory_core.model",
    "SearchQuery": "memory_core.model",
    "SearcherError": "memory_core.errors",
    "StandardSolution": "memory_core.solution",
    "StorerError": "memory_core.errors",
    "ToolContext": "memory_core.talent",
    "ToolResult": "memory_core.talent",
    "ToolSpec": "memory_core.talent",
    "load_provider": "memory_core.loading",
}


def __getattr__(name: str) -> Any:
    """Import a public name at its first use, so that importing this package costs nothing by itself."""
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_WHERE[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
