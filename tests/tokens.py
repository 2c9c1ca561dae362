"""Tokens made by hand, good and bad, for whatever verifies them."""

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from joserfc import jws
from joserfc.jwk import ECKey, OKPKey

from arap_service.keys import ACCESS_TYP, PublicKey
from tests.clock import START


class FixedKeys:
    """The keys of one issuer, none of them ever fetched; remembers which ids it was asked to prepare."""

    def __init__(self, *keys: PublicKey) -> None:
        self.keys = {str(key.kid): key for key in keys}
        self.prepared: list[str] = []

    def find(self, kid: str) -> PublicKey | None:
        return self.keys.get(kid)

    async def prepare(self, kid: str) -> None:
        self.prepared.append(kid)


def key(kid: str) -> ECKey:
    """A fresh ES256 key."""
    return ECKey.generate_key("P-256", {"kid": kid, "use": "sig", "alg": "ES256"})


def encoded(value: object) -> str:
    """One part of a compact JWS."""
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def signed(signer: ECKey, claims: Mapping[str, Any], *, typ: str | None = ACCESS_TYP, **header: Any) -> str:
    """A JWS over `claims` with a header of our choice."""
    head = {"alg": "ES256", "typ": typ, "kid": signer.kid, **header}
    head = {name: value for name, value in head.items() if value is not None}
    return jws.serialize_compact(head, json.dumps(claims).encode(), signer, algorithms=["ES256"])


def ed25519(kid: str, claims: Mapping[str, Any], *, alg: str, typ: str = ACCESS_TYP) -> tuple[str, OKPKey]:
    """A JWS signed with a fresh Ed25519 key, and that key's public half."""
    private = Ed25519PrivateKey.generate()
    body = f"{encoded({'alg': alg, 'typ': typ, 'kid': kid})}.{encoded(dict(claims))}"
    public: dict[str, str | list[str]] = {
        "kty": "OKP",
        "crv": "Ed25519",
        "x": encoded(private.public_key().public_bytes_raw()),
        "kid": kid,
    }
    return f"{body}.{encoded(private.sign(body.encode()))}", OKPKey.import_key(public)


def unsigned(signer: ECKey, claims: Mapping[str, Any], *, typ: str = ACCESS_TYP) -> str:
    """A token that says it needs no signature."""
    return f"{encoded({'alg': 'none', 'typ': typ, 'kid': signer.kid})}.{encoded(dict(claims))}."


def hmac_with_public_key(signer: ECKey, claims: Mapping[str, Any], *, typ: str = ACCESS_TYP) -> str:
    """A token whose shared secret is the public key that everybody has."""
    body = f"{encoded({'alg': 'HS256', 'typ': typ, 'kid': signer.kid})}.{encoded(dict(claims))}"
    secret = signer.as_pem(private=False)
    return f"{body}.{encoded(hmac.digest(secret, body.encode(), hashlib.sha256))}"


def with_own_key(signer: ECKey, claims: Mapping[str, Any], *, typ: str = ACCESS_TYP) -> str:
    """A token that brings along the key it wants to be verified with."""
    stranger = key(str(signer.kid))
    return signed(stranger, claims, typ=typ, jwk=stranger.as_dict(private=False))


def access_claims(**changes: Any) -> dict[str, Any]:
    """Claims of an access token for the service of `tests.service`; None leaves a claim out."""
    claims: dict[str, Any] = {
        "iss": "https://issuer.example",
        "aud": "https://approvals.example",
        "sub": "agent-7",
        "client_id": "gate",
        "scope": "arap:submit arap:status",
        "iat": int(START.timestamp()),
        "exp": int((START + timedelta(minutes=10)).timestamp()),
        "jti": "a-token",
    }
    return {name: value for name, value in {**claims, **changes}.items() if value is not None}


def decoded(part: str) -> dict[str, Any]:
    """What one part of a compact JWS holds."""
    value: dict[str, Any] = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return value
