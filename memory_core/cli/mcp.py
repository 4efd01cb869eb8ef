"""`mcp`: serve the workspace's memory to any MCP client."""

import click

from memory_core.cli.state import State, pass_state, shared_options

TOKEN_VARIABLE = "MEMORY_CORE_MCP_TOKEN"  # noqa: S105 - the name of the variable, not a token


@click.command()
@click.option("--http", is_flag=True, help="Serve streamable HTTP under /mcp instead of stdio.")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on, with --http.")
@click.option("--port", default=8642, show_default=True, type=click.IntRange(0, 65535), help="The port, with --http.")
@click.option(
    "--allowed-host", multiple=True, metavar="HOST:PORT", help="A Host header to accept, such as example.org:*."
)
@click.option("--ledger/--no-ledger", default=True, show_default=True, help="The ledger's tools and MEMORY.md too.")
@click.option("--sessions/--no-sessions", default=True, show_default=True, help="Search in earlier conversations too.")
@shared_options("cwd", "user")
@pass_state
def mcp(
    state: State, *, http: bool, host: str, port: int, allowed_host: tuple[str, ...], ledger: bool, sessions: bool
) -> None:
    """Serve the memory tools over the Model Context Protocol, on stdio or HTTP.

    \b
    memory-core mcp --cwd ~/project
    memory-core mcp --http --port 8642

    Workspace and user are fixed here; no client can change them. Every address but loopback needs a bearer token of at
    least 16 characters in MEMORY_CORE_MCP_TOKEN; with a token set, loopback asks for it too.
    """
    import os

    from memory_core.adapters.mcp_server import http_app, serve_http, serve_stdio
    from memory_core.adapters.workspace import workspace_server

    server = workspace_server(
        state.open_provider(), state.load(), state.workspace, state.user, ledger=ledger, sessions=sessions
    )
    if not http:
        serve_stdio(server)
        return
    app = http_app(server, host, os.environ.get(TOKEN_VARIABLE) or None, allowed_host)
    click.echo(f"Serving MCP on http://{host}:{port}/mcp", err=True)
    serve_http(app, host, port)
