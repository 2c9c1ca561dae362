"""Listens for callbacks on loopback: keeps every call as it came, and answers as it is told."""

import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from arap_service.conformance.control import Callbacks
from blackbox_kit.hands import ControlInvalid

LARGEST = 1_000_000


@dataclass(frozen=True, slots=True)
class Call:
    """A call as it came; the names of headers are in lower case."""

    headers: Mapping[str, str]
    body: bytes
    is_refused: bool = False


@dataclass(slots=True)
class Listener:
    """What came so far, and the status with which calls are answered."""

    calls: list[Call] = field(default_factory=list)
    status: int = 204

    def about(self, task_id: str) -> list[Call]:
        """The calls that name a task; those about other tasks come from earlier checks, and late."""
        return [call for call in list(self.calls) if task_id.encode() in call.body]


@contextmanager
def listening(callbacks: Callbacks, folder: Path) -> Iterator[Listener]:
    """Listen where the control file says.

    Raises:
        ControlInvalid: Nobody can listen there.
    """
    host, _, port = callbacks.listen.rpartition(":")
    listener = Listener()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = min(int(self.headers.get("content-length") or 0), LARGEST)
            headers = {name.lower(): value for name, value in self.headers.items()}
            listener.calls.append(Call(headers, self.rfile.read(length), listener.status >= 300))
            self.send_response(listener.status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
            """Say nothing."""

    try:
        server = ThreadingHTTPServer((host, int(port)), Handler)
        if callbacks.certificate is not None and callbacks.key is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(folder / callbacks.certificate, folder / callbacks.key)
            server.socket = context.wrap_socket(server.socket, server_side=True)
    except (OSError, OverflowError, ssl.SSLError) as error:
        raise ControlInvalid(f"callbacks: cannot listen on {callbacks.listen} ({type(error).__name__})") from None
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield listener
    finally:
        server.shutdown()
        server.server_close()
