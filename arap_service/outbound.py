"""The only way in which the service calls an address that somebody outside the configuration had a say in.

A callback goes to https on a configured port. Every address that the name resolves to must be public; otherwise the
exact `host:port` has to be allow-listed for that client. The check is made when a request names the callback and again
when dialling, and the connection goes to the very address that was checked, so a name that changes its mind gains
nothing. No redirects, no proxies, bounded time and answer. Access Request and Approval Profile, callback companion
(ARS-88 to ARS-90).
"""

import socket
import ssl
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from functools import cache, partial
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Any, Final
from urllib.parse import urlsplit

import anyio
import httpcore2
import httpx2

from arap_service.settings_parts import is_loopback

Address = IPv4Address | IPv6Address
Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
MAX_ANSWER: Final = 65_536
_NAT64: Final = (IPv6Network("64:ff9b::/96"), IPv6Network("64:ff9b:1::/48"))


class DestinationRefused(Exception):
    """We don't call this address; `code` says why and shows nothing of it."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class DeliveryFailed(Exception):
    """No answer came; `code` is the kind of failure."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


@dataclass(frozen=True, slots=True)
class Answer:
    """What the other side said: a status and, if it asked for patience, the raw Retry-After."""

    status: int
    retry_after: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """Where a URL leads, before its name is resolved."""

    scheme: str
    host: str
    port: int

    @property
    def name(self) -> str:
        """The form in which destinations are allow-listed."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


async def resolve(host: str, port: int) -> Sequence[str]:
    """All addresses of `host`, by the system's resolver."""
    found = await anyio.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


@cache
def _system_trust() -> ssl.SSLContext:
    """What the system trusts; reading it takes tens of milliseconds, so once for each process."""
    return ssl.create_default_context()


class Outbound:
    """Checks destinations and posts to them."""

    def __init__(
        self,
        *,
        ports: Collection[int] = (443,),
        insecure_loopback: bool = False,
        timeout: float = 10.0,
        resolver: Resolver = resolve,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._ports = frozenset(ports)
        self._insecure_loopback = insecure_loopback
        self._timeout = timeout
        self._resolver = resolver
        self._tls = tls or _system_trust()

    async def check(self, url: str, *, allow: Collection[str]) -> None:
        """Refuse `url` unless we may call it now; `allow` holds exact `host:port` destinations.

        Raises:
            DestinationRefused: Its form, its port or one of its addresses is not acceptable.
        """
        destination = self._destination(url, allow=allow)
        await self.addresses(destination.host, destination.port, allow=allow)

    async def post(
        self, url: str, *, content: bytes, headers: Mapping[str, str], allow: Collection[str] = ()
    ) -> Answer:
        """POST `content`, dialling only an address that passed the check at this moment.

        Raises:
            DestinationRefused: As in `check`.
            DeliveryFailed: The connection, TLS or the exchange failed, took too long or answered without end.
        """
        self._destination(url, allow=allow)
        transport = httpx2.AsyncHTTPTransport(verify=self._tls, trust_env=False, retries=0)
        # httpx2 has no public way to choose who dials; a test pins this attribute.
        transport._pool._network_backend = _CheckedDialler(self, allow)  # noqa: SLF001
        client = httpx2.AsyncClient(transport=transport, timeout=self._timeout, follow_redirects=False, trust_env=False)
        try:
            with anyio.fail_after(self._timeout):
                async with client, client.stream("POST", url, content=content, headers=dict(headers)) as response:
                    await _drain(response)
                    return Answer(response.status_code, response.headers.get("retry-after"))
        except TimeoutError:
            raise DeliveryFailed("timeout") from None
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise DeliveryFailed(_kind(error)) from None

    async def addresses(self, host: str, port: int, *, allow: Collection[str]) -> list[str]:
        """The addresses of `host` that may be dialled on `port`, every single one having been checked.

        Raises:
            DestinationRefused: The name leads nowhere, or somewhere that we don't go.
        """
        listed = Destination(scheme="https", host=host, port=port).name in allow
        if port not in self._ports and not listed:
            raise DestinationRefused("port")
        try:
            found = list(await self._resolver(host, port))
        except (OSError, UnicodeError):
            raise DestinationRefused("unresolvable") from None
        if not found:
            raise DestinationRefused("unresolvable")
        if not listed and not all(is_public(address) for address in found):  # ARS-89, ARS-90
            raise DestinationRefused("internal_address")
        return found

    def _destination(self, url: str, *, allow: Collection[str]) -> Destination:
        destination = _parsed(url)
        plain = self._insecure_loopback and destination.name in allow and is_loopback(destination.host)
        if destination.scheme != "https" and not plain:
            raise DestinationRefused("not_https")
        return destination


class _CheckedDialler(httpcore2.AnyIOBackend):
    def __init__(self, outbound: Outbound, allow: Collection[str]) -> None:
        super().__init__()
        self._outbound = outbound
        self._allow = allow

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the overridden signature
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        # The certificate is still checked against the name: TLS starts later, on this connection.
        *others, last = await self._outbound.addresses(host, port, allow=self._allow)
        connect = partial(
            super().connect_tcp,
            port=port,
            timeout=timeout,
            local_address=local_address,
            socket_options=socket_options,
        )
        for address in others:
            with suppress(httpcore2.ConnectError, httpcore2.ConnectTimeout):
                return await connect(address)
        return await connect(last)


def is_public(address: str) -> bool:
    """Whether `address` is one of the open internet, also when it is an IPv4 address in IPv6 clothes."""
    parsed = _literal(address.partition("%")[0])
    if parsed is None:
        return False
    if isinstance(parsed, IPv6Address):
        inner = _embedded(parsed)
        if inner is not None:
            return is_public(str(inner))
    return parsed.is_global and not parsed.is_multicast and not parsed.is_reserved


def _embedded(address: IPv6Address) -> IPv4Address | None:
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if any(address in network for network in _NAT64):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return None


def _literal(host: str) -> Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None


def _parsed(url: str) -> Destination:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise DestinationRefused("malformed") from None
    if parts.scheme not in {"https", "http"} or not parts.hostname:
        raise DestinationRefused("malformed")
    if parts.username is not None or parts.password is not None:
        raise DestinationRefused("user_information")
    if parts.fragment or any(ord(letter) <= 0x20 or ord(letter) >= 0x7F for letter in url):
        raise DestinationRefused("malformed")
    return Destination(scheme=parts.scheme, host=parts.hostname, port=port or (443 if parts.scheme == "https" else 80))


async def _drain(response: httpx2.Response) -> None:
    size = 0
    async with aclosing(response.aiter_raw()) as chunks:
        async for chunk in chunks:
            size += len(chunk)
            if size > MAX_ANSWER:
                raise DeliveryFailed("answer_too_large")


def _kind(error: Exception) -> str:
    if isinstance(error, httpx2.TimeoutException):
        return "timeout"
    return "connect" if isinstance(error, httpx2.ConnectError) else "exchange"
