"""What the service may call: `vectors/ssrf.json` (ARS-88 to ARS-90), with a resolver of ours and real sockets."""

import json
import socket
import ssl
from collections.abc import Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

from arap_service.outbound import DeliveryFailed, DestinationRefused, Outbound, is_public, resolve
from tests.receiver import OK, certificate, receiving, status

VECTORS = json.loads((Path(__file__).parent / "vectors" / "ssrf.json").read_text())
# Refused because it is not the registered URL, which is compared before anybody asks where it leads.
UNREGISTERED = "https://registered.example.com.attacker.test/cb"
REFUSED = [
    row["url"] for row in VECTORS if row["expect"] == "reject" and " " not in row["url"] and row["url"] != UNREGISTERED
]
PUBLIC = "93.184.216.34"


class Names:
    """A resolver with the names of a test; a name can give other addresses the next time."""

    def __init__(self, **names: Sequence[str]) -> None:
        self.names = {name.replace("_", "."): list(addresses) for name, addresses in names.items()}

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        if host not in self.names:
            return await resolve(host, port) if host == "localhost" else [literal(host)]
        addresses = self.names[host]
        return addresses.pop(0).split(",") if len(addresses) > 1 else addresses[0].split(",")


def literal(host: str) -> str:
    """What a system's resolver makes of an address in any of its spellings."""
    try:
        return str(ip_address(host))
    except ValueError:
        return socket.inet_ntoa(socket.inet_aton(host))


def names(**addresses: Sequence[str]) -> Names:
    return Names(pep_example_com=[PUBLIC], **addresses)


@pytest.mark.parametrize("url", REFUSED)
@pytest.mark.anyio
@pytest.mark.requirement("ARS-89", "ARS-90")
async def test_destination_of_the_vectors_is_refused(url: str) -> None:
    """The rows that are a plain URL; numbers are read as addresses the way a system's resolver does."""
    with pytest.raises(DestinationRefused):
        await Outbound(resolver=names()).check(url, allow=())


def test_every_row_of_the_vectors_is_covered() -> None:
    """The other rows each have a test of their own: here, and the unregistered URL in the courier's tests."""
    assert [row["url"] for row in VECTORS if row["url"] not in REFUSED] == [
        UNREGISTERED,
        "https://rebind.test/cb  (public at submit, 127.0.0.1 at delivery)",
        "https://redirect.test/cb  (302 to http://169.254.169.254/)",
        "https://pep.internal:8443/cb",
    ]


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("https://pep.example.com:99999/cb", "malformed"),
        ("https:///cb", "malformed"),
        ("https://[::1/cb", "malformed"),
        ("https://pep.example.com/cb#x", "malformed"),
        ("https://pep.example.com/\tcb", "malformed"),
        ("https://pep.exämple.com/cb", "malformed"),
        ("https://:pw@pep.example.com/cb", "user_information"),
        ("http://pep.example.com/cb", "not_https"),
        ("https://pep.example.com:22/cb", "port"),
        ("https://nowhere.invalid/cb", "unresolvable"),
        ("https://mixed.test/cb", "internal_address"),
        ("https://empty.test/cb", "unresolvable"),
    ],
)
@pytest.mark.anyio
@pytest.mark.requirement("ARS-89")
async def test_refusal_says_why_as_a_code(url: str, code: str) -> None:
    """One internal address among several is enough."""
    resolver = names(mixed_test=[f"{PUBLIC},10.0.0.1"])

    async def resolving(host: str, port: int) -> Sequence[str]:
        if host == "nowhere.invalid":
            raise OSError
        return [] if host == "empty.test" else await resolver(host, port)

    with pytest.raises(DestinationRefused) as caught:
        await Outbound(resolver=resolving).check(url, allow=())
    assert caught.value.code == code


@pytest.mark.anyio
async def test_public_destination_on_an_allowed_port_is_accepted() -> None:
    outbound = Outbound(resolver=names(), ports=(443, 8443))
    await outbound.check("https://pep.example.com/cb", allow=())
    await outbound.check("https://pep.example.com:8443/cb", allow=())


