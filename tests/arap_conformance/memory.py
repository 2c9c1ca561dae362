"""The hand-written service as an HTTP client sees it, without sockets: what stands where a client of httpx2 would.

Many services are tried one after the other; requests over a real stack would take most of the time.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message


@dataclass
class Response:
    """What came, as much as is looked at."""

    status_code: int
    headers: Mapping[str, str]
    content: bytes

    async def aiter_bytes(self) -> AsyncIterator[bytes]:
        """All of it at once."""
        yield self.content


class MemoryClient:
    """Sends requests to an application in this process."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    @asynccontextmanager
    async def stream(
        self, method: str, url: str, *, content: bytes | None, headers: Mapping[str, str]
    ) -> AsyncIterator[Response]:
        """The answer to a request."""
        place = urlsplit(url)
        scope: dict[str, Any] = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": place.scheme,
            "path": place.path,
            "raw_path": place.path.encode(),
            "query_string": place.query.encode(),
            "root_path": "",
            "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
            "server": (place.hostname, place.port or 443),
            "client": ("memory", 1),
        }
        sent: list[Message] = []

        async def receive() -> Message:
            return {"type": "http.request", "body": content or b"", "more_body": False}

        async def send(message: Message) -> None:
            sent.append(message)

        await self._app(scope, receive, send)
        found = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
        yield Response(sent[0]["status"], found, b"".join(message.get("body", b"") for message in sent[1:]))
