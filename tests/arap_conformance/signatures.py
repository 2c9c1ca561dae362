"""Ed25519 keys and compact signatures of the hand-written service, and what it takes for equal.

Written from the JWS and access-request texts, sharing nothing with ours.
"""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

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
    """One key and its id."""

    kid: str
    key: Ed25519PrivateKey = field(default_factory=Ed25519PrivateKey.generate)

    def jwk(self) -> Json:
        """The public key as it is published."""
        raw = self.key.public_key().public_bytes_raw()
        return {"kty": "OKP", "crv": "Ed25519", "x": encoded(raw), "kid": self.kid, "use": "sig", "alg": "EdDSA"}

    def sign(self, claims: Mapping[str, Any], *, typ: str) -> str:
        """A compact signature over the claims."""
        head = {"alg": "EdDSA", "typ": typ, "kid": self.kid}
        body = ".".join(encoded(json.dumps(part).encode()) for part in (head, dict(claims)))
        return f"{body}.{encoded(self.key.sign(body.encode()))}"


def opened(token: Any, *, signer: Signer, typ: str) -> Json:
    """The claims of a token of this type that this signer signed.

    Raises:
        Unreadable: It is none.
    """
    try:
        head, payload, signature = str(token).split(".")
        header = json.loads(decoded(head))
        if (header["alg"], header["typ"], header["kid"]) != ("EdDSA", typ, signer.kid):
            raise Unreadable
        signer.key.public_key().verify(decoded(signature), f"{head}.{payload}".encode())
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
