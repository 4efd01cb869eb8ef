"""An agent with a memory, on pydantic-ai: three capabilities for an agent that you have, and an engine over them.

Needs the extra `harness`: `pip install 'memory-talent[harness]'`.
"""

from memory_core.errors import MissingExtraError

try:
    import pydantic_ai as _pydantic_ai  # noqa: F401 - only to say what is missing  # pyright: ignore[reportUnusedImport]
except ModuleNotFoundError as error:
    raise MissingExtraError(
        "The engine needs the package 'pydantic-ai', which is not installed: pip install 'memory-talent[harness]'."
    ) from error

from memory_core.harness.background import Background, Failure
from memory_core.harness.capabilities import LedgerCapability, MemoryCapability
from memory_core.harness.context import Compacted, ContextCapability
from memory_core.harness.engine import HarnessEngine
from memory_core.harness.health import Health
from memory_core.harness.running import Reply
from memory_core.harness.scope import RunScope

__all__ = [
    "Background",
    "Compacted",
    "ContextCapability",
    "Failure",
    "HarnessEngine",
    "Health",
    "LedgerCapability",
    "MemoryCapability",
    "Reply",
    "RunScope",
]
