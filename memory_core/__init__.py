"""Pluggable long-term memory for LLM agents.

```python
from memory_core import MemoryTalent, load_provider

talent = MemoryTalent(load_provider(), locale="en")
talent.extract(key="user-tech-stack", fact="Uses Python and Solon", importance=8, cwd=".")
```

What stands in `__all__` is the public interface; everything else may change. Nothing heavy is imported here.
"""

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

__version__ = "0.1.0"
