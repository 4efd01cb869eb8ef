"""LangGraph's long-term memory in our store; LangChain's tools over the same memories."""

import tempfile

from memory_core import load_provider
from memory_core.adapters.langchain import langchain_tools
from memory_core.adapters.langgraph_store import SolutionStore
from memory_core.adapters.toolbox import Toolbox
from memory_core.talent import MemoryTalent, ToolContext

with tempfile.TemporaryDirectory() as folder:
    provider = load_provider(folder, overrides={"home": folder})
    store = SolutionStore(provider.get(folder))
    store.put(("users", "ann"), "drink", {"text": "Drinks black coffee", "level": 3}, ttl=60)
    for item in store.search(("users",), query="coffee", filter={"level": {"$gte": 2}}):
        print(item.namespace, item.key, item.value)
    toolbox = Toolbox([MemoryTalent(provider).tools], ToolContext(folder))
    search = next(tool for tool in langchain_tools(toolbox) if tool.name == "memory_search")
    print(search.invoke({"query": "coffee"}))
    provider.close()
