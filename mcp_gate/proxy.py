"""The gateway: an MCP server that forwards to one or several others, with the gate before whatever reaches them.

Forwards tools, resources, prompts and completions with their metadata, results and errors as they are, and what the
servers announce. No token of a caller reaches an upstream. Design section 2;
COAZ, "Token Integrity".
"""

import os
import shutil
import signal
import socket
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TextIO, cast
from urllib.parse import urlsplit

import anyio
import httpx2
import structlog
import uvicorn
from mcp import types
from mcp.server.auth.settings import AuthSettings
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPError
from pydantic import AnyHttpUrl
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mcp_gate import callbacks
from mcp_gate.errors import Unavailable
from mcp_gate.extension import Gate
from mcp_gate.fleet import Fleet
from mcp_gate.forwarding import Forward
from mcp_gate.front_auth import JwtVerifier
from mcp_gate.runtime import Parts
from mcp_gate.settings import ConfigurationInvalid, GateSettings
from mcp_gate.settings_tools import ToolSettings
from mcp_gate.settings_tools import Upstream as UpstreamSettings
from mcp_gate.strict import StrictBodies, StrictLines
from mcp_gate.tools import KnownTool, known

UPSTREAM_SILENT: Final = "The server behind the gateway does not answer; the tool did not run"
GRACEFUL_SECONDS: Final = 10
STOP_SECONDS: Final = 90.0
"""Long enough for connections, for the tools that are waited for (30 s), and for a database that is locked."""

log = structlog.get_logger(__name__)


class UpstreamTools:
    """The tools of the servers behind the gateway, as they were listed last."""

    def __init__(self, fleet: Fleet, settings: dict[str, ToolSettings]) -> None:
        self._fleet = fleet
        self._settings = settings
        self._cache: dict[str, tuple[types.Tool, KnownTool]] = {}

    async def find(self, name: str, *, fresh: bool = False) -> KnownTool | None:
        """The tool `name`; an unknown one makes us list again.

        An upstream may be replaced without a word, so what an approval is compared with has to be `fresh` (PEP-105).

        Raises:
            Unavailable: the upstream cannot be asked, which is no proof that the tool is gone.
        """
        if fresh or self._fleet.tool(name) is None:
            try:
                await self._fleet.refresh(name)
            except MCPError:
                raise Unavailable(UPSTREAM_SILENT) from None
        tool = self._fleet.tool(name)
        if tool is None:
            return None
        hit = self._cache.get(name)
        if hit is None or hit[0] is not tool:
            shown = tool if tool.name == name else tool.model_copy(update={"name": name})
            hit = self._cache[name] = (tool, known(shown, self._settings.get(name)))
        return hit[1]


@dataclass(frozen=True, slots=True)
class Gateway:
    """A gateway that is wired but not yet served."""

    settings: GateSettings
    gate: Gate
    server: Server[Any]
    fleet: Fleet
    http: httpx2.AsyncClient


def build(settings: GateSettings, *, parts: Parts | None = None) -> Gateway:
    """Wire a gateway.

    Raises:
        ConfigurationInvalid: no upstream is configured.
    """
    if not settings.behind:
        raise ConfigurationInvalid("upstream is missing: give a `command` or a `url` to stand before")
    for name, upstream in settings.behind.items():
        require_command(upstream, key=f"upstreams.{name}" if name else "upstream")
    fleet = Fleet(settings.behind, name=settings.server_name)
    given = parts or Parts()
    gate = Gate(settings, parts=given.with_catalogue(UpstreamTools(fleet, dict(settings.tools))))

    http = httpx2.AsyncClient(timeout=httpx2.Timeout(10), follow_redirects=False, trust_env=False)

    @asynccontextmanager
    async def connected(_: Any) -> AsyncIterator[dict[str, Any]]:
        try:
            async with anyio.create_task_group() as group:
                await group.start(fleet.run)
                forward.install(server)
                # A server that comes later, or anew, may have what none had before.
                forget = fleet.bus.subscribe(lambda _: forward.install(server))
                yield {}
                forget()
                forward.close()
                group.cancel_scope.cancel()
        finally:
            await http.aclose()

    forward = Forward(fleet)
    server: Server[Any] = Server(
        settings.server_name,
        on_list_tools=forward.list_tools,
        on_call_tool=forward.call_tool,
        on_subscriptions_listen=forward.listen,
        get_tool_input_schema=forward.input_schema,
        lifespan=gate.lifespan(connected),
    )
    gate.bind(server)
    return Gateway(settings, gate, server, fleet, http)


def require_command(upstream: UpstreamSettings, *, key: str = "upstream") -> None:
    """Find the program of a stdio upstream before a client waits for it.

    Raises:
        ConfigurationInvalid: there is no such program.
    """
    if upstream.command is None:
        return
    here = Path(upstream.cwd or ".")
    named = str(here / upstream.command) if "/" in upstream.command else upstream.command
    if shutil.which(named, path=upstream.env.get("PATH")) is None:
        raise ConfigurationInvalid(
            f"{key}.command: {upstream.command} is not a program that can be run; install it or give its path"
        )


