"""The hand-written service as an HTTP client sees it, without sockets: what stands where a client of httpx2 would.

Many services are tried one after the other; requests over a real stack would take most of the time.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlsplit

from tests.arap_conformance.subject import PlainService
from tests.arap_conformance.subject_web import Asked, answered, body_of


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
    """Sends requests to a service in this process."""

    def __init__(self, service: PlainService) -> None:
        self._service = service

    @asynccontextmanager
    async def stream(
        self, method: str, url: str, *, content: bytes | None, headers: Mapping[str, str]
    ) -> AsyncIterator[Response]:
        """The answer to a request."""
        place = urlsplit(url)
        known = {name.lower(): value for name, value in headers.items()}
        query = dict(parse_qsl(place.query, keep_blank_values=True))
        answer = await answered(self._service, Asked(method, place.path, query, known, content or b""))
        kind = {} if answer.body is None else {"content-type": answer.kind}
        yield Response(answer.status, {**answer.headers, **kind}, body_of(answer))