@pytest.mark.anyio
@pytest.mark.requirement("ARS-89")
async def test_internal_destination_is_accepted_only_when_exactly_that_one_is_allow_listed() -> None:
    """Row pep.internal of ssrf.json."""
    outbound = Outbound(resolver=names(pep_internal=["10.1.2.3"]))
    await outbound.check("https://pep.internal:8443/cb", allow={"pep.internal:8443"})
    for allowed in (set(), {"pep.internal:443"}, {"pep.internal"}, {"internal:8443"}):
        with pytest.raises(DestinationRefused):
            await outbound.check("https://pep.internal:8443/cb", allow=allowed)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "0.0.0.0",  # noqa: S104 - an address to refuse
        "10.0.0.1",
        "100.64.0.1",
        "169.254.169.254",
        "192.0.2.1",
        "198.18.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "fe80::1",
        "fe80::1%eth0",
        "fc00::1",
        "ff02::1",
        "2001:db8::1",
        "::ffff:10.0.0.1",
        "64:ff9b::10.0.0.1",
        "64:ff9b:1::10.0.0.1",
        "2002:7f00:1::",
        "nonsense",
    ],
)
def test_address_that_is_not_of_the_open_internet_is_told(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", [PUBLIC, "2606:2800:220:1::1", "::ffff:93.184.216.34", "64:ff9b::93.184.216.34"])
def test_address_of_the_open_internet_is_told(address: str) -> None:
    assert is_public(address)


@pytest.mark.anyio
async def test_post_reaches_an_allow_listed_receiver_under_its_own_name(tmp_path: Path) -> None:
    """The certificate is for the name, the connection goes to the checked address."""
    server, trusting = certificate(tmp_path, "pep.example.com")
    async with receiving(server) as receiver:
        receiver.answer(status(503, "Retry-After: 7"))
        outbound = Outbound(resolver=Names(pep_example_com=["127.0.0.1"]), tls=trusting)
        answer = await outbound.post(
            f"https://pep.example.com:{receiver.port}/cb?a=1",
            content=b"{}",
            headers={"X-Mine": "yes"},
            allow={f"pep.example.com:{receiver.port}"},
        )
    assert (answer.status, answer.retry_after) == (503, "7")
    [request] = receiver.received
    assert (request.method, request.target, request.body) == ("POST", "/cb?a=1", b"{}")
    assert request.headers["host"] == f"pep.example.com:{receiver.port}"
    assert request.headers["x-mine"] == "yes"


@pytest.mark.anyio
@pytest.mark.requirement("ARS-90")
async def test_name_that_turns_internal_after_the_check_is_not_dialled(tmp_path: Path) -> None:
    """Row rebind.test: public when submitted, loopback when delivered."""
    server, trusting = certificate(tmp_path, "rebind.test")
    async with receiving(server) as receiver:
        outbound = Outbound(resolver=Names(rebind_test=[PUBLIC, "127.0.0.1"]), ports=(receiver.port,), tls=trusting)
        url = f"https://rebind.test:{receiver.port}/cb"
        await outbound.check(url, allow=())
        with pytest.raises(DestinationRefused) as caught:
            await outbound.post(url, content=b"", headers={})
    assert caught.value.code == "internal_address"
    assert receiver.connections == 0


@pytest.mark.anyio
@pytest.mark.requirement("ARS-90")
async def test_redirect_is_an_answer_and_not_an_invitation(tmp_path: Path) -> None:
    """Row redirect.test; the closed network of the tests would report a connection to the metadata address."""
    server, trusting = certificate(tmp_path, "127.0.0.1")
    async with receiving(server) as receiver:
        receiver.answer(status(302, "Location: http://169.254.169.254/"))
        destination = f"127.0.0.1:{receiver.port}"
        answer = await Outbound(tls=trusting).post(
            f"https://{destination}/cb", content=b"", headers={}, allow={destination}
        )
    assert answer.status == 302
    assert len(receiver.received) == 1


@pytest.mark.anyio
async def test_next_address_is_tried_when_the_first_refuses_the_connection(tmp_path: Path) -> None:
    server, trusting = certificate(tmp_path, "pep.test")
    async with receiving(server) as receiver:
        outbound = Outbound(resolver=Names(pep_test=["127.0.0.2,127.0.0.1"]), tls=trusting)
        url = f"https://pep.test:{receiver.port}/cb"
        answer = await outbound.post(url, content=b"", headers={}, allow={f"pep.test:{receiver.port}"})
    assert answer.status == 204


@pytest.mark.anyio
async def test_certificate_of_another_name_is_a_failure(tmp_path: Path) -> None:
    server, trusting = certificate(tmp_path, "other.test")
    async with receiving(server) as receiver:
        outbound = Outbound(resolver=Names(pep_test=["127.0.0.1"]), tls=trusting)
        with pytest.raises(DeliveryFailed) as caught:
            await outbound.post(
                f"https://pep.test:{receiver.port}/cb", content=b"", headers={}, allow={f"pep.test:{receiver.port}"}
            )
    assert caught.value.code == "connect"
    assert receiver.received == []


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (b"", "exchange"),
        (b"nonsense\r\n\r\n", "exchange"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + b"a" * 100_000, "answer_too_large"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"4000\r\n" + b"a" * 0x4000 + b"\r\n", "exchange"),
    ],
)
@pytest.mark.anyio
@pytest.mark.requirement("ARS-90")
async def test_answer_that_is_none_or_without_end_is_a_failure(answer: bytes, code: str, tmp_path: Path) -> None:
    server, trusting = certificate(tmp_path, "127.0.0.1")
    async with receiving(server) as receiver:
        receiver.answer(answer)
        assert await failure(receiver.port, trusting, timeout=5) == code


