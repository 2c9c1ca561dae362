"""The HTTP channel to a decision point and its access request service: which hosts, which credentials, how much.

Nothing is sent, and no credential leaves, unless the URL's origin is that of the metadata or one that the operator
lists (ARAP, Check the URLs). Redirects are never followed, responses are bounded, JSON is read strictly, and neither
bodies nor tokens reach a log or an error.
"""

import base64
import email.utils
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Generic, TypeVar
from urllib.parse import quote, urlencode, urlsplit, urlunsplit

import anyio
import httpx2
import stamina
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from pydantic import JsonValue

from arap_service.protocol.canonical import InvalidJson, strict_loads
from mcp_gate.settings import Backend
from mcp_gate.values import is_secure

WELL_KNOWN: Final = "/.well-known/authzen-configuration"
RESPONSE_LIMIT: Final = 1024 * 1024
METADATA_LIVES: Final = timedelta(hours=1)
TOKEN_MARGIN: Final = timedelta(seconds=30)
RETRY_AFTER_LIMIT: Final = 86_400.0
_W3C: Final = TraceContextTextMapPropagator()

T = TypeVar("T")


class ChannelUnavailable(Exception):
    """No usable answer: not reachable, not in time, not trusted, or not the shape that the specification gives it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP response, read whole; `retry_after` in seconds."""

    status: int
    body: bytes
    retry_after: float | None

    def json(self) -> Mapping[str, JsonValue]:
        """The body as a JSON object.

        Raises:
            ChannelUnavailable: it is none.
        """
        try:
            value = strict_loads(self.body)
        except InvalidJson:
            raise ChannelUnavailable("not JSON") from None
        if not isinstance(value, dict):
            raise ChannelUnavailable("not a JSON object")
        return value


@dataclass(frozen=True, slots=True)
class Metadata:
    """What we use of the decision point's metadata; both URLs have a trusted origin."""

    evaluation_endpoint: str
    request_endpoint: str | None


