"""Asks another AuthZEN decision point that this one stands before, over pooled connections.

The address comes from the configuration alone; what the other's metadata adds must stay on the same origin, since
credentials go there. No redirects, no proxies, bounded time and answer. Whatever goes wrong is no answer, never an
error of ours: what then holds is decided in `domain/upstream.py`. AuthZEN Authorization API, "Access Evaluation API",
"Search APIs", "Policy Decision Point Metadata".
"""

import json
from collections.abc import AsyncIterator, Callable, Generator, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, Final, Literal
from urllib.parse import urlsplit

import anyio
import httpx2

from arap_service.client import ClientCredentials
from arap_service.domain.upstream import Answer, Silent, read_answer
from arap_service.protocol.canonical import InvalidJson, Tuple4, strict_loads
from arap_service.settings_parts import UpstreamSettings

Clock = Callable[[], datetime]
SearchKind = Literal["subject", "resource", "action"]
FRESH_FOR: Final = timedelta(minutes=10)
RENEW_AFTER: Final = timedelta(seconds=30)
MAX_ANSWER: Final = 1_048_576
_EVALUATION: Final = "access_evaluation_endpoint"
_IDLE_SECONDS: Final = 30.0


class UpstreamUnavailable(Exception):
    """No usable answer came; `code` says why and shows nothing of it."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class NotOffered(Exception):
    """The other decision point has no such endpoint."""


class Upstream:
    """One other decision point; close it when done."""

    def __init__(
        self, settings: UpstreamSettings, *, clock: Clock, transport: httpx2.AsyncBaseTransport | None = None
    ) -> None:
        self._settings = settings
        self._clock = clock
        most = settings.connections
        limits = httpx2.Limits(max_connections=most, max_keepalive_connections=most, keepalive_expiry=_IDLE_SECONDS)
        inner = transport or httpx2.AsyncHTTPTransport(limits=limits, trust_env=False, retries=0)
        self._client = httpx2.AsyncClient(
            transport=_Bounded(inner),
            auth=_auth(settings),
            timeout=settings.timeout_seconds,
            follow_redirects=False,
            trust_env=False,
            headers={"Accept": "application/json", "Accept-Encoding": "identity"},
        )
        self._endpoints: Mapping[str, str] = {}
        self._renewed: datetime | None = None
        self._asked: datetime | None = None
        self._lock = anyio.Lock()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    def batch_deadline(self) -> float:
        """Until when answers are awaited for a batch that starts now, on the clock of the event loop."""
        return anyio.current_time() + self._settings.batch_seconds

    async def ask(self, about: Tuple4, *, deadline: float | None = None) -> Answer:
        """The other's decision, within the configured time and before `deadline` on the clock of the event loop."""
        try:
            endpoint = self._settings.evaluation_endpoint
            document = await self._within(endpoint, _EVALUATION, about._asdict(), deadline)
        except UpstreamUnavailable as error:
            return Silent(error.code)
        except NotOffered:
            return Silent("no_endpoint")
        return read_answer(document)

    async def search(self, kind: SearchKind, request: Mapping[str, Any]) -> dict[str, Any]:
        """The JSON document with which the other answers a search.

        Raises:
            NotOffered: Its metadata names no endpoint for such searches.
            UpstreamUnavailable: No document came in time.
        """
        return await self._within(None, f"search_{kind}_endpoint", request, None)

    async def _within(
        self, endpoint: str | None, name: str, body: Mapping[str, Any], deadline: float | None
    ) -> dict[str, Any]:
        now, seconds = anyio.current_time(), self._settings.timeout_seconds
        remaining = seconds if deadline is None else min(seconds, deadline - now)
        if remaining <= 0:
            raise UpstreamUnavailable("timeout")
        try:
            with anyio.fail_after(remaining):
                return await self._post(endpoint or await self._endpoint(name), body)
        except TimeoutError:
            raise UpstreamUnavailable("timeout") from None

    async def _post(self, url: str, body: Mapping[str, Any]) -> dict[str, Any]:
        content = json.dumps(body, allow_nan=False, separators=(",", ":")).encode()
        return _document(await self._exchange("POST", url, content))

    async def _exchange(self, method: str, url: str, content: bytes | None = None) -> httpx2.Response:
        headers = {} if content is None else {"Content-Type": "application/json"}
        for is_last in (False, True):
            try:
                return await self._client.request(method, url, content=content, headers=headers)
            except httpx2.TimeoutException:
                raise UpstreamUnavailable("timeout") from None
            except (httpx2.NetworkError, httpx2.RemoteProtocolError) as error:
                # Both may close a pooled connection at the same moment; asking changes nothing, so it is done again.
                if is_last:
                    raise UpstreamUnavailable(_kind(error)) from None
            except (httpx2.HTTPError, httpx2.InvalidURL) as error:
                raise UpstreamUnavailable(_kind(error)) from None
        raise AssertionError("the loop returns or raises")

    async def _endpoint(self, name: str) -> str:
        if not self._is_within(self._renewed, FRESH_FOR) and not (
            self._endpoints and self._is_within(self._asked, RENEW_AFTER)
        ):
            await self._renew()
        if name not in self._endpoints:
            raise NotOffered
        return self._endpoints[name]

    async def _renew(self) -> None:
        async with self._lock:
            if self._is_within(self._renewed, FRESH_FOR):
                return  # whoever waited for the lock finds what was fetched meanwhile
            self._asked = self._clock()
            if not self._endpoints:
                self._endpoints = await self._discovered()
            else:
                # What was known stays in use: a decision point that decides need not serve its metadata as well.
                with suppress(UpstreamUnavailable), anyio.move_on_after(self._settings.timeout_seconds / 4):
                    self._endpoints = await self._discovered()
                    self._renewed = self._asked
                return
            self._renewed = self._asked

    async def _discovered(self) -> Mapping[str, str]:
        identifier = self._settings.identifier
        parts = urlsplit(identifier)
        url = f"{parts.scheme}://{parts.netloc}/.well-known/authzen-configuration{parts.path}"
        said = _document(await self._exchange("GET", url))
        if said.get("policy_decision_point") != identifier:
            raise UpstreamUnavailable("identifier")
        endpoints = {name: value for name, value in said.items() if name.endswith("_endpoint")}
        return {
            name: url for name, url in endpoints.items() if isinstance(url, str) and _origin(url) == _origin(identifier)
        }

    def _is_within(self, moment: datetime | None, span: timedelta) -> bool:
        return moment is not None and abs(self._clock() - moment) <= span


