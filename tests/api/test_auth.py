"""Bearer tokens over HTTP: RFC 6750, RFC 9068, and the profile's "Protect the Endpoints"."""

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from joserfc.jwk import ECKey

from arap_service.api.auth import REMEMBER_MOST, Authenticator, bearer_token
from arap_service.context import Context, Trust
from arap_service.domain.callers import Caller, Scope
from arap_service.domain.errors import Forbidden, Unauthenticated
from arap_service.keys import BINDING_TYP, TrustedIssuers
from tests import tokens
from tests.clock import FakeClock
from tests.service import IDENTIFIER, app_for, bearer, http, service_context, settings_for
from tests.tokens import FixedKeys, access_claims, key, signed

ISSUER = "https://issuer.example"
Forger = Callable[[ECKey], str]


@pytest.fixture
def signer() -> ECKey:
    return key("one")


@pytest.fixture
def authenticator(signer: ECKey, clock: FakeClock) -> Authenticator:
    return Authenticator(trust_in({ISSUER: FixedKeys(signer)}), clock=clock)


def trust_in(sources: dict[str, FixedKeys]) -> Trust:
    nobody = TrustedIssuers({})
    return Trust(
        binding=nobody,
        approval=nobody,
        access=TrustedIssuers(dict(sources)),
        audiences=dict.fromkeys(sources, IDENTIFIER),
    )


@pytest.mark.anyio
async def test_token_gives_its_caller_with_scopes_and_actors(authenticator: Authenticator, signer: ECKey) -> None:
    act = {"sub": "bot", "act": {"sub": "alice", "iss": "https://idp.example"}}
    caller = await authenticator.caller(signed(signer, access_claims(act=act, aud=["https://other", IDENTIFIER])))
    assert caller == Caller(
        iss=ISSUER,
        sub="agent-7",
        client_id="gate",
        scopes=frozenset({"arap:submit", "arap:status"}),
        channel="api",
        agent="bot",
        act=((ISSUER, "bot"), ("https://idp.example", "alice")),
    )
    assert caller.principal == f"{ISSUER}|agent-7"


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("ways", "claims", "seconds_ago"),
    [
        ((), {}, None),
        ((), {"auth_time": 60}, 60),
        ((), {"auth_time": -20}, 0),
        ((), {"auth_time": -31}, None),
        (("phr",), {"auth_time": 60}, None),
        (("phr",), {"auth_time": 60, "acr": "pwd"}, None),
        (("phr", "phrh"), {"auth_time": 60, "acr": "phr"}, 60),
        (("phr",), {"acr": "phr"}, None),
    ],
)
async def test_when_a_person_proved_himself_counts_if_he_did_so_in_a_way_that_counts(
    signer: ECKey, clock: FakeClock, ways: tuple[str, ...], claims: dict[str, Any], seconds_ago: int | None
) -> None:
    """RFC 9068, section 2.2.1; RFC 9470. What is a little in the future is now, since clocks differ."""
    known = replace(trust_in({ISSUER: FixedKeys(signer)}), acrs={ISSUER: frozenset(ways)})
    said = {name: value for name, value in claims.items() if name != "auth_time"}
    if "auth_time" in claims:
        said["auth_time"] = int(clock().timestamp()) - claims["auth_time"]
    caller = await Authenticator(known, clock=clock).caller(signed(signer, access_claims(**said)))
    assert caller.proved_at == (None if seconds_ago is None else clock() - timedelta(seconds=seconds_ago))