def http_app(gateway: Gateway, *, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> Starlette:
    """The gateway as an ASGI application, with bearer tokens verified and the callback endpoint beside it."""
    settings = gateway.settings
    host, _ = settings.front.bind()
    auth, verifier = _authentication(settings, http=gateway.http, clock=clock)
    routes = [Route("/healthz", _alive, methods=["GET"])]
    most = settings.limits.argument_bytes + 65_536
    if settings.callback is not None:
        routes.append(callbacks.route(gateway.gate.receive_callback))
    app = gateway.server.streamable_http_app(
        streamable_http_path=settings.front.path,
        host=host,
        auth=auth,
        token_verifier=verifier,
        transport_security=_host_protection(settings),
        custom_starlette_routes=routes,
        max_request_body_size=most,
    )
    # Innermost, so that the SDK's authentication comes first.
    app.user_middleware.append(Middleware(StrictBodies, path=settings.front.path, limit=most))
    return app


def _authentication(
    settings: GateSettings, *, http: httpx2.AsyncClient, clock: Callable[[], datetime]
) -> tuple[AuthSettings | None, JwtVerifier | None]:
    if not settings.issuers or settings.resource is None:
        return None, None  # the settings allow that for an anonymous principal on loopback alone
    auth = AuthSettings(
        issuer_url=AnyHttpUrl(settings.issuers[0].issuer),
        resource_server_url=AnyHttpUrl(settings.resource),
        validate_token_resource=True,
        required_scopes=list(settings.front.required_scopes) or None,
    )
    verifier = JwtVerifier(
        settings.issuers,
        resource=settings.resource,
        http=http,
        clock=clock,
        leeway_seconds=settings.clock_skew_seconds,
    )
    return auth, verifier


def _host_protection(settings: GateSettings) -> TransportSecuritySettings:
    host, port = settings.front.bind()
    names = [f"{host}:{port}", f"{host}:*", "localhost:*", "127.0.0.1:*", "[::1]:*", *settings.front.allowed_hosts]
    if settings.resource is not None:
        public = urlsplit(settings.resource)
        names += [public.netloc, f"{public.hostname}:*"]
    origins = [f"{scheme}://{name}" for name in names for scheme in ("http", "https")]
    return TransportSecuritySettings(enable_dns_rebinding_protection=True, allowed_hosts=names, allowed_origins=origins)


async def _alive(_: Request) -> Response:
    return JSONResponse({"status": "ok"})


class GatewayBroken(Exception):
    """What the gateway does in the background has ended, and so nothing could be answered any more."""


class _Server(uvicorn.Server):
    """A server that doesn't outlive what works behind it, so that whoever watches the process can start it again.

    `stopping` is called when it begins to stop.
    """

    def __init__(self, config: uvicorn.Config, *, stopping: Callable[[], object]) -> None:
        super().__init__(config)
        self._stopping = stopping

    @property
    def is_broken(self) -> bool:
        return bool(getattr(self.lifespan, "error_occurred", False))

    async def on_tick(self, counter: int) -> bool:
        return await super().on_tick(counter) or self.is_broken

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._stopping()
        await super().shutdown(sockets)


def end_within(seconds: float = STOP_SECONDS, *, give_up: Callable[[], None] = lambda: os._exit(1)) -> threading.Timer:
    """Call `give_up` in `seconds` unless the process has ended by then.

    A tool that runs is waited for, then its outcome is stored; only a database that hangs for good takes longer, and
    then the next process finds what there is to find.
    """

    def late() -> None:
        log.error("stop_forced", seconds=seconds)
        give_up()

    timer = threading.Timer(seconds, late)
    timer.daemon = True
    timer.start()
    return timer


async def serve(
    gateway: Gateway, *, die_with_stdin: bool = False, stopping: Callable[[], object] = lambda: None
) -> None:
    """Serve the gateway on its front until it is told to stop; `stopping` is called when that begins.

    Raises:
        GatewayBroken: It stopped by itself.
    """
    if gateway.settings.front.stdio:
        await _serve_stdio(gateway.server)
        return
    host, port = gateway.settings.front.bind()
    config = uvicorn.Config(
        http_app(gateway),
        host=host,
        port=port,
        http="h11",  # the parser that bounds heads; another one may be installed beside it
        log_config=None,
        access_log=False,
        lifespan="on",  # else the end of what works behind the server is not even logged
        timeout_graceful_shutdown=GRACEFUL_SECONDS,
    )
    server = _Server(config, stopping=stopping)
    if die_with_stdin:
        threading.Thread(target=_exit_with_stdin, args=(server,), daemon=True).start()
    # uvicorn raises the signal again once it has stopped; by then there is nothing left to interrupt.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    with _listening(gateway.settings) as listener:
        await server.serve(sockets=[listener])
    if server.is_broken:
        raise GatewayBroken("the gateway stopped because its work could not go on; the log says why")


async def _serve_stdio(server: Server[Any]) -> None:
    lines = StrictLines(anyio.wrap_file(_own_stdin()))
    async with stdio_server(stdin=cast("anyio.AsyncFile[str]", lines)) as (read, write):
        lines.bind(write.send)
        await server.run(read, write, server.create_initialization_options())


def _own_stdin() -> TextIO:
    """The text of stdin, which nothing else in this process or started by it can read from then on."""
    private = os.dup(sys.stdin.fileno())
    with Path(os.devnull).open(encoding="ascii") as nothing:
        os.dup2(nothing.fileno(), sys.stdin.fileno())
    # Never closed: a thread may still be reading from it when the server has ended.
    return os.fdopen(private, encoding="utf-8", errors="replace", closefd=False)


@contextmanager
def _listening(settings: GateSettings) -> Iterator[socket.socket]:
    host, port = settings.front.bind()
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=512)
    except OSError as error:
        raise ConfigurationInvalid(f"front.http: {host}:{port} cannot be used ({error.strerror})") from None
    # asyncio does this for sockets of its own only; without it every answer waits 40 ms for the caller's kernel.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with listener:
        log.info("gateway_listening", host=host, port=listener.getsockname()[1])
        yield listener


def _exit_with_stdin(server: uvicorn.Server) -> None:
    """Stop when the supervisor, who holds the other end of stdin, is gone however it went."""
    # Not through sys.stdin: this thread would hold its lock when the process ends, and Python aborts then.
    while os.read(sys.stdin.fileno(), 4096):
        pass
    server.should_exit = True