class _Bearer(httpx2.Auth):
    def __init__(self, token: str) -> None:
        self._token = token

    def auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response, None]:
        request.headers["Authorization"] = f"Bearer {self._token}"
        yield request


class _Bounded(httpx2.AsyncBaseTransport):
    """A transport whose answers, those of a token endpoint among them, end with an error at `MAX_ANSWER` bytes."""

    def __init__(self, inner: httpx2.AsyncBaseTransport) -> None:
        self._inner = inner

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await self._inner.handle_async_request(request)
        if not isinstance(response.stream, httpx2.AsyncByteStream):
            return response
        return httpx2.Response(
            response.status_code,
            headers=response.headers,
            stream=_BoundedBody(response.stream),
            extensions=response.extensions,
        )

    async def aclose(self) -> None:
        await self._inner.aclose()


class _BoundedBody(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._inner:
            size += len(chunk)
            if size > MAX_ANSWER:
                raise httpx2.DecodingError("the answer is too large")
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()


def _auth(settings: UpstreamSettings) -> httpx2.Auth | None:
    if settings.bearer is not None:
        return _Bearer(settings.bearer.get_secret_value())
    if settings.client is None:
        return None
    return ClientCredentials(
        settings.client.token_endpoint,
        client_id=settings.client.client_id,
        client_secret=settings.client.client_secret.get_secret_value(),
        scope=settings.client.scope,
    )


def _document(response: httpx2.Response) -> dict[str, Any]:
    if response.status_code != 200:
        raise UpstreamUnavailable(f"status_{response.status_code}")
    try:
        document = strict_loads(response.content)
    except InvalidJson:
        raise UpstreamUnavailable("not_json") from None
    if not isinstance(document, dict):
        raise UpstreamUnavailable("not_an_object")
    return document


def _origin(url: str) -> tuple[str, str | None, int | None] | None:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    if parts.username is not None or parts.password is not None:
        return None
    return parts.scheme, parts.hostname, port or {"https": 443, "http": 80}.get(parts.scheme)


def _kind(error: Exception) -> str:
    if isinstance(error, httpx2.DecodingError):
        return "too_large"
    return "connect" if isinstance(error, httpx2.ConnectError) else "exchange"
