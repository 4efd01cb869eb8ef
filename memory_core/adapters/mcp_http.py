"""Streamable HTTP for the MCP server: loopback by default, a bearer token everywhere else (extra `mcp`)."""

import hmac
import ipaddress
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from memory_core.errors import ConfigError

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

MIN_TOKEN_CHARS = 16
LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")


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


def serve_http(app: Any, host: str, port: int) -> None:
    """Serve HTTP until the process is told to stop."""
    import uvicorn

    uvicorn.run(app, host=host, port=port, log_level="warning")
