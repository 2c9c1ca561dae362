"""Reads, verifies and spoils compact JWS with nothing but a library of primitives, as a black box must."""

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

from blackbox_kit.model import Json, NotRun

CURVES: Final = {
    "P-256": (ec.SECP256R1(), hashes.SHA256(), 32, "ES256"),
    "P-384": (ec.SECP384R1(), hashes.SHA384(), 48, "ES384"),
    "P-521": (ec.SECP521R1(), hashes.SHA512(), 66, "ES512"),
}
RSA: Final[Mapping[str, hashes.HashAlgorithm]] = {
    f"{kind}{digest.digest_size * 8}": digest
    for kind in ("RS", "PS")
    for digest in (hashes.SHA256(), hashes.SHA384(), hashes.SHA512())
}
EDWARDS: Final = ("EdDSA", "Ed25519")
# A secret that two share, which no published key is.
NOBODYS: Final = ("HS256", "HS384", "HS512")
PARTS: Final = 3


class Unreadable(Exception):
    """It is no compact JWS with JSON in it, or no key of the set verifies it; the text says which."""


def encoded(raw: bytes) -> str:
    """Base64url without padding."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def decoded(text: str) -> bytes:
    """Base64url with or without padding.

    Raises:
        Unreadable: It is none.
    """
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        raise Unreadable("it is not base64url") from None


def read(token: Any) -> tuple[Json, Json]:
    """Header and claims, not verified.

    Raises:
        Unreadable: There are none.
    """
    parts = token.split(".") if isinstance(token, str) else []
    if len(parts) != PARTS:
        raise Unreadable("it has not three parts")
    try:
        header, claims = (json.loads(decoded(part)) for part in parts[:2])
    except (ValueError, RecursionError):
        raise Unreadable("its header or its claims are no JSON") from None
    if not isinstance(header, dict) or not isinstance(claims, dict):
        raise Unreadable("its header or its claims are no object")
    return header, claims


def verified(token: Any, keys: Sequence[Any]) -> tuple[Json, Json]:
    """Header and claims of a token that a key of the set verifies, the one of its `kid` where it has one.

    Raises:
        Unreadable: None does.
        NotRun: Its algorithm is none that the suite can verify.
    """
    header, claims = read(token)
    algorithm = header.get("alg")
    if not isinstance(algorithm, str) or algorithm.lower() == "none" or algorithm in NOBODYS:
        raise Unreadable(f"its alg is {algorithm!r}")
    if algorithm not in {*(named for *_, named in CURVES.values()), *RSA, *EDWARDS}:
        raise NotRun(f"the suite does not know signatures with {algorithm}")
    kid = header.get("kid")
    candidates = [key for key in keys if isinstance(key, dict) and (kid is None or key.get("kid") in {kid, None})]
    signed, _, signature = token.rpartition(".")
    if not candidates:
        raise Unreadable(f"no published key has the kid {kid!r}")
    for key in candidates:
        if _verifies(key, algorithm, signed.encode(), decoded(signature)):
            return header, claims
    raise Unreadable("no published key verifies it")


def _verifies(key: Json, algorithm: str, signed: bytes, signature: bytes) -> bool:
    """Whether a key verifies it, by the algorithm that its header names and no other."""
    try:
        if key.get("kty") == "EC" and key.get("crv") in CURVES:
            curve, digest, size, named = CURVES[key["crv"]]
            if algorithm != named or len(signature) != 2 * size:
                return False
            public = ec.EllipticCurvePublicNumbers(_number(key["x"]), _number(key["y"]), curve).public_key()
            halves = (int.from_bytes(half, "big") for half in (signature[:size], signature[size:]))
            public.verify(encode_dss_signature(*halves), signed, ec.ECDSA(digest))
        elif key.get("kty") == "OKP" and key.get("crv") == "Ed25519" and algorithm in EDWARDS:
            ed25519.Ed25519PublicKey.from_public_bytes(decoded(key["x"])).verify(signature, signed)
        elif key.get("kty") == "RSA" and algorithm in RSA:
            digest = RSA[algorithm]
            padded = (
                padding.PKCS1v15()
                if algorithm.startswith("RS")
                else padding.PSS(padding.MGF1(digest), digest.digest_size)
            )
            rsa.RSAPublicNumbers(_number(key["e"]), _number(key["n"])).public_key().verify(
                signature, signed, padded, digest
            )
        else:
            return False
    except (InvalidSignature, ValueError, KeyError, TypeError, AttributeError, Unreadable):
        return False
    return True


def _number(text: str) -> int:
    return int.from_bytes(decoded(text), "big")


# ---- spoiling ----


def with_other_signature(token: str) -> str:
    """The same token, its signature changed in the middle."""
    signed, _, signature = token.rpartition(".")
    raw = bytearray(decoded(signature))
    raw[len(raw) // 2] ^= 1
    return f"{signed}.{encoded(bytes(raw))}"


def with_other_claims(token: str, claims: Json) -> str:
    """Other claims under the old signature."""
    header, _, rest = token.partition(".")
    return f"{header}.{encoded(json.dumps(claims).encode())}.{rest.partition('.')[2]}"


def unsigned(token: str, claims: Json) -> str:
    """The claims with `alg: none`."""
    header = {**read(token)[0], "alg": "none"}
    return f"{encoded(json.dumps(header).encode())}.{encoded(json.dumps(claims).encode())}."


def with_own_key(token: str, claims: Json) -> str:
    """The claims signed by a new key that stands in the header."""
    key = ec.generate_private_key(ec.SECP256R1())
    numbers = key.public_key().public_numbers()
    x, y = (encoded(number.to_bytes(32, "big")) for number in (numbers.x, numbers.y))
    header = {**read(token)[0], "alg": "ES256", "jwk": {"kty": "EC", "crv": "P-256", "x": x, "y": y}}
    signed = f"{encoded(json.dumps(header).encode())}.{encoded(json.dumps(claims).encode())}"
    r, s = decode_dss_signature(key.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
    return f"{signed}.{encoded(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}"
