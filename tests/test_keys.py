"""Signing keys and what a signature must satisfy: RFC 7515, RFC 8725, the profile's "Keys and Metadata"."""

import json
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest
from joserfc.jwk import ECKey

from arap_service import audit
from arap_service.key_file import load_ring, write_new_ring
from arap_service.keys import (
    ACCESS_TYP,
    APPROVAL_TYP,
    BINDING_TYP,
    CHAIN,
    KEEP,
    LEAD,
    Keys,
    TokenInvalid,
    TrustedIssuers,
    Use,
    import_public,
    rotate,
    verify,
)
from arap_service.protocol.arap import format_instant
from arap_service.protocol.sealing import KeyRing
from arap_service.store.database import Database
from tests import tokens
from tests.clock import FakeClock
from tests.tokens import FixedKeys, access_claims, key, signed

ISSUER = "https://issuer.example"
TWO_ALGORITHMS = b'{"alg":"ES256","alg":"none"}'
Forger = Callable[[ECKey, dict[str, Any]], str]


@pytest.fixture
def ring(tmp_path: Path) -> KeyRing:
    write_new_ring(tmp_path / "ring.json")
    return load_ring(tmp_path / "ring.json")


@pytest.fixture
async def database(service_url: str) -> AsyncIterator[Database]:
    opened = Database.open(service_url)
    yield opened
    await opened.aclose()


@pytest.fixture
async def keys(database: Database, ring: KeyRing, clock: FakeClock) -> Keys:
    return await Keys.load_or_create(database, ring, clock=clock)


def trusting(*known: ECKey) -> TrustedIssuers:
    return TrustedIssuers({ISSUER: FixedKeys(*known)})


def refused(token: str, issuers: TrustedIssuers, *, typ: str = ACCESS_TYP) -> str:
    with pytest.raises(TokenInvalid) as caught:
        verify(token, typ=typ, issuers=issuers)
    return caught.value.code


def test_token_of_a_trusted_key_gives_its_claims() -> None:
    signer = key("one")
    assert verify(signed(signer, access_claims()), typ=ACCESS_TYP, issuers=trusting(signer)) == access_claims()


@pytest.mark.parametrize("alg", ["EdDSA", "Ed25519"])
@pytest.mark.requirement("ARS-18")
def test_ed25519_is_accepted_under_both_of_its_names(alg: str) -> None:
    """RFC 8037 and RFC 9864 name the same signature."""
    token, public = tokens.ed25519("ed", access_claims(), alg=alg)
    assert verify(token, typ=ACCESS_TYP, issuers=trusting(public))["sub"] == "agent-7"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("forge", "code"),
    [
        (tokens.unsigned, "alg"),
        (tokens.hmac_with_public_key, "alg"),
        (tokens.with_own_key, "header"),
        (lambda signer, claims: signed(signer, claims, jku="https://evil.example/keys"), "header"),
        (lambda signer, claims: signed(signer, claims, x5u="https://evil.example/cert"), "header"),
        (lambda signer, claims: signed(signer, claims, typ=None), "typ"),
        (lambda signer, claims: signed(signer, claims, typ="JWT"), "typ"),
        (lambda _, claims: signed(key("another"), claims), "kid"),
        (lambda _, claims: signed(key("one"), claims), "signature"),
        (lambda signer, claims: signed(signer, claims | {"iss": "https://evil.example"}), "issuer"),
        (lambda signer, claims: signed(signer, claims)[:-6] + "AAAAAA", "signature"),
        (lambda signer, claims: signed(signer, claims) + "=", "signature"),
        (lambda signer, claims: signed(signer, claims) + ".x", "format"),
        (lambda _signer, _claims: "not.a.token", "format"),
        (lambda _signer, _claims: "", "format"),
        (lambda _signer, _claims: "é.é.é", "format"),
        (lambda _signer, _claims: f"{tokens.encoded([])}.{tokens.encoded({})}.x", "format"),
        (lambda _signer, _claims: f"{tokens.encoded(TWO_ALGORITHMS)}.{tokens.encoded({})}.x", "format"),
    ],
)
@pytest.mark.requirement("ARS-18")
def test_forged_token_is_refused_and_the_log_learns_why(forge: Forger, code: str) -> None:
    """RFC 8725 section 3: no `none`, no HMAC with a public key, no key that the token brings along."""
    signer = key("one")
    assert refused(forge(signer, access_claims()), trusting(signer)) == code


