"""Somebody else's decision point and somebody else's request service, in raw dicts and with signatures of their own.

They are written from the profile's text and import nothing of this project, so that both ends cannot be wrong together.
Each trusts the other half by an identifier and a key set that it fetches with `fetch`.
"""

import base64
import json
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256

BOUND = ("agent", "arguments_hash", "server")
Clock = Callable[[], datetime]
Fetch = Callable[[str], dict[str, Any]]


def encoded(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


@dataclass
class Signer:
    """ES256 keys by id, the last of which signs; `published` are the ids in the key set."""

    prefix: str
    keys: dict[str, ec.EllipticCurvePrivateKey] = field(default_factory=dict)
    current: str = ""
    published: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.current = self.announce()

    def announce(self) -> str:
        """Publish a new key, which does not sign yet."""
        kid = f"{self.prefix}-{len(self.keys) + 1}"
        self.keys[kid] = ec.generate_private_key(ec.SECP256R1())
        self.published.append(kid)
        return kid

    def jwks(self) -> dict[str, Any]:
        return {"keys": [self._jwk(kid) for kid in self.published]}

    def _jwk(self, kid: str) -> dict[str, Any]:
        point = self.keys[kid].public_key().public_numbers()
        x, y = (encoded(part.to_bytes(32, "big")) for part in (point.x, point.y))
        return {"kty": "EC", "crv": "P-256", "x": x, "y": y, "kid": kid, "use": "sig", "alg": "ES256"}

    def sign(self, claims: Mapping[str, Any], *, typ: str, kid: str | None = None) -> str:
        kid = kid or self.current
        head = {"alg": "ES256", "typ": typ, "kid": kid}
        body = ".".join(encoded(json.dumps(part).encode()) for part in (head, dict(claims)))
        r, s = decode_dss_signature(self.keys[kid].sign(body.encode(), ec.ECDSA(SHA256())))
        return f"{body}.{encoded(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}"


def verified(token: str, jwks: Mapping[str, Any], *, typ: str) -> dict[str, Any] | None:
    """The claims of a token that one of these keys signed."""
    head, _, signature = token.split(".")
    header = json.loads(decoded(head))
    jwk = next((key for key in jwks["keys"] if key["kid"] == header["kid"]), None)
    if jwk is None or header["typ"] != typ or header["alg"] != "ES256":
        return None
    x, y = (int.from_bytes(decoded(jwk[name]), "big") for name in ("x", "y"))
    raw = decoded(signature)
    r, s = int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big")
    try:
        ec.EllipticCurvePublicNumbers(x, y, ec.SECP256R1()).public_key().verify(
            encode_dss_signature(r, s), token.rpartition(".")[0].encode(), ec.ECDSA(SHA256())
        )
    except InvalidSignature:
        return None
    claims: dict[str, Any] = json.loads(decoded(token.split(".")[1]))
    return claims


def about(asked: Mapping[str, Any]) -> dict[str, Any]:
    """What of a question is bound."""
    context = {name: asked.get("context", {})[name] for name in BOUND if name in asked.get("context", {})}
    return {"subject": asked["subject"], "resource": asked["resource"], "action": asked["action"], "context": context}


@dataclass
class ForeignArapDecisionPoint:
    """`rules` maps a tool to permit, deny or request; it honours approvals that `service` has signed for it."""

    identifier: str
    request_endpoint: str
    rules: dict[str, str]
    service: tuple[str, str]
    fetch: Fetch
    now: Clock = lambda: datetime.now(UTC)
    signer: Signer = field(default_factory=lambda: Signer("pdp"))
    reevaluations: list[dict[str, Any]] = field(default_factory=list)

    def answer(self, request: httpx2.Request) -> httpx2.Response:
        """What it answers to one request."""
        match request.url.path:
            case "/.well-known/authzen-configuration":
                return httpx2.Response(200, json=self._metadata())
            case "/keys":
                return httpx2.Response(200, json=self.signer.jwks())
            case "/evaluation":
                return httpx2.Response(200, json=self.decide(json.loads(request.content)))
            case _:
                return httpx2.Response(404)

    def _metadata(self) -> dict[str, Any]:
        return {
            "policy_decision_point": self.identifier,
            "access_evaluation_endpoint": f"{self.identifier}/evaluation",
            "access_request_endpoint": self.request_endpoint,
            "jwks_uri": f"{self.identifier}/keys",
        }

    def decide(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Its decision response."""
        rule = self.rules.get(asked["resource"]["id"], "deny")
        if rule == "permit":
            return {"decision": True}
        if rule == "deny":
            return {"decision": False, "context": {"reason": "closed"}}
        approval = asked.get("context", {}).get("approval")
        if approval is not None:
            return self._reevaluation(asked, approval)
        return {"decision": False, "context": self.denial(asked)}

    def denial(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """The context of a denial that can be requested."""
        ends = self.now().replace(microsecond=0) + timedelta(seconds=300)
        evaluation_id = "eval-" + secrets.token_hex(6)
        claims = {
            "iss": self.identifier,
            "aud": self.request_endpoint,
            "iat": int(self.now().timestamp()),
            "exp": int(ends.timestamp()),
            "jti": secrets.token_hex(6),
            "evaluation_id": evaluation_id,
            "denial_expires_at": ends.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "binding_context_members": [name for name in BOUND if name in asked.get("context", {})],
            **about(asked),
        }
        return {
            "evaluation_id": evaluation_id,
            "reason": "approval_required",
            "access_request": {
                "endpoint": self.request_endpoint,
                "expires_at": claims["denial_expires_at"],
                "binding_token": self.signer.sign(claims, typ="arap-denial-binding+jwt"),
            },
        }

    def _reevaluation(self, asked: Mapping[str, Any], approval: Mapping[str, Any]) -> dict[str, Any]:
        issuer, keys = self.service
        claims = verified(approval["state"], self.fetch(keys), typ="arap-approval-state+jwt") or {}
        self.reevaluations.append(claims)
        good = (
            claims.get("iss") == issuer
            and claims.get("aud") == self.identifier
            and claims.get("approval_id") == approval["id"]
            and claims.get("exp", 0) > self.now().timestamp()
            and about(asked) == {name: claims.get(name) for name in ("subject", "resource", "action", "context")}
        )
        if not good:
            return {"decision": False, "context": {"reason": "approval_unverifiable", "next_action": "none"}}
        return {"decision": True, "context": {"approval": {"id": approval["id"]}}}


@dataclass
class ForeignRequestService:
    """Opens a task for every denial that `pdp` has signed for it, and signs approvals for that decision point."""

    identifier: str
    pdp: tuple[str, str]
    fetch: Fetch
    now: Clock = lambda: datetime.now(UTC)
    signer: Signer = field(default_factory=lambda: Signer("ars"))
    tasks: dict[str, dict[str, Any]] = field(default_factory=dict)
    refused: int = 0

    @property
    def endpoint(self) -> str:
        """Where requests are submitted."""
        return f"{self.identifier}/requests"

    def answer(self, request: httpx2.Request) -> httpx2.Response:
        """What it answers to one request."""
        path = request.url.path
        if path == "/keys":
            return httpx2.Response(200, json=self.signer.jwks())
        if path == "/requests":
            return self.submit(json.loads(request.content))
        task_id = path.removeprefix("/requests/")
        if task_id in self.tasks:
            return httpx2.Response(200, json=self._wire(task_id))
        return httpx2.Response(404)

    def submit(self, body: Mapping[str, Any]) -> httpx2.Response:
        """Take a submission whose binding token is good."""
        issuer, keys = self.pdp
        claims = verified(body["denial"]["binding_token"], self.fetch(keys), typ="arap-denial-binding+jwt") or {}
        bound = {name: claims.get(name) for name in ("subject", "resource", "action", "context")}
        if (
            claims.get("iss") != issuer
            or claims.get("aud") != self.endpoint
            or claims["exp"] <= self.now().timestamp()
            or bound != about(body)
        ):
            self.refused += 1
            name = "urn:openid:authzen:access-request:error:invalid_denial_binding"
            return httpx2.Response(400, json={"type": name, "status": 400})
        task_id = "req-" + secrets.token_hex(8)
        self.tasks[task_id] = {"status": "pending", "claims": claims, "bound": bound}
        return httpx2.Response(202, json=self._wire(task_id))

    def approve(self, task_id: str) -> dict[str, Any]:
        """Approve, as somebody there would; returns the approval."""
        task, now = self.tasks[task_id], self.now().replace(microsecond=0)
        until, approval_id = now + timedelta(seconds=600), "yes-" + secrets.token_hex(6)
        claims = {
            "iss": self.identifier,
            "aud": task["claims"]["iss"],
            "iat": int(now.timestamp()),
            "exp": int(until.timestamp()),
            "jti": secrets.token_hex(6),
            "approval_id": approval_id,
            "task_id": task_id,
            "client_id": task["claims"].get("client_id"),
            "binding_context_members": task["claims"]["binding_context_members"],
            **task["bound"],
        }
        state = self.signer.sign(claims, typ="arap-approval-state+jwt")
        ends = until.strftime("%Y-%m-%dT%H:%M:%SZ")
        task["approval"] = {"id": approval_id, "approved_until": ends, "state": state}
        task["status"] = "approved"
        approval: dict[str, Any] = task["approval"]
        return approval

    def deny(self, task_id: str) -> None:
        """Deny."""
        self.tasks[task_id]["status"] = "denied"

    def _wire(self, task_id: str) -> dict[str, Any]:
        task = self.tasks[task_id]
        ends = (self.now() + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
        shown = {
            "id": task_id,
            "status": task["status"],
            "status_endpoint": f"{self.endpoint}/{task_id}",
            "expires_at": ends,
        }
        if task["status"] != "approved":
            return {"task": shown}
        return {"task": shown, "result": {"mode": "reevaluate", "approval": task["approval"]}}
