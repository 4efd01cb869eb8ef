"""An MCP server over desks: tools, resources and a prompt, over stdio (extra `mcp`; HTTP is in `mcp_http`).

The user is fixed when the server starts, and so is the workspace, unless the client's roots give it; no argument of a
call changes them.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from memory_core.adapters.desks import Desk, Desks
from memory_core.adapters.resources import Resource
from memory_core.errors import MemoryCoreError, MissingExtraError

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

NAME = "memory-core"
PROMPT = "memory"
MARKDOWN = "text/markdown"

T = TypeVar("T")


def build_server(desks: Desks, *, version: str = "") -> "Server[Any]":
    """Return the server: tools, memories and files as resources, the instruction block as a prompt.

    Args:
        desks: Where each request is served.
        version: What the server says of itself.

    Raises:
        MissingExtraError: The package `mcp` is not installed.
    """
    try:
        import anyio.to_thread
        import mcp_types as types
        from mcp.server.lowlevel import Server
        from mcp.shared.exceptions import MCPError
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"The MCP server needs the package {error.name!r}: pip install 'memory-talent[mcp]'."
        ) from error

    async def at_desk(place: Any, work: Callable[[Desk], T]) -> T:
        def there() -> T:
            with desks.opened(place) as desk:
                return work(desk)

        try:
            return await anyio.to_thread.run_sync(there)
        except MemoryCoreError as error:
            raise MCPError(code=types.INTERNAL_ERROR, message=str(error)) from error

    async def list_tools(ctx: Any, _: Any) -> types.ListToolsResult:
        # Where the workspace is not known yet, the tools are those of the server's own: the same, as settings go.
        specs = await at_desk(await desks.locate_unasked(ctx), lambda desk: desk.toolbox.specs())
        tools = [
            types.Tool(name=spec.name, description=spec.description, input_schema=dict(spec.parameters))
            for spec in specs
        ]
        return types.ListToolsResult(tools=tools)

    async def call_tool(
        ctx: Any, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        place = await desks.locate(ctx, params.input_responses)
        if isinstance(place, types.InputRequiredResult):
            return place
        result = await at_desk(place, lambda desk: desk.toolbox.call(params.name, params.arguments))
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=result.text)],
            structured_content=dict(result.data),
            is_error=not result.ok,
        )

    async def list_resources(ctx: Any, _: Any) -> types.ListResourcesResult:
        def found(desk: Desk) -> list[Resource]:
            return [resource for source in desk.resources for resource in source.list()]

        place = await desks.locate_unasked(ctx)
        listed = [
            types.Resource(uri=one.uri, name=one.name, description=one.description, mime_type=MARKDOWN)
            for one in (await at_desk(place, found) if place is not None else ())
        ]
        return types.ListResourcesResult(resources=listed)

    async def read_resource(
        ctx: Any, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult | types.InputRequiredResult:
        uri = str(params.uri)
        place = await desks.locate(ctx, params.input_responses)
        if isinstance(place, types.InputRequiredResult):
            return place

        def read(desk: Desk) -> str | None:
            return next((text for source in desk.resources if (text := source.read(uri)) is not None), None)

        content = await at_desk(place, read)
        if content is None:
            raise MCPError(code=types.INVALID_PARAMS, message=f"There is no resource {uri!r}.")
        return types.ReadResourceResult(
            contents=[types.TextResourceContents(uri=uri, mime_type=MARKDOWN, text=content)]
        )

    async def list_prompts(_: Any, __: Any) -> types.ListPromptsResult:
        argument = types.PromptArgument(name="input", description="What the user asked", required=False)
        prompt = types.Prompt(name=PROMPT, description="What is remembered, for this input", arguments=[argument])
        return types.ListPromptsResult(prompts=[prompt])

    async def get_prompt(
        ctx: Any, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult | types.InputRequiredResult:
        if params.name != PROMPT:
            raise MCPError(
                code=types.INVALID_PARAMS, message=f"There is no prompt {params.name!r}; there is {PROMPT!r}."
            )
        place = await desks.locate(ctx, params.input_responses)
        if isinstance(place, types.InputRequiredResult):
            return place
        asked = (params.arguments or {}).get("input", "")
        text = await at_desk(place, lambda desk: desk.instruction(asked))
        message = types.PromptMessage(role="user", content=types.TextContent(type="text", text=text))
        return types.GetPromptResult(messages=[message])

    async def roots_changed(ctx: Any, _: Any) -> None:
        desks.forget(ctx)

    server: Server[Any] = Server(
        NAME,
        version=version,
        instructions="Long-term memory. Search before you say that you do not know; store what should last.",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_read_resource=read_resource,
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
    )
    # Not by the constructor, which warns that later versions of the protocol have no such notification.
    server.add_notification_handler("notifications/roots/list_changed", types.NotificationParams, roots_changed)
    return server


def serve_stdio(server: "Server[Any]") -> None:
    """Serve one client over standard input and output until it hangs up."""
    import anyio
    from mcp.server.stdio import stdio_server

    async def serve() -> None:
        async with stdio_server() as (reading, writing):
            await server.run(reading, writing, server.create_initialization_options())

    anyio.run(serve)