def test_token_of_one_algorithm_does_not_verify_with_a_key_of_another() -> None:
    token, _ = tokens.ed25519("one", access_claims(), alg="EdDSA")
    assert refused(token, trusting(key("one"))) == "alg"


@pytest.mark.requirement("ARS-17", "PDP-33")
def test_key_of_one_issuer_does_not_sign_for_another() -> None:
    """Both issuers are trusted, and the key id is known, but of the other issuer."""
    ours, theirs = key("ours"), key("theirs")
    issuers = TrustedIssuers({ISSUER: FixedKeys(ours), "https://pdp.example": FixedKeys(theirs)})
    token = signed(theirs, access_claims(iss=ISSUER))
    assert refused(token, issuers) == "kid"


@pytest.mark.anyio
@pytest.mark.requirement("PDP-57")
async def test_token_of_one_use_never_verifies_as_another(keys: Keys) -> None:
    """Neither the type nor the key of a binding token fits an approval state, and the reverse."""
    binding = keys.sign(Use.BINDING, {"iss": ISSUER}, BINDING_TYP)
    approval = keys.sign(Use.APPROVAL, {"iss": ISSUER}, APPROVAL_TYP)
    as_binding = TrustedIssuers({ISSUER: keys.source(Use.BINDING)})
    as_approval = TrustedIssuers({ISSUER: keys.source(Use.APPROVAL)})
    assert verify(binding, typ=BINDING_TYP, issuers=as_binding) == {"iss": ISSUER}
    assert verify(approval, typ=APPROVAL_TYP, issuers=as_approval) == {"iss": ISSUER}
    assert refused(binding, as_approval, typ=APPROVAL_TYP) == "typ"
    assert refused(approval, as_binding, typ=BINDING_TYP) == "typ"
    assert refused(binding, as_approval, typ=BINDING_TYP) == "kid"
    assert refused(approval, as_binding, typ=APPROVAL_TYP) == "kid"
    with pytest.raises(ValueError, match="do not sign"):
        keys.sign(Use.BINDING, {"iss": ISSUER}, APPROVAL_TYP)


@pytest.mark.anyio
@pytest.mark.requirement("PDP-32")
async def test_published_keys_have_id_and_use_and_no_private_part(keys: Keys) -> None:
    published = keys.jwks()["keys"]
    assert {entry["kid"].partition("-")[0] for entry in published} == {"binding", "approval"}
    for entry in published:
        assert set(entry) == {"kty", "crv", "x", "y", "kid", "use", "alg"}
        assert entry["use"] == "sig"


@pytest.mark.anyio
async def test_instances_that_start_together_make_one_set_of_keys(
    database: Database, ring: KeyRing, clock: FakeClock
) -> None:
    found: list[Keys] = []

    async def start() -> None:
        found.append(await Keys.load_or_create(database, ring, clock=clock))

    async with anyio.create_task_group() as group:
        for _ in range(4):
            group.start_soon(start)
    assert len(found) == 4
    assert all(each.jwks(*Use) == found[0].jwks(*Use) for each in found)
    assert len(found[0].jwks(*Use)["keys"]) == len(Use)


@pytest.mark.anyio
@pytest.mark.requirement("PDP-34")
async def test_new_key_is_published_before_it_signs_and_the_old_one_after_it_signed(
    keys: Keys, database: Database, ring: KeyRing, clock: FakeClock
) -> None:
    issuers = TrustedIssuers({ISSUER: keys.source(Use.BINDING)})
    before = keys.sign(Use.BINDING, {"iss": ISSUER}, BINDING_TYP)
    old = keys.jwks(Use.BINDING)["keys"][0]["kid"]
    fresh = await rotate(database, ring, use=Use.BINDING, now=clock())
    await keys.reload(database, ring)
    assert {entry["kid"] for entry in keys.jwks(Use.BINDING)["keys"]} == {old, fresh}
    early = keys.sign(Use.BINDING, {"iss": ISSUER}, BINDING_TYP)
    clock.advance(LEAD.total_seconds())
    late = keys.sign(Use.BINDING, {"iss": ISSUER}, BINDING_TYP)
    assert [kid_of(token) for token in (before, early, late)] == [old, old, fresh]
    clock.advance(KEEP.total_seconds() - 1)
    assert verify(early, typ=BINDING_TYP, issuers=issuers) == {"iss": ISSUER}
    clock.advance(1)
    assert refused(early, issuers, typ=BINDING_TYP) == "kid"
    assert verify(late, typ=BINDING_TYP, issuers=issuers) == {"iss": ISSUER}


