"""Runs the application on a socket of ours until it is told to stop.

The port is taken before anything else starts, so that a taken port is one clear line. A supervisor may hold our
standard input: when that ends, so do we, however the supervisor died. Stopping is graceful and leaves with status 0.
"""

import os
import signal
import socket
import ssl
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import Final

import structlog
import uvicorn

from arap_service import tracing
from arap_service.app import create_app
from arap_service.checkpoints import killing
from arap_service.context import Context
from arap_service.http1 import BoundedHttp
from arap_service.monitoring import monitored
from arap_service.settings import Settings
from arap_service.settings_parts import TlsSettings, split_bind
from arap_service.surroundings import open_context
from arap_service.yaml_files import SettingsInvalid

STOP_SECONDS: Final = 30.0
"""Long enough for connections (10 s), a database that is locked, and a PostgreSQL that is away."""


class CannotListen(Exception):
    """The address is not to be had; the text says why."""


def bound(bind: str, *, key: str = "bind") -> socket.socket:
    """A socket that listens on `bind`, which stands under `key` in the configuration.

    Raises:
        CannotListen: Somebody else has it, or it is not ours to have.
    """
    host, port = split_bind(bind)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        reason = error.strerror or "it is no address of this machine"
        raise CannotListen(
            f"{key}: cannot listen on {bind} ({reason}); choose another address or stop its owner"
        ) from None
    # asyncio does this for sockets of its own only; without it every answer waits 40 ms for the caller's kernel.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


class Server(uvicorn.Server):
    """A server that says on standard output when it is ready, and calls `stopping` when it begins to stop."""

    def __init__(
        self, config: uvicorn.Config, *, announce: Callable[[], None], stopping: Callable[[], object] = lambda: None
    ) -> None:
        super().__init__(config)
        self._announce = announce
        self._stopping = stopping

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then say so."""
        await super().startup(sockets)
        if self.started:
            self._announce()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop, having said so."""
        self._stopping()
        await super().shutdown(sockets)


def end_within(seconds: float = STOP_SECONDS, *, give_up: Callable[[], None] = lambda: os._exit(1)) -> threading.Timer:
    """Call `give_up` in `seconds` unless the process has ended by then; what was left undone is in the database."""

    def late() -> None:
        structlog.get_logger("arap").error("stop_forced", seconds=seconds)
        give_up()

    timer = threading.Timer(seconds, late)
    timer.daemon = True
    timer.start()
    return timer


async def serve(
    settings: Settings, *, die_with_stdin: bool = False, stopping: Callable[[], object] = lambda: None
) -> None:
    """Serve until stopped by a signal or, with `die_with_stdin`, by the end of standard input.

    `stopping` is called when that begins; `end_within` makes sure that a database that hangs does not keep us.

    Raises:
        CannotListen, SettingsInvalid, PolicyInvalid, StoreUnavailable, OSError: It could not start.
    """
    tls = tls_context(settings.tls)
    tracing.configure(settings.trace_collector)
    with ExitStack() as sockets:
        listening = sockets.enter_context(bound(settings.bind))
        watching = None
        if settings.metrics_bind is not None:
            watching = sockets.enter_context(bound(settings.metrics_bind, key="metrics_bind"))
        context = await open_context(settings, checkpoint=killing(os.environ.get("ARAP_KILL_AT")))
        try:
            async with monitored(context, watching):
                await _run(context, listening, tls=tls, die_with_stdin=die_with_stdin, stopping=stopping)
        finally:
            await context.aclose()


def tls_context(tls: TlsSettings | None) -> ssl.SSLContext | None:
    """How TLS is spoken, or None where it is not.

    Raises:
        SettingsInvalid: The certificate or the key cannot be used.
    """
    if tls is None:
        return None
    found = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        found.load_cert_chain(tls.certificate, tls.key, password=lambda: "")
    except OSError:  # ssl.SSLError is one, and says nothing that a reader of the configuration could use
        raise SettingsInvalid(
            ("tls: certificate and key must be PEM files that belong together, the key without a passphrase",)
        ) from None
    return found


async def _run(
    context: Context,
    listening: socket.socket,
    *,
    tls: ssl.SSLContext | None,
    die_with_stdin: bool,
    stopping: Callable[[], object],
) -> None:
    app = create_app(context, background=True)
    config = uvicorn.Config(
        app,
        http=BoundedHttp,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        lifespan="on",
        timeout_graceful_shutdown=10,
        ssl_context_factory=None if tls is None else lambda *_: tls,
    )
    scheme = "http" if tls is None else "https"

    def stop() -> None:
        app.state.streams.close()  # they would never end, and be waited for
        stopping()

    server = Server(config, announce=lambda: _announce(listening, scheme=scheme), stopping=stop)
    if die_with_stdin:
        threading.Thread(target=_watch_stdin, args=(server,), name="arap-stdin", daemon=True).start()
    # uvicorn raises the signal again once it has stopped; by then there is nothing left to interrupt.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    await server.serve(sockets=[listening])


def _announce(listening: socket.socket, *, scheme: str) -> None:
    host, port = listening.getsockname()[:2]
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    print(f"arap: listening on {scheme}://{address}", flush=True)  # noqa: T201 - what a supervisor waits for


def _watch_stdin(server: Server) -> None:
    # Not through sys.stdin: this thread would hold its lock when the process ends, and Python aborts then.
    while os.read(sys.stdin.fileno(), 4096):
        pass
    server.should_exit = True
