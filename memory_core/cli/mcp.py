"""`mcp`: serve the workspace's memory to any MCP client."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from memory_core.cli.state import State, pass_state, shared_options

if TYPE_CHECKING:
    from memory_core.adapters.desks import Desk, OneDesk
    from memory_core.adapters.mcp_roots import RootDesks

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

    User and workspace are fixed here; no call of a tool can change them. Without --cwd the workspace is the first root
    that the client has open, else the current directory; over HTTP, only roots in the current directory. Every address
    but loopback needs a bearer token of at least 16 characters in MEMORY_CORE_MCP_TOKEN; with a token set, loopback
    asks for it too.
    """
    import os

    from memory_core import __version__
    from memory_core.adapters.mcp_http import http_app, serve_http
    from memory_core.adapters.mcp_server import build_server, serve_stdio

    desks = _desks(state, http=http, ledger=ledger, sessions=sessions)
    try:
        server = build_server(desks, version=__version__)
        if not http:
            _end_when_interrupted(desks.close)
            serve_stdio(server)
            return
        app = http_app(server, host, os.environ.get(TOKEN_VARIABLE) or None, allowed_host)
        click.echo(f"Serving MCP on http://{host}:{port}/mcp", err=True)
        serve_http(app, host, port)
    finally:
        desks.close()


def _end_when_interrupted(close: Callable[[], None]) -> None:
    """End at once on Ctrl-C: a thread that waits for the client's next line cannot be asked to stop."""
    import os
    import signal

    def end(*_: object) -> None:
        close()
        os._exit(130)

    signal.signal(signal.SIGINT, end)


def _desks(state: State, *, http: bool, ledger: bool, sessions: bool) -> "OneDesk | RootDesks":
    from memory_core.adapters.desks import OneDesk
    from memory_core.adapters.workspace import open_desk
    from memory_core.config import load_settings
    from memory_core.errors import MissingExtraError
    from memory_core.loading import load_provider

    def open_at(workspace: Path) -> "Desk":
        overrides = state.overrides()
        provider = load_provider(workspace, config_file=state.config_file, overrides=overrides)
        try:
            loaded = load_settings(workspace, state.config_file, overrides)
            return open_desk(provider, loaded, workspace, state.user, ledger=ledger, sessions=sessions)
        except BaseException:
            provider.close()
            raise

    own = state.workspace
    if state.cwd is not None:
        return OneDesk(open_at(own))
    try:
        from memory_core.adapters.mcp_roots import RootDesks
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"The MCP server needs the package {error.name!r}: pip install 'memory-talent[mcp]'."
        ) from error
    desks = RootDesks(open_at, own, within=own if http else None)
    with desks.opened(None):  # what is wrong with the configuration is said now
        return desks