@pytest.mark.anyio
async def test_every_new_key_is_in_the_audit_log(
    keys: Keys, database: Database, ring: KeyRing, clock: FakeClock
) -> None:
    """The first ones and the one that takes over, each once however many instances start; never a private part."""
    await Keys.load_or_create(database, ring, clock=clock)
    fresh = await rotate(database, ring, use=Use.APPROVAL, now=clock())
    entries = database.read_now(lambda session: audit.entries_of(session, CHAIN))
    assert [entry.kind for entry in entries] == ["key_created"] * len(Use) + ["key_rotated"]
    details = [json.loads(entry.detail) for entry in entries]
    kids = [entry["kid"] for entry in keys.jwks(*Use)["keys"]]
    assert sorted(detail["kid"] for detail in details[:-1]) == sorted(kids)
    assert details[-1] == {"kid": fresh, "use": "approval", "active_from": format_instant(clock() + LEAD)}
    assert all(set(detail) == {"kid", "use", "active_from"} for detail in details)
    assert isinstance(database.read_now(lambda session: audit.verify_chain(session, CHAIN)), audit.Verified)


@pytest.mark.anyio
async def test_clock_that_is_set_back_stops_no_signing(
    keys: Keys, database: Database, ring: KeyRing, clock: FakeClock
) -> None:
    """The first key signs before its time rather than none; a younger one never does."""
    first = keys.jwks(Use.BINDING)["keys"][0]["kid"]
    await rotate(database, ring, use=Use.BINDING, now=clock())
    await keys.reload(database, ring)
    clock.advance(-3600)
    token = keys.sign(Use.BINDING, {"iss": ISSUER}, BINDING_TYP)
    assert kid_of(token) == first
    issuers = TrustedIssuers({ISSUER: keys.source(Use.BINDING)})
    assert verify(token, typ=BINDING_TYP, issuers=issuers) == {"iss": ISSUER}
    assert keys.evaluation_kind(keys.mint_evaluation_id("permit")) == "permit"


def kid_of(token: str) -> str:
    return str(tokens.decoded(token.partition(".")[0])["kid"])


@pytest.mark.anyio
@pytest.mark.requirement("PDP-41")
async def test_evaluation_ids_are_unique_and_tell_their_kind_to_us_alone(
    keys: Keys, database: Database, ring: KeyRing, clock: FakeClock
) -> None:
    ids = [keys.mint_evaluation_id("requestable") for _ in range(10_000)]
    assert len(set(ids)) == len(ids)
    assert keys.evaluation_kind(ids[0]) == "requestable"
    assert keys.evaluation_kind(keys.mint_evaluation_id("permit")) == "permit"
    assert keys.evaluation_kind(keys.mint_evaluation_id("deny")) == "deny"
    denied = keys.mint_evaluation_id("deny")
    for forged in ("", "ev_", "ev_é", "ev_" + "A" * 44, denied[:-2] + "AA", denied + "A", ids[0][:3] + denied[3:-22]):
        assert keys.evaluation_kind(forged) is None
    await rotate(database, ring, use=Use.BINDING, now=clock())
    clock.advance((LEAD + timedelta(hours=1)).total_seconds())
    await keys.reload(database, ring)
    assert keys.evaluation_kind(denied) == "deny"


@pytest.mark.parametrize(
    "jwk",
    [
        {},
        {"kty": "oct", "k": "AAAA", "kid": "a"},
        {"kty": "RSA", "n": "AQAB", "e": "AQAB", "kid": "a"},
        {"kty": "EC", "crv": "P-384", "x": "AA", "y": "AA", "kid": "a"},
        {"kty": "EC", "crv": "P-256", "x": "AA", "kid": "a"},
        {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA", "kid": "a"},
    ],
)
def test_key_that_we_cannot_use_is_passed_over(jwk: dict[str, str]) -> None:
    assert import_public(jwk) is None