class Channel:
    """Requests to one backend under the gate's own identity."""

    def __init__(
        self,
        settings: Backend,
        *,
        http: httpx2.AsyncClient,
        clock: Callable[[], datetime],
        insecure_loopback: bool = False,
    ) -> None:
        self._settings = settings
        self._http = http
        self._clock = clock
        self._insecure_loopback = insecure_loopback
        self._trusted = frozenset(
            origin(url) for url in (settings.identifier, *settings.trusted_origins) if origin(url) is not None
        )
        self._metadata: tuple[datetime, Metadata] | None = None
        self._token: tuple[datetime, str] | None = None
        self._metadata_fetch = Shared(self._fetch_metadata)
        self._token_fetch = Shared(self._fetch_token)

    def is_trusted(self, url: object) -> bool:
        """Whether something may be fetched from, or sent to, `url` (PEP-32, PEP-33)."""
        if not isinstance(url, str) or not is_secure(url, insecure_loopback=self._insecure_loopback):
            return False
        return origin(url) in self._trusted

    async def metadata(self) -> Metadata:
        """The decision point's metadata, fetched even when a denial names an endpoint of its own (PEP-32).

        Raises:
            ChannelUnavailable: it cannot be had, or is not that of the configured identifier.
        """
        if self._metadata is None or self._clock() - self._metadata[0] >= METADATA_LIVES:
            self._metadata = await self._metadata_fetch.get()
        return self._metadata[1]

    async def _fetch_metadata(self) -> tuple[datetime, Metadata]:
        now = self._clock()
        answer = await self._exchange("GET", metadata_url(self._settings.identifier), headers={})
        document = answer.json() if answer.status == 200 else {}
        if document.get("policy_decision_point") != self._settings.identifier:
            raise ChannelUnavailable("metadata of another decision point")
        evaluation, request = document.get("access_evaluation_endpoint"), document.get("access_request_endpoint")
        if not isinstance(evaluation, str) or not self.is_trusted(evaluation):
            raise ChannelUnavailable("evaluation endpoint is not trusted")
        usable = isinstance(request, str) and self.is_trusted(request)
        return now, Metadata(evaluation, request if usable and isinstance(request, str) else None)

    async def send(
        self, method: str, url: str, *, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """One authenticated exchange; a 401 is tried once more with a new token.

        Raises:
            ChannelUnavailable: the origin is not trusted, or no answer came.
        """
        if not self.is_trusted(url):
            raise ChannelUnavailable("origin is not trusted")
        answer = await self._exchange(method, url, body=body, headers={**(headers or {}), **await self._credentials()})
        if answer.status == 401 and self._settings.client_id is not None:
            self._token = None
            answer = await self._exchange(
                method, url, body=body, headers={**(headers or {}), **await self._credentials()}
            )
        return answer

    async def _credentials(self) -> dict[str, str]:
        if self._settings.client_id is None or self._settings.client_secret is None:
            return {}
        if self._token is None or self._clock() >= self._token[0]:
            self._token = await self._token_fetch.get()
        return {"authorization": f"Bearer {self._token[1]}"}

    async def _fetch_token(self) -> tuple[datetime, str]:
        settings, now = self._settings, self._clock()
        url = settings.token_endpoint or settings.identifier.rstrip("/") + "/issuer/token"
        secret = settings.client_secret.get_secret_value() if settings.client_secret else ""
        form = {"grant_type": "client_credentials", **({} if settings.scope is None else {"scope": settings.scope})}
        pair = f"{quote(settings.client_id or '', safe='')}:{quote(secret, safe='')}"
        headers = {
            "accept": "application/json",
            "authorization": "Basic " + base64.b64encode(pair.encode()).decode(),
            "content-type": "application/x-www-form-urlencoded",
        }
        try:
            answer = await self._once("POST", url, body=urlencode(form).encode(), headers=headers)
        except (httpx2.HTTPError, TimeoutError) as error:
            raise ChannelUnavailable(type(error).__name__) from None
        document = answer.json() if answer.status == 200 else {}
        token, lifetime = document.get("access_token"), document.get("expires_in", 60)
        if not isinstance(token, str) or not token.isascii() or isinstance(lifetime, bool):
            raise ChannelUnavailable("no access token")
        seconds = float(lifetime) if isinstance(lifetime, int | float) else 60.0
        return now + max(timedelta(seconds=seconds) - TOKEN_MARGIN, timedelta(seconds=1)), token

    async def _exchange(
        self, method: str, url: str, *, headers: Mapping[str, str], body: bytes | None = None
    ) -> Answer:
        sent = {"accept": "application/json, application/problem+json", **headers}
        _W3C.inject(sent)  # the trace of the call, if there is one; never baggage
        if body is not None:
            sent["content-type"] = "application/json"
        try:
            async for attempt in stamina.retry_context(
                on=httpx2.TransportError, attempts=2, timeout=self._settings.timeout_seconds, wait_initial=0.05
            ):
                with attempt:
                    return await self._once(method, url, body=body, headers=sent)
        except (httpx2.HTTPError, TimeoutError) as error:
            raise ChannelUnavailable(type(error).__name__) from None
        raise ChannelUnavailable("no attempt was made")

    async def _once(self, method: str, url: str, *, body: bytes | None, headers: Mapping[str, str]) -> Answer:
        with anyio.fail_after(self._settings.timeout_seconds):
            async with self._http.stream(
                method, url, content=body, headers=dict(headers), follow_redirects=False
            ) as response:
                content = bytearray()
                async for chunk in response.aiter_bytes():
                    content += chunk
                    if len(content) > RESPONSE_LIMIT:
                        raise ChannelUnavailable("response is too large")
                wait = _retry_after(response.headers.get("retry-after"), now=self._clock())
                return Answer(response.status_code, bytes(content), wait)


class Shared(Generic[T]):
    """One fetch at a time, whose result or failure is that of all who wait for it; nobody waits for a second one."""

    def __init__(self, fetch: Callable[[], Awaitable[T]]) -> None:
        self._fetch = fetch
        self._flight: _Flight[T] | None = None

    async def get(self) -> T:
        """What the fetch that is under way brings, or a new one.

        Raises:
            ChannelUnavailable: it brought nothing.
        """
        while (flight := self._flight) is not None:
            await flight.landed.wait()
            if flight.failure is not None:
                raise ChannelUnavailable(flight.failure)
            if flight.value is not None:
                return flight.value
            # Whoever fetched was cancelled; somebody else has to.
        return await self._fly()

    async def _fly(self) -> T:
        flight = self._flight = _Flight()
        try:
            flight.value = await self._fetch()
        except ChannelUnavailable as error:
            flight.failure = str(error)
            raise
        finally:
            self._flight = None
            flight.landed.set()
        return flight.value


class _Flight(Generic[T]):
    def __init__(self) -> None:
        self.landed = anyio.Event()
        self.value: T | None = None
        self.failure: str | None = None


def metadata_url(identifier: str) -> str:
    """Where the metadata of a decision point is: the well-known path goes before the identifier's own path."""
    parts = urlsplit(identifier)
    return urlunsplit((parts.scheme, parts.netloc, WELL_KNOWN + parts.path.rstrip("/"), "", ""))


def origin(url: str) -> tuple[str, str, int] | None:
    """Scheme, host and port of `url`, or None when it has none or carries user information."""
    try:
        parts = urlsplit(url)
        port = parts.port or {"https": 443, "http": 80}.get(parts.scheme)
    except ValueError:
        return None
    if not parts.hostname or port is None or parts.username is not None or parts.password is not None:
        return None
    return parts.scheme, parts.hostname, port


def _retry_after(value: str | None, *, now: datetime) -> float | None:
    if value is None:
        return None
    text = value.strip()
    if text.isascii() and text.isdigit():
        return min(float(text), RETRY_AFTER_LIMIT)
    try:
        at = email.utils.parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError):
        return None
    moment = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
    return min(max((moment - now).total_seconds(), 0.0), RETRY_AFTER_LIMIT)


@asynccontextmanager
async def open_http(*, timeout_seconds: float) -> AsyncIterator[httpx2.AsyncClient]:
    """A client that follows no redirect and takes neither proxies nor credentials from the environment."""
    # The client logs every URL, and a status endpoint is a handle that belongs in no ordinary log (PEP-131).
    logging.getLogger("httpx2").setLevel(logging.WARNING)
    limits = httpx2.Limits(max_connections=64, max_keepalive_connections=16)
    async with httpx2.AsyncClient(
        timeout=httpx2.Timeout(timeout_seconds), follow_redirects=False, trust_env=False, limits=limits
    ) as client:
        yield client


def text_or_none(value: Any) -> str | None:
    """`value` when it is text."""
    return value if isinstance(value, str) else None
