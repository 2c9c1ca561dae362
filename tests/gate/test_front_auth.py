"""Bearer tokens of the HTTP front (RFC 9068; COAZ, Token Integrity; PEP-16)."""

import base64
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, OctKey

from mcp_gate.front_auth import JwtVerifier
from mcp_gate.settings import Issuer
from tests.clock import FakeClock
from tests.gate.issuer import ISSUER, RESOURCE, TestIssuer

pytestmark = pytest.mark.anyio


@pytest.fixture
def issuer() -> TestIssuer:
    return TestIssuer()


@pytest.fixture
async def verifier(issuer: TestIssuer, clock: FakeClock) -> AsyncIterator[JwtVerifier]:
    async with httpx2.AsyncClient(transport=issuer.transport()) as http:
        known = [Issuer(issuer=ISSUER, jwks_uri=f"{ISSUER}/jwks.json")]
        yield JwtVerifier(known, resource=RESOURCE, http=http, clock=clock)


def token(issuer: TestIssuer, clock: FakeClock, **claims: Any) -> str:
    return issuer.token(now=clock.now().timestamp(), **claims)


@pytest.mark.requirement("PEP-16")
async def test_a_good_token_tells_who_calls_and_is_dropped(
    verifier: JwtVerifier, issuer: TestIssuer, clock: FakeClock
) -> None:
    verified = await verifier.verify_token(token(issuer, clock, act={"sub": "agent-7"}))
    assert verified is not None
    assert (verified.subject, verified.client_id, verified.scopes) == ("alice", "agent-7", ["mcp"])
    assert (verified.claims or {})["act"] == {"sub": "agent-7"}
    assert verified.token == ""


@pytest.mark.requirement("PEP-16")
@pytest.mark.parametrize(
    "claims",
    [
        {"aud": "https://other.example/mcp"},
        {"aud": ["https://other.example/mcp"]},
        {"aud": None},
        {"iss": "https://evil.example"},
        {"iss": None},
        {"exp": 1},
        {"exp": None},
        {"exp": True},
        {"exp": 1e300},
        {"nbf": 99_999_999_999},
        {"sub": None},
        {"sub": ""},
        {"client_id": None},
    ],
)
async def test_a_token_with_a_wrong_claim_proves_nothing(
    verifier: JwtVerifier, issuer: TestIssuer, clock: FakeClock, claims: dict[str, Any]
) -> None:
    assert await verifier.verify_token(issuer.token(**{"now": clock.now().timestamp(), **claims})) is None


async def test_one_of_several_audiences_is_enough(verifier: JwtVerifier, issuer: TestIssuer, clock: FakeClock) -> None:
    assert await verifier.verify_token(token(issuer, clock, aud=["https://other.example", RESOURCE])) is not None


@pytest.mark.requirement("PEP-16")
@pytest.mark.parametrize("header", [{"typ": "JWT"}, {"typ": "arap-denial-binding+jwt"}, {"kid": "nobody"}])
async def test_a_token_of_another_kind_or_key_proves_nothing(
    verifier: JwtVerifier, issuer: TestIssuer, clock: FakeClock, header: dict[str, Any]
) -> None:
    assert await verifier.verify_token(token(issuer, clock, header=header)) is None


@pytest.mark.requirement("PEP-16")
async def test_a_foreign_key_under_a_known_name_proves_nothing(
    verifier: JwtVerifier, issuer: TestIssuer, clock: FakeClock
) -> None:
    stranger = TestIssuer(keys=[ECKey.generate_key("P-256", parameters={"kid": "k1"})])
    assert await verifier.verify_token(token(stranger, clock)) is None
    assert await verifier.verify_token(token(issuer, clock)) is not None


@pytest.mark.requirement("PEP-16")
async def test_an_unsigned_token_proves_nothing(verifier: JwtVerifier, issuer: TestIssuer, clock: FakeClock) -> None:
    _, payload, _ = token(issuer, clock).split(".")
    header = base64.urlsafe_b64encode(json.dumps({"alg": "none", "typ": "at+jwt", "kid": "k1"}).encode()).decode()
    assert await verifier.verify_token(f"{header.rstrip('=')}.{payload}.") is None


