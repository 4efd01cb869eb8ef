"""Our tool specs as a pydantic-ai toolset. The list is asked for at every step, so that a switch works at once."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.tools import RunContext, ToolDefinition
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool
from pydantic_core import SchemaValidator, core_schema

from memory_core.harness.scope import RunScope
from memory_core.talent.specs import ToolContext, ToolSpec

Specs = Callable[[RunContext[Any], RunScope], Sequence[ToolSpec]]

_ANY = SchemaValidator(core_schema.dict_schema())
"""Only that arguments are an object: the tools check the rest, and answer with a sentence instead of a traceback."""


class SpecToolset(AbstractToolset[Any]):
    """Serves the tools of a talent.

    Args:
        name: The toolset's id.
        specs: Gives the tools for a run and its scope.
        scope: Gives the scope of a run.
        session: Turns the scope into what the tools take for the session.
    """

    def __init__(
        self,
        name: str,
        specs: Specs,
        scope: Callable[[RunContext[Any]], RunScope],
        session: Callable[[RunScope], str | None] = lambda scope: scope.session_id,
    ) -> None:
        self._id = name
        self._specs = specs
        self._scope = scope
        self._session = session
        self._shown: dict[str, tuple[ToolSpec, ToolsetTool[Any]]] = {}

    @property
    def id(self) -> str | None:
        """The toolset's name in errors."""
        return self._id

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        """Return the tools that there are at this step."""
        specs = self._specs(ctx, self._scope(ctx))
        return {spec.name: self._tool(spec) for spec in specs}

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
    ) -> Any:
        """Run a tool in a thread; a failure reaches the model as a failure.

        Raises:
            ToolFailed: The tool failed or is switched off; the text says why.
        """
        del tool
        scope = self._scope(ctx)
        spec = next((spec for spec in self._specs(ctx, scope) if spec.name == name), None)
        if spec is None:
            raise ToolFailed(f"The tool {name!r} is switched off.")
        context = ToolContext(scope.cwd, self._session(scope))
        result = await asyncio.to_thread(spec.run, tool_args, context)
        if not result.ok:
            raise ToolFailed(result.text)
        return result.text

    def _tool(self, spec: ToolSpec) -> ToolsetTool[Any]:
        known = self._shown.get(spec.name)
        if known is not None and known[0].description == spec.description and known[0].parameters == spec.parameters:
            return known[1]
        definition = ToolDefinition(
            name=spec.name, description=spec.description, parameters_json_schema=dict(spec.parameters)
        )
        tool = ToolsetTool[Any](toolset=self, tool_def=definition, max_retries=1, args_validator=_ANY)
        self._shown[spec.name] = (spec, tool)
        return tool
