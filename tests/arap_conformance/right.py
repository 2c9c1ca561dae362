"""Services that are right and unusual: what the draft leaves to them is no fault."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, ClassVar, Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from tests.arap_conformance.plain_decisions import Answer, Refusal
from tests.arap_conformance.signatures import Json, Signer, decoded, encoded
from tests.arap_conformance.subject import PlainService, problem


@dataclass
class RsaSigner(Signer):
    """One RSA key, and the algorithm that it signs with."""

    algorithm: str = "PS256"
    pair: rsa.RSAPrivateKey = field(default_factory=lambda: rsa.generate_private_key(65537, 2048))

    def jwk(self) -> Json:
        public = self.pair.public_key().public_numbers()
        numbers = {
            name: encoded(value.to_bytes((value.bit_length() + 7) // 8, "big"))
            for name, value in (("n", public.n), ("e", public.e))
        }
        return {"kty": "RSA", **numbers, "kid": self.kid, "use": "sig", "alg": self.algorithm}

    def _how(self) -> tuple[Any, hashes.HashAlgorithm]:
        digest = hashes.SHA256() if self.algorithm.endswith("256") else hashes.SHA512()
        salted = padding.PSS(padding.MGF1(digest), digest.digest_size)
        return (salted if self.algorithm.startswith("PS") else padding.PKCS1v15()), digest

    def sign(self, claims: Any, *, typ: str) -> str:
        head = {"alg": self.algorithm, "typ": typ, "kid": self.kid}
        body = ".".join(encoded(json.dumps(part).encode()) for part in (head, dict(claims)))
        return f"{body}.{encoded(self.pair.sign(body.encode(), *self._how()))}"

    def is_mine(self, token: Any) -> bool:
        """Whether this key signed it, by this algorithm."""
        head, _, rest = str(token).partition(".")
        payload, _, signature = rest.partition(".")
        try:
            header = json.loads(decoded(head))
            self.pair.public_key().verify(decoded(signature), f"{head}.{payload}".encode(), *self._how())
        except (ValueError, InvalidSignature):
            return False
        return bool(header == {"alg": self.algorithm, "typ": header["typ"], "kid": self.kid})


class SignsDenialsWithPs256(PlainService):
    """Its binding tokens are signed by an RSA key."""

    algorithm: ClassVar[str] = "PS256"

    def __init__(self, base: str = "https://plain.example", **more: Any) -> None:
        super().__init__(base, **more)
        self.rsa = RsaSigner("pdp-1", algorithm=self.algorithm)
        self.signers["pdp"] = self.rsa

    def opened(self, token: Any) -> Json:
        if not self.rsa.is_mine(token):
            raise problem("invalid_denial_binding")
        claims: Json = json.loads(decoded(str(token).split(".")[1]))
        return claims


class SignsDenialsWithRs512(SignsDenialsWithPs256):
    algorithm = "RS512"


class SaysProvisioningBeforeApproved(PlainService):
    """It has a status of its own on the way to an approval."""

    def shown(self, task: Json, caller: Json) -> Json:
        found = super().shown(task, caller)
        is_automatic = task["parts"][0]["question"]["resource"]["id"].startswith("auto")
        if task["status"] != "approved" or task["bulk"] or is_automatic or task.get("is_ready"):
            return found
        task["is_ready"] = True
        return {"task": found["task"] | {"status": "provisioning"}}


class ProtectsItsExpOnly(PlainService):
    """Its tokens have no end but `exp`, which is the denial's."""

    def binding_claims(self, evaluation_id: str, record: Json) -> Json:
        claims = super().binding_claims(evaluation_id, record)
        del claims["denial_expires_at"]
        return claims

    def by_token(self, token: Any) -> Json:
        claims = self.opened(token)
        self.audience(claims)
        ends = datetime.fromtimestamp(claims["exp"], UTC)
        kept = self.evaluations[claims["evaluation_id"]]
        more = {"evaluation_id": claims["evaluation_id"], "once": claims["jti"]}
        return kept | {"ends": ends, "protected": ends, "requestable": True} | more

    def fresh(self, found: Json, echoed: datetime, *, by_token: bool) -> None:
        if by_token and echoed < found["protected"]:
            raise problem("invalid_denial_binding")
        self.in_time(found)


class ForbidsCallbacks(PlainService):
    """A callback that it does not want is forbidden, not malformed."""

    def destination(self, body: Json, caller: Json) -> None:
        try:
            super().destination(body, caller)
        except Refusal as refusal:
            raise Refusal(replace(refusal.answer, status=403)) from None


class HasMoreToSay(PlainService):
    """There are members and headers of its own everywhere, and a diagnosis beside a denial."""

    def shown(self, task: Json, caller: Json) -> Json:
        found = super().shown(task, caller)
        found["task"] |= {"x-more": None, "progress": {"percent": 5}}
        if task["status"] == "denied" and not task["bulk"]:
            found["result"] = {"mode": "urn:example:diagnosis", "why": "no"}
        return found | {"x-more": {"any": [1]}}

    def described(self) -> Answer:
        return replace(super().described(), kind="application/json; charset=utf-8")

    def page(self, found: Sequence[Json], start: int, most: int) -> Json:
        return super().page(found, start, most) | {"total": len(found)}


RIGHT: Final[tuple[type[PlainService], ...]] = (
    SignsDenialsWithPs256,
    SignsDenialsWithRs512,
    SaysProvisioningBeforeApproved,
    ProtectsItsExpOnly,
    ForbidsCallbacks,
    HasMoreToSay,
)