@pytest.mark.parametrize(
    "forge",
    [
        lambda signer: tokens.unsigned(signer, access_claims()),
        lambda signer: tokens.hmac_with_public_key(signer, access_claims()),
        lambda signer: tokens.with_own_key(signer, access_claims()),
        lambda signer: signed(key("foreign"), access_claims(), kid=signer.kid),
        lambda _signer: signed(key("foreign"), access_claims()),
        lambda signer: signed(signer, access_claims(), typ=BINDING_TYP),
        lambda signer: signed(signer, access_claims(), typ="JWT"),
        lambda signer: signed(signer, access_claims(aud="https://other.example")),
        lambda signer: signed(signer, access_claims(aud=None)),
        lambda signer: signed(signer, access_claims(aud=7)),
        lambda signer: signed(signer, access_claims(iss="https://evil.example")),
        lambda signer: signed(signer, access_claims(exp=0)),
        lambda signer: signed(signer, access_claims(exp=None)),
        lambda signer: signed(signer, access_claims(exp=True)),
        lambda signer: signed(signer, access_claims(exp=1e300)),
        lambda signer: signed(signer, access_claims(exp="never")),
        lambda signer: signed(signer, access_claims(nbf=access_claims()["exp"])),
        lambda signer: signed(signer, access_claims(iat=access_claims()["exp"])),
        lambda signer: signed(signer, access_claims(sub=None)),
        lambda signer: signed(signer, access_claims(sub="")),
        lambda signer: signed(signer, access_claims(client_id=None)),
        lambda signer: signed(signer, access_claims(scope=None)),
        lambda signer: signed(signer, access_claims(scope=["admin"])),
        lambda signer: signed(signer, access_claims(act="bot")),
        lambda signer: signed(signer, access_claims(act={"iss": ISSUER})),
        lambda signer: signed(signer, access_claims(act={"sub": "bot", "iss": 1})),
        lambda signer: signed(signer, access_claims(act=nested(17))),
        lambda _signer: "garbage",
    ],
)
@pytest.mark.anyio
@pytest.mark.requirement("ARS-01", "PDP-10")
async def test_token_that_proves_nobody_is_refused_without_a_reason(
    forge: Forger, authenticator: Authenticator, signer: ECKey
) -> None:
    """The caller learns that the token is not valid; why is known to the log alone."""
    with pytest.raises(Unauthenticated) as caught:
        await authenticator.caller(forge(signer))
    assert caught.value.status == 401
    assert dict(caught.value.headers) == {"WWW-Authenticate": 'Bearer error="invalid_token"'}
    assert caught.value.detail is None


def nested(depth: int) -> dict[str, Any]:
    actor: dict[str, Any] = {"sub": "bot"}
    for _ in range(depth - 1):
        actor = {"sub": "bot", "act": actor}
    return actor


@pytest.mark.parametrize(
    ("header", "challenge"),
    [
        ([], "Bearer"),
        ([b"Basic Zm9vOmJhcg=="], "Bearer"),
        ([b"Bearer"], 'Bearer error="invalid_token"'),
        ([b"Bearer a b"], 'Bearer error="invalid_token"'),
        ([b"Bearer \xff"], 'Bearer error="invalid_token"'),
        ([b"Bearer a", b"Bearer a"], 'Bearer error="invalid_token"'),
    ],
)
@pytest.mark.requirement("ARS-01", "PDP-10")
def test_request_without_one_bearer_token_is_challenged(header: list[bytes], challenge: str) -> None:
    """RFC 6750 section 3: no error code when no token was presented at all."""
    with pytest.raises(Unauthenticated) as caught:
        bearer_token([(b"authorization", value) for value in header])
    assert caught.value.headers["WWW-Authenticate"] == challenge


def test_scheme_is_spelt_in_any_case() -> None:
    assert bearer_token([(b"host", b"x"), (b"authorization", b"bEARER abc")]) == "abc"


@pytest.mark.anyio
async def test_verified_token_is_remembered_for_a_minute_and_never_past_its_end(
    signer: ECKey, clock: FakeClock
) -> None:
    """Taking the key away shows whether the token was verified again."""
    source = FixedKeys(signer)
    authenticator = Authenticator(trust_in({ISSUER: source}), clock=clock)
    long = signed(signer, access_claims())
    short = signed(signer, access_claims(exp=int((clock() + timedelta(seconds=20)).timestamp())))
    await authenticator.caller(long)
    await authenticator.caller(short)
    source.keys.clear()
    clock.advance(19)
    await authenticator.caller(short)
    clock.advance(1)
    with pytest.raises(Unauthenticated):
        await authenticator.caller(short)
    clock.advance(39)
    await authenticator.caller(long)
    clock.advance(1)
    with pytest.raises(Unauthenticated):
        await authenticator.caller(long)


