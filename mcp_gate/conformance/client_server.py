"""A scripted server for a client under test: one tool, whose call becomes a task that ends as the script says.

Speaks the present protocol over HTTP on loopback, and remembers what it was asked; a client of the handshake era is
told that only the present protocol is spoken.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from mcp_gate.conformance.model import Exchange, Json
from mcp_gate.conformance.wire import APPROVAL, DISPOSITION, MODERN, PREFIX, TASKS

TOOL: Final = "transfer"
TASK_ID: Final = "tsk_5f1c7d0e9a3b4c62a8d1e7f0"
LOOKS_BEFORE_END: Final = 2
CREATED: Final = "2026-01-01T00:00:00Z"


@dataclass(slots=True)
class Script:
    """How the task ends, and what the client did."""

    disposition: str
    text: str
    is_error: bool
    exchanges: list[Exchange] = field(default_factory=list)
    looks: int = 0

    def asked(self, method: str) -> int:
        """How often the client sent a request of this method."""
        return sum(one.sent.get("method") == method for one in self.exchanges)

    @property
    def is_over(self) -> bool:
        """Whether the client was shown the end."""
        return self.looks > LOOKS_BEFORE_END

    def answer(self, request: Json) -> Json:
        """The result of a request, or its error."""
        params = request.get("params") if isinstance(request.get("params"), dict) else {}
        match request.get("method"):
            case "server/discover":
                return {"result": {**_DISCOVERED}}
            case "tools/list":
                return {"result": {"resultType": "complete", "tools": [_LISTED], "ttlMs": 0, "cacheScope": "private"}}
            case "tools/call":
                return {"result": {"resultType": "task", **self._task("working")}}
            case "tasks/get" if isinstance(params, dict) and params.get("taskId") == TASK_ID:
                self.looks += 1
                return {"result": {"resultType": "complete", **self._state()}}
            case "tasks/cancel" | "tasks/update":
                return {"result": {"resultType": "complete"}}
            case "initialize":
                return {"error": {"code": -32022, "message": "Unsupported protocol version", "data": _VERSIONS}}
        return {"error": {"code": -32601, "message": "Method not found"}}

    def _state(self) -> Json:
        if not self.is_over:
            return self._task("working")
        result = {
            "resultType": "complete",
            "content": [{"type": "text", "text": self.text}],
            "isError": self.is_error,
            "_meta": {DISPOSITION: self.disposition},
        }
        return {**self._task("completed"), "result": result}

    @staticmethod
    def _task(status: str) -> Json:
        return {
            "taskId": TASK_ID,
            "status": status,
            "statusMessage": "Waiting for a decision. The tool has not run." if status == "working" else "Ended.",
            "createdAt": CREATED,
            "lastUpdatedAt": CREATED,
            "ttlMs": 86_400_000,
            "pollIntervalMs": 50,
        }


_VERSIONS: Final[Json] = {"supported": [MODERN], "requested": "2025-11-25"}
_DISCOVERED: Final[Json] = {
    "resultType": "complete",
    "supportedVersions": [MODERN],
    "capabilities": {"tools": {}, "extensions": {TASKS: {}, APPROVAL: {}}},
    "serverInfo": {"name": "sep-2848-script", "version": "1"},
    "ttlMs": 0,
    "cacheScope": "private",
}
_LISTED: Final[Json] = {
    "name": TOOL,
    "description": "Transfer money.",
    "inputSchema": {"type": "object", "properties": {"to": {"type": "string"}}},
}


@contextmanager
def scripted(script: Script) -> Iterator[str]:
    """The URL at which the script is played, on a free port of loopback."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            length = int(self.headers.get("content-length") or 0)
            try:
                request: Any = json.loads(self.rfile.read(length))
            except ValueError:
                request = None
            if not isinstance(request, dict) or "id" not in request:
                self._send(202, b"")
                return
            answer = {"jsonrpc": "2.0", "id": request["id"], **_stamped(script.answer(request))}
            script.exchanges.append(Exchange(request, answer))
            self._send(400 if "error" in answer else 200, json.dumps(answer).encode())

        def do_GET(self) -> None:
            self._send(405, b"")

        def _send(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/mcp"
        finally:
            server.shutdown()
            thread.join(5)


def _stamped(answer: Json) -> Json:
    if "result" not in answer:
        return answer
    meta = {PREFIX + "serverInfo": _DISCOVERED["serverInfo"]}
    return {"result": {**answer["result"], "_meta": {**answer["result"].get("_meta", {}), **meta}}}
