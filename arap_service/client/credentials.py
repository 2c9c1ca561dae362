"""Authenticates HTTP calls by the client-credentials grant (RFC 6749 section 4.4).

One object serves synchronous and asynchronous clients: `httpx2` drives the same flow for both. A token is kept until
shortly before it ends and asked for again when a server stops accepting it. The secret goes to the token endpoint only.
"""

import base64
import re
import time
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any, Final
from urllib.parse import quote

import httpx2

_EARLY: Final = 30.0
_SHORTEST: Final = 5.0
_UNKNOWN: Final = 60.0
_LONGEST: Final = 86_400.0
_TOKEN: Final = re.compile(r"[\x21-\x7e]+")  # whatever else it is, it goes into a header


class TokenRefused(httpx2.HTTPError):
    """The token endpoint gave no token; `error` is its code, such as `invalid_client`."""

    def __init__(self, status: int, error: str) -> None:
        super().__init__(f"the token endpoint answered {status} ({error})")
        self.status = status
        self.error = error


class ClientCredentials(httpx2.Auth):
    """A token source for the `auth` of an httpx2 client; `now` is a clock in seconds."""

    def __init__(
        self,
        token_endpoint: str,
        *,
        client_id: str,
        client_secret: str,
        scope: str | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._endpoint = token_endpoint
        pair = f"{quote(client_id, safe='')}:{quote(client_secret, safe='')}"
        self._basic = "Basic " + base64.b64encode(pair.encode()).decode()
        self._form = {"grant_type": "client_credentials"} | ({} if scope is None else {"scope": scope})
        self._now = now
        self._token: str | None = None
        self._until = 0.0

    def __repr__(self) -> str:
        return f"ClientCredentials({self._endpoint!r})"

    def sync_auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response, None]:
        """Drive `auth_flow`, reading the answers of the token endpoint only: others may be streams without an end."""
        flow = self.auth_flow(request)
        outgoing = next(flow)
        try:
            while True:
                response = yield outgoing
                if outgoing is not request:
                    response.read()
                try:
                    outgoing = flow.send(response)
                except StopIteration:
                    return
        finally:
            flow.close()

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """See `sync_auth_flow`."""
        flow = self.auth_flow(request)
        outgoing = next(flow)
        try:
            while True:
                response = yield outgoing
                if outgoing is not request:
                    await response.aread()
                try:
                    outgoing = flow.send(response)
                except StopIteration:
                    return
        finally:
            flow.close()

    def auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response, None]:
        """Send `request` with a token, with a new one if the first is not accepted."""
        reused = self._token is not None and self._now() < self._until
        if not reused:
            self._keep((yield self._token_request()))
        request.headers["Authorization"] = f"Bearer {self._token}"
        response = yield request
        if response.status_code == 401 and reused:
            self._token = None
            self._keep((yield self._token_request()))
            request.headers["Authorization"] = f"Bearer {self._token}"
            yield request

    def _token_request(self) -> httpx2.Request:
        return httpx2.Request(
            "POST",
            self._endpoint,
            data=self._form,
            headers={"Authorization": self._basic, "Accept": "application/json"},
        )

    def _keep(self, response: httpx2.Response) -> None:
        body: Any = None
        try:
            body = response.json()
        except (ValueError, RecursionError):
            raise TokenRefused(response.status_code, "not_json") from None
        token = body.get("access_token") if isinstance(body, dict) else None
        if response.status_code != 200 or not isinstance(token, str) or not _TOKEN.fullmatch(token):
            code = body.get("error") if isinstance(body, dict) else None
            raise TokenRefused(response.status_code, code if isinstance(code, str) else "no_token")
        lifetime = _lifetime(body.get("expires_in"))
        self._token = token
        self._until = self._now() + max(lifetime - _EARLY, min(lifetime, _SHORTEST))


def _lifetime(seconds: object) -> float:
    """How long a token may be kept; numbers of any size are allowed in JSON."""
    if not isinstance(seconds, int | float) or seconds != seconds:  # noqa: PLR0124  # Python reads NaN as JSON
        return _UNKNOWN
    return float(min(max(seconds, 0), _LONGEST))