@pytest.mark.anyio
async def test_memory_of_tokens_is_bounded(signer: ECKey, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    """Filled with the same caller under made-up digests, which costs no signatures."""
    authenticator = Authenticator(trust_in({ISSUER: FixedKeys(signer)}), clock=clock)
    caller = await authenticator.caller(signed(signer, access_claims()))
    for number in range(REMEMBER_MOST):
        authenticator._known[number.to_bytes(4, "big")] = (caller, clock())
    await authenticator.caller(signed(signer, access_claims(jti="another")))
    assert len(authenticator._known) <= REMEMBER_MOST + 1


def test_missing_scope_is_named_in_the_challenge() -> None:
    """RFC 6750 section 3.1, insufficient_scope."""
    caller = Caller(iss=ISSUER, sub="a", client_id="b", scopes=frozenset({"arap:status"}), channel="api")
    caller.require(Scope.STATUS)
    assert caller.may(Scope.STATUS)
    assert not replace(caller, scopes=frozenset()).may(Scope.STATUS)
    with pytest.raises(Forbidden) as caught:
        caller.require(Scope.CANCEL)
    assert caught.value.status == 403
    assert dict(caught.value.headers) == {"WWW-Authenticate": 'Bearer error="insufficient_scope", scope="arap:cancel"'}


PROTECTED = [
    ("POST", "/access/v1/evaluation"),
    ("POST", "/access/v1/evaluations"),
    ("POST", "/access/v1/request"),
    ("GET", "/access/v1/request/task_x"),
    ("POST", "/access/v1/request/task_x/cancel"),
    ("POST", "/access/v1/request/task_x/report"),
    ("GET", "/resolver/v1/requests"),
    ("GET", "/resolver/v1/requests/task_x"),
    ("POST", "/resolver/v1/requests/task_x/decisions"),
    ("POST", "/resolver/v1/approvals/appr_x/revoke"),
    ("POST", "/resolver/v1/approvals/appr_x/executions"),
]


@pytest.fixture
async def ctx(tmp_path: Path, service_url: str, clock: FakeClock) -> AsyncIterator[Context]:
    settings = settings_for(tmp_path, database=service_url, policy="version: 1\nrules: []\n")
    async with service_context(settings, clock=clock) as context:
        yield context


@pytest.fixture
def app(ctx: Context) -> FastAPI:
    return app_for(ctx)


@pytest.mark.parametrize(("method", "path"), PROTECTED)
@pytest.mark.anyio
@pytest.mark.requirement("ARS-01", "PDP-10", "PDP-09")
async def test_no_endpoint_answers_a_stranger(method: str, path: str, app: FastAPI) -> None:
    """Every operation of both APIs, without a token and with one that proves nothing."""
    async with http(app) as client:
        wrong: list[dict[str, str]] = [{}, {"Authorization": "Bearer garbage"}]
        for credentials in wrong:
            response = await client.request(
                method, path, json={"a": 1}, headers={**credentials, "X-Request-ID": "req-1"}
            )
            assert response.status_code == 401
            assert response.headers["www-authenticate"].startswith("Bearer")
            assert response.headers.get_list("x-request-id") == ["req-1"]


@pytest.mark.anyio
@pytest.mark.requirement("ARS-01")
async def test_token_of_another_scope_opens_nothing_and_says_which_one_it_lacks(ctx: Context, app: FastAPI) -> None:
    """RFC 6750 section 3.1: 403 insufficient_scope for a valid token without the right."""
    async with http(app) as client:
        response = await client.post("/access/v1/request", json={}, headers=bearer(ctx, "reader"))
        assert response.status_code == 403
        assert 'error="insufficient_scope"' in response.headers["www-authenticate"]
        response = await client.get("/resolver/v1/requests", headers=bearer(ctx, "gate"))
        assert response.status_code == 403
        assert 'error="insufficient_scope"' in response.headers["www-authenticate"]


@pytest.mark.anyio
async def test_token_in_the_address_is_not_looked_at(ctx: Context, app: FastAPI) -> None:
    """RFC 6750 section 2.3 is not supported: addresses end up in logs."""
    token = bearer(ctx, "resolver")["Authorization"].removeprefix("Bearer ")
    async with http(app) as client:
        response: httpx2.Response = await client.get("/resolver/v1/requests", params={"access_token": token})
    assert response.status_code == 401
