"""Gateways for tests: over stdio or HTTP, before a real upstream, with tokens of a test issuer."""

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import httpx2
from joserfc.jwk import KeySet
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.server.mcpserver import MCPServer
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mcp_gate.proxy import Gateway, build, http_app
from mcp_gate.settings import GateSettings
from tests.gate.issuer import ISSUER, RESOURCE, TestIssuer
from tests.gate.live import serving
from tests.gate.upstream_server import add_tools
from tests.gate.world import META, TASKS, VERSION, World

ROOT = Path(__file__).parents[2]


def stdio_upstream(directory: Path) -> dict[str, Any]:
    """The upstream as a child process."""
    environment = {"EFFECTS": str(directory / "effects"), "PYTHONPATH": str(ROOT)}
    return {"command": sys.executable, "args": ["-m", "tests.gate.upstream_server"], "env": environment}


@dataclass
class HttpGateway:
    """A gateway that is being served; `seen` holds every byte that clients made with `client` received."""

    url: str
    gateway: Gateway
    issuer: TestIssuer
    seen: bytearray = field(default_factory=bytearray)

    @asynccontextmanager
    async def client(self, *extensions: Any, sub: str = "alice", **options: Any) -> AsyncIterator[Client]:
        """The SDK's client with a bearer token of `sub`."""
        headers = {"authorization": f"Bearer {self.issuer.token(sub, client=options.pop('client', 'agent-7'))}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=20, transport=_Recording(self.seen)) as http,
            Client(streamable_http_client(self.url, http_client=http), extensions=extensions, **options) as client,
        ):
            yield client

    async def post(
        self, method: str, params: dict[str, Any], *, token: str | None = None, tasks: bool = True, **headers: str
    ) -> httpx2.Response:
        """One raw JSON-RPC request of the 2026 protocol."""
        capabilities: dict[str, Any] = {"extensions": {TASKS: {}}} if tasks else {}
        meta = {
            META + "protocolVersion": VERSION,
            META + "clientCapabilities": capabilities,
            META + "clientInfo": {"name": "raw", "version": "1"},
        }
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
        sent = {
            "accept": "application/json, text/event-stream",
            "content-type": "application/json",
            "mcp-protocol-version": VERSION,
            "mcp-method": method,
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        if token is not None:
            sent["authorization"] = f"Bearer {token}"
        async with httpx2.AsyncClient(timeout=20) as http:
            return await http.post(self.url, content=json.dumps(body), headers=sent)


class _Recording(httpx2.AsyncBaseTransport):
    """Keeps a copy of every byte that comes back."""

    def __init__(self, seen: bytearray) -> None:
        self._inner = httpx2.AsyncHTTPTransport()
        self._seen = seen

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await self._inner.handle_async_request(request)
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        self._seen += repr(response.headers.raw).encode()
        return httpx2.Response(
            response.status_code, headers=response.headers, stream=_Copied(response.stream, self._seen)
        )

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Copied(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream, seen: bytearray) -> None:
        self._inner = inner
        self._seen = seen

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._inner:
            self._seen += chunk
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()


def gateway_settings(world: World, jwks: str, **changes: Any) -> GateSettings:
    """Settings of a gateway with an HTTP front."""
    return world.settings(
        **{
            "front": {"http": "127.0.0.1:0"},
            "stdio": None,
            "resource": RESOURCE,
            "issuers": [{"issuer": ISSUER, "jwks_uri": f"{jwks}/jwks.json"}],
            "insecure_loopback": True,
            **changes,
        }
    )


@asynccontextmanager
async def http_gateway(world: World, **changes: Any) -> AsyncIterator[HttpGateway]:
    """A gateway over real sockets, bounded in time; its upstream is served over HTTP unless `changes` name another."""
    issuer = TestIssuer()
    upstream: MCPServer[Any] = MCPServer("upstream", version="7")
    add_tools(upstream, world.directory / "effects")
    with anyio.fail_after(60):
        async with serving(key_set_app(issuer)) as jwks, serving(upstream.streamable_http_app()) as behind:
            settings = gateway_settings(world, jwks, **{"upstream": {"url": f"{behind}/mcp"}, **changes})
            gateway = build(settings, parts=world.parts(settings))
            async with serving(http_app(gateway)) as base:
                yield HttpGateway(f"{base}/mcp", gateway, issuer)


def key_set_app(issuer: TestIssuer) -> Starlette:
    """Serves the issuer's public keys."""

    async def keys(_: Request) -> Response:
        return JSONResponse(KeySet(list(issuer.keys)).as_dict(private=False))

    return Starlette(routes=[Route("/jwks.json", keys)])
