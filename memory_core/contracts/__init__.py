"""What a backend implements, and what the rest of the library relies on.

Plugins subclass the ABCs (few abstract methods, working defaults for the rest); callers may pass anything that fits
the Protocols. All of it is synchronous and safe to call from several threads. The contract suites in
`memory_core.testing` check every sentence here.
"""

from memory_core.contracts.backend import BackendContext, EmbedderBuilder, ScopePlace, SearcherBuilder
from memory_core.contracts.candidates import Candidates
from memory_core.contracts.embedder import Embedder
from memory_core.contracts.ports import ChatModel, Clock, ModelReply
from memory_core.contracts.problem import Problem
from memory_core.contracts.provider import MemorySolutionProvider
from memory_core.contracts.searcher import ChangeFeed, MemorySearcher
from memory_core.contracts.solution import REFUSALS, Consolidated, MemorySolution, Progress, Remembered, Stored
from memory_core.contracts.storer import FEED_PAGE, UNSTORABLE, MemoryStorer

__all__ = [
    "FEED_PAGE",
    "REFUSALS",
    "UNSTORABLE",
    "BackendContext",
    "Candidates",
    "ChangeFeed",
    "ChatModel",
    "Clock",
    "Consolidated",
    "Embedder",
    "EmbedderBuilder",
    "MemorySearcher",
    "MemorySolution",
    "MemorySolutionProvider",
    "MemoryStorer",
    "ModelReply",
    "Problem",
    "Progress",
    "Remembered",
    "ScopePlace",
    "SearcherBuilder",
    "Stored",
]
