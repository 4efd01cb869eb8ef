"""All tools that one agent gets, under one roof: names are unique, calls are dispatched, bad calls are answered."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from memory_core.errors import MemoryCoreError, did_you_mean
from memory_core.talent.specs import ToolContext, ToolResult, ToolSpec


class Toolbox:
    """The tools of several sources for one caller.

    Args:
        sources: Functions that return the tools that are on at this moment (`talent.tools`).
        context: Who calls and from where; a model never decides that.

    Raises:
        MemoryCoreError: Two sources have a tool of the same name.
    """

    def __init__(self, sources: Sequence[Callable[[], Sequence[ToolSpec]]], context: ToolContext) -> None:
        self._sources = list(sources)
        self.context = context
        names = [spec.name for spec in self.specs()]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise MemoryCoreError(f"Two sources give a tool named {twice[0]!r}; combine their talents into one.")

    def specs(self) -> list[ToolSpec]:
        """Return the tools that are on."""
        return [spec for source in self._sources for spec in source()]

    def call(self, name: str, arguments: Mapping[str, Any] | None) -> ToolResult:
        """Run a tool with whatever a model sent; never raises for a bad call."""
        specs = {spec.name: spec for spec in self.specs()}
        spec = specs.get(name)
        if spec is None:
            known = ", ".join(specs) or "none"
            reason = f"There is no tool {name!r}.{did_you_mean(name, specs)} There are: {known}."
            return ToolResult(reason, {"error": reason}, ok=False)
        return spec.run(arguments if arguments is not None else {}, self.context)
