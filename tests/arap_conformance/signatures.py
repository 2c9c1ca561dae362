"""ES256 keys and compact signatures of the hand-written service, and what it takes for equal.

Written from the JWS and access-request texts, sharing nothing with ours.
"""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256

Json = dict[str, Any]


class Unreadable(ValueError):
    """It is no compact signature that any of the keys made."""


def encoded(raw: bytes) -> str:
    """Base64url without padding."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def decoded(text: str) -> bytes:
    """The bytes of base64url without padding."""
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


@dataclass
class Signer:
    """One ES256 key and its id."""

    kid: str
    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))

    def jwk(self) -> Json:
        """The public key as it is published."""
        point = self.key.public_key().public_numbers()
        x, y = (encoded(part.to_bytes(32, "big")) for part in (point.x, point.y))
        return {"kty": "EC", "crv": "P-256", "x": x, "y": y, "kid": self.kid, "use": "sig", "alg": "ES256"}

    def sign(self, claims: Mapping[str, Any], *, typ: str) -> str:
        """A compact signature over the claims."""
        head = {"alg": "ES256", "typ": typ, "kid": self.kid}
        body = ".".join(encoded(json.dumps(part).encode()) for part in (head, dict(claims)))
        r, s = decode_dss_signature(self.key.sign(body.encode(), ec.ECDSA(SHA256())))
        return f"{body}.{encoded(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}"


def opened(token: Any, *, signer: Signer, typ: str, key: ec.EllipticCurvePublicKey | None = None) -> Json:
    """The claims of a token of this type that this signer, or this key of his, signed.

    Raises:
        Unreadable: It is none.
    """
    try:
        head, payload, signature = str(token).split(".")
        header, raw = json.loads(decoded(head)), decoded(signature)
        if (header["alg"], header["typ"], header["kid"], len(raw)) != ("ES256", typ, signer.kid, 64):
            raise Unreadable
        halves = (int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big"))
        (key or signer.key.public_key()).verify(
            encode_dss_signature(*halves), f"{head}.{payload}".encode(), ec.ECDSA(SHA256())
        )
        claims: Json = json.loads(decoded(payload))
    except (ValueError, KeyError, TypeError, InvalidSignature):
        raise Unreadable from None
    return claims


def plain(value: Any) -> str:
    """One text for all that is structurally equal, such as 1 and 1.0, but not true and 1."""
    return json.dumps(_normal(value), sort_keys=True, separators=(",", ":"))


def _normal(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _normal(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_normal(member) for member in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