@pytest.mark.anyio
@pytest.mark.requirement("ARS-90")
async def test_receiver_that_never_answers_is_given_up(tmp_path: Path) -> None:
    server, trusting = certificate(tmp_path, "127.0.0.1")
    async with receiving(server) as receiver:
        receiver.hold = anyio.Event()  # type: ignore[assignment]
        assert await failure(receiver.port, trusting, timeout=0.2) == "timeout"


@pytest.mark.anyio
async def test_closed_port_is_a_failure(tmp_path: Path) -> None:
    _, trusting = certificate(tmp_path, "127.0.0.1")
    async with receiving() as receiver:
        port = receiver.port
    assert await failure(port, trusting, timeout=5) == "connect"


async def failure(port: int, trusting: ssl.SSLContext, **options: Any) -> str:
    destination = f"127.0.0.1:{port}"
    with pytest.raises(DeliveryFailed) as caught, anyio.fail_after(40):
        await Outbound(tls=trusting, **options).post(
            f"https://{destination}/cb", content=b"", headers={}, allow={destination}
        )
    return caught.value.code


@pytest.mark.anyio
async def test_plain_http_goes_to_an_allow_listed_loopback_address_of_a_developer_only() -> None:
    """design.md section 1: `insecure_loopback` permits http for loopback literals, and for nothing else."""
    async with receiving() as receiver:
        receiver.answer(OK)
        destination = f"127.0.0.1:{receiver.port}"
        url = f"http://{destination}/cb"
        lenient = Outbound(insecure_loopback=True)
        assert (await lenient.post(url, content=b"", headers={}, allow={destination})).status == 204
        for outbound, target, allow in (
            (Outbound(), url, {destination}),
            (lenient, url, set[str]()),
            (lenient, "http://localhost:80/cb", {"localhost:80"}),
            (lenient, "http://10.0.0.1:80/cb", {"10.0.0.1:80"}),
        ):
            with pytest.raises(DestinationRefused) as caught:
                await outbound.post(target, content=b"", headers={}, allow=allow)
            assert caught.value.code == "not_https"
    assert receiver.connections == 1


def test_client_still_lets_us_choose_who_dials() -> None:
    """Pins the private attribute that the guard replaces; without it every check would be bypassed."""
    transport = httpx2.AsyncHTTPTransport()
    assert hasattr(transport._pool, "_network_backend")