@pytest.mark.requirement("PEP-16")
async def test_a_public_key_is_no_shared_secret(verifier: JwtVerifier, issuer: TestIssuer, clock: FakeClock) -> None:
    """Algorithm confusion: HMAC over the published key."""
    secret = OctKey.import_key(json.dumps(issuer.keys[0].as_dict(private=False)))
    claims = {"iss": ISSUER, "aud": RESOURCE, "sub": "alice", "client_id": "c", "exp": clock.now().timestamp() + 60}
    forged = jwt.encode({"alg": "HS256", "typ": "at+jwt", "kid": "k1"}, claims, secret)
    assert await verifier.verify_token(forged) is None


@pytest.mark.parametrize("text", ["", "a.b", "a.b.c", "é.é.é", "." * 20_000, "W10.W10.W10", "bnVsbA.bnVsbA.x"])
async def test_text_that_is_no_token_proves_nothing(verifier: JwtVerifier, text: str) -> None:
    assert await verifier.verify_token(text) is None


async def test_a_new_key_is_fetched_once_and_unknown_keys_do_not_flood_the_issuer(
    verifier: JwtVerifier, issuer: TestIssuer, clock: FakeClock
) -> None:
    assert await verifier.verify_token(token(issuer, clock)) is not None
    issuer.rotate("k2")
    clock.advance(31)
    assert await verifier.verify_token(token(issuer, clock)) is not None
    assert issuer.fetched == 2
    for number in range(20):
        assert await verifier.verify_token(token(issuer, clock, header={"kid": f"unknown-{number}"})) is None
    assert issuer.fetched == 2


async def test_an_issuer_that_is_down_proves_nothing_and_is_asked_again_later(
    verifier: JwtVerifier, issuer: TestIssuer, clock: FakeClock
) -> None:
    issuer.down = True
    assert await verifier.verify_token(token(issuer, clock)) is None
    issuer.down = False
    assert await verifier.verify_token(token(issuer, clock)) is None
    clock.advance(31)
    assert await verifier.verify_token(token(issuer, clock)) is not None


@pytest.mark.requirement("PEP-16")
async def test_an_issuer_that_stays_away_is_believed_for_a_quarter_of_an_hour_and_then_no_longer(
    verifier: JwtVerifier, issuer: TestIssuer, clock: FakeClock
) -> None:
    """A key that the issuer has withdrawn meanwhile must not be good for ever."""
    lasting = clock.now().timestamp() + 7200
    assert await verifier.verify_token(token(issuer, clock, exp=lasting)) is not None
    issuer.down = True
    clock.advance(14 * 60)
    assert await verifier.verify_token(token(issuer, clock, exp=lasting)) is not None
    clock.advance(60)
    assert await verifier.verify_token(token(issuer, clock, exp=lasting, jti="new")) is None
    clock.advance(31)
    assert await verifier.verify_token(token(issuer, clock, exp=lasting)) is None
    issuer.down = False
    clock.advance(31)
    assert await verifier.verify_token(token(issuer, clock, exp=lasting)) is not None


async def test_a_verified_token_is_remembered_for_a_minute_and_never_past_its_expiry(
    verifier: JwtVerifier, issuer: TestIssuer, clock: FakeClock
) -> None:
    short = token(issuer, clock, exp=int(clock.now().timestamp()) + 30)
    assert await verifier.verify_token(short) is not None
    issuer.down = True
    clock.advance(29)
    assert await verifier.verify_token(short) is not None
    clock.advance(1)
    assert await verifier.verify_token(short) is None


async def test_no_token_reaches_the_log(
    verifier: JwtVerifier, issuer: TestIssuer, clock: FakeClock, capsys: pytest.CaptureFixture[str]
) -> None:
    refused = token(issuer, clock, aud="https://other.example")
    await verifier.verify_token(refused)
    printed = capsys.readouterr()
    assert "token_refused" in printed.out + printed.err
    assert not any(part in printed.out + printed.err for part in refused.split("."))
