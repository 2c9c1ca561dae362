"""The control interface of what is tested here: a verb for each POST under /control/, and the issuer's key set."""

import json
import socket
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

HOST: Final = "127.0.0.1"
UNKNOWN: Final = (404, "no such verb")
Answer = tuple[int, str]
"""An HTTP status and a text."""
Hear = Callable[[str, Mapping[str, str]], Answer]
"""What answers a verb with its parameters."""


def controlling(hear: Hear, listener: socket.socket, keys: dict[str, Any]) -> ThreadingHTTPServer:
    """A server on the socket that listens already; whoever calls it starts and ends it."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._send(200 if self.path == "/jwks.json" else 404, json.dumps(keys))

        def do_POST(self) -> None:
            asked = urlsplit(self.path)
            self._send(*hear(asked.path.removeprefix("/control/"), dict(parse_qsl(asked.query))))

        def _send(self, status: int, text: str) -> None:
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
            """Say nothing."""

    server = ThreadingHTTPServer((HOST, 0), Handler, bind_and_activate=False)
    server.socket.close()
    server.socket = listener
    server.server_address = listener.getsockname()
    return server
