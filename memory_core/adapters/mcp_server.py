"""An MCP server over a toolbox: stdio, and streamable HTTP with a bearer token (extra `mcp`).

User and workspace are fixed when the server starts; no argument of a client changes them.
"""

import hmac
import ipaddress
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from memory_core.adapters.resources import Resource, ResourceSource
from memory_core.adapters.toolbox import Toolbox
from memory_core.errors import ConfigError, MemoryCoreError, MissingExtraError

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

NAME = "memory-core"
PROMPT = "memory"
MIN_TOKEN_CHARS = 16
LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")

MARKDOWN = "text/markdown"

T = TypeVar("T")
Instruction = Callable[[str], str]


def build_server(
    toolbox: Toolbox, *, resources: Sequence[ResourceSource], instruction: Instruction, version: str = ""
) -> "Server[Any]":
    """Return the server: the toolbox's tools, memories and files as resources, the instruction block as a prompt.

    Args:
        toolbox: The tools, with the caller fixed.
        resources: What can be read beside the tools.
        instruction: User input → the block for the prompt.
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

    async def in_thread(work: Callable[[], T]) -> T:
        try:
            return await anyio.to_thread.run_sync(work)
        except MemoryCoreError as error:
            raise MCPError(code=types.INTERNAL_ERROR, message=str(error)) from error

    async def list_tools(_: Any, __: Any) -> types.ListToolsResult:
        tools = [
            types.Tool(name=spec.name, description=spec.description, input_schema=dict(spec.parameters))
            for spec in toolbox.specs()
        ]
        return types.ListToolsResult(tools=tools)

    async def call_tool(_: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        result = await in_thread(lambda: toolbox.call(params.name, params.arguments))
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=result.text)],
            structured_content=dict(result.data),
            is_error=not result.ok,
        )

    async def list_resources(_: Any, __: Any) -> types.ListResourcesResult:
        def found() -> list[Resource]:
            return [resource for source in resources for resource in source.list()]

        listed = [
            types.Resource(uri=one.uri, name=one.name, description=one.description, mime_type=MARKDOWN)
            for one in await in_thread(found)
        ]
        return types.ListResourcesResult(resources=listed)

    async def read_resource(_: Any, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        uri = str(params.uri)

        def text() -> str | None:
            return next((text for source in resources if (text := source.read(uri)) is not None), None)

        content = await in_thread(text)
        if content is None:
            raise MCPError(code=types.INVALID_PARAMS, message=f"There is no resource {uri!r}.")
        return types.ReadResourceResult(
            contents=[types.TextResourceContents(uri=uri, mime_type=MARKDOWN, text=content)]
        )

    async def list_prompts(_: Any, __: Any) -> types.ListPromptsResult:
        argument = types.PromptArgument(name="input", description="What the user asked", required=False)
        prompt = types.Prompt(name=PROMPT, description="What is remembered, for this input", arguments=[argument])
        return types.ListPromptsResult(prompts=[prompt])

    async def get_prompt(_: Any, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        if params.name != PROMPT:
            raise MCPError(
                code=types.INVALID_PARAMS, message=f"There is no prompt {params.name!r}; there is {PROMPT!r}."
            )
        text = await in_thread(lambda: instruction((params.arguments or {}).get("input", "")))
        message = types.PromptMessage(role="user", content=types.TextContent(type="text", text=text))
        return types.GetPromptResult(messages=[message])

    return Server(
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


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach `host`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def http_app(
    server: "Server[Any]", host: str = "127.0.0.1", token: str | None = None, allowed_hosts: Sequence[str] = ()
) -> Any:
    """Return the ASGI application for streamable HTTP under `/mcp`.

    Args:
        server: What `build_server` gave.
        host: The address that it will listen on.
        token: Bearer token that each request must carry. Needed for every address but loopback.
        allowed_hosts: Values of the `Host` header that are accepted (`example.org:*`). On loopback they come beside
            its own names; elsewhere, without any, every host is accepted, for the token guards the server.

    Raises:
        ConfigError: The address is not loopback and there is no token, or the token is short.
    """
    if token is None and not is_loopback(host):
        raise ConfigError(
            f"Serving on {host} needs a token: set MEMORY_CORE_MCP_TOKEN, or listen on 127.0.0.1 (the default)."
        )
    if token is not None and len(token) < MIN_TOKEN_CHARS:
        raise ConfigError(
            f"The MCP token is shorter than {MIN_TOKEN_CHARS} characters; make one with `openssl rand -hex 24`."
        )
    from mcp.server.transport_security import TransportSecuritySettings

    # Explicit for every loopback address: the SDK's own default knows three names and no 127.0.0.2.
    own = [f"{name}:*" for name in (*LOOPBACK_NAMES, host)] if is_loopback(host) else []
    hosts = [*own, *allowed_hosts]
    security = TransportSecuritySettings(
        enable_dns_rebinding_protection=bool(hosts),
        allowed_hosts=hosts,
        allowed_origins=[f"{scheme}://{name}" for name in hosts for scheme in ("http", "https")],
    )
    app = server.streamable_http_app(host=host, transport_security=security)
    return _WithToken(app, token) if token is not None else app


class _WithToken:
    """Refuses every HTTP request without the bearer token; compares in constant time."""

    def __init__(self, app: Any, token: str) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            given = dict(scope["headers"]).get(b"authorization", b"")
            if not hmac.compare_digest(given, self._expected):
                headers = [(b"content-type", b"application/json"), (b"www-authenticate", b"Bearer")]
                await send({"type": "http.response.start", "status": 401, "headers": headers})
                await send({"type": "http.response.body", "body": b'{"error": "A valid bearer token is needed."}'})
                return
        await self._app(scope, receive, send)


def serve_stdio(server: "Server[Any]") -> None:
    """Serve one client over standard input and output until it hangs up."""
    import anyio
    from mcp.server.stdio import stdio_server

    async def serve() -> None:
        async with stdio_server() as (reading, writing):
            await server.run(reading, writing, server.create_initialization_options())

    anyio.run(serve)


def serve_http(app: Any, host: str, port: int) -> None:
    """Serve HTTP until the process is told to stop."""
    import uvicorn

    uvicorn.run(app, host=host, port=port, log_level="warning")
