"""An authorization server for tests: keys, their set, and signed access tokens."""

import time
from dataclasses import dataclass, field
from typing import Any

import httpx2
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet

ISSUER = "https://issuer.example"
RESOURCE = "https://gate.example/mcp"


@dataclass
class TestIssuer:
    """Signs with the newest of its keys; `fetched` counts how often its key set was asked for."""

    __test__ = False

    keys: list[ECKey] = field(default_factory=list)
    fetched: int = 0
    down: bool = False

    def __post_init__(self) -> None:
        if not self.keys:
            self.rotate("k1")

    def rotate(self, kid: str) -> None:
        """Add a key and sign with it from now on."""
        self.keys.append(ECKey.generate_key("P-256", parameters={"kid": kid, "use": "sig", "alg": "ES256"}))

    def transport(self) -> httpx2.MockTransport:
        """Serves the key set at any URL."""

        def handle(_: httpx2.Request) -> httpx2.Response:
            self.fetched += 1
            if self.down:
                raise httpx2.ConnectError("down")
            return httpx2.Response(200, json=KeySet(list(self.keys)).as_dict(private=False))

        return httpx2.MockTransport(handle)

    def token(
        self, sub: str = "alice", *, client: str = "agent-7", header: dict[str, Any] | None = None, **claims: Any
    ) -> str:
        """An access token of `sub` through `client`, valid for an hour unless `claims` say otherwise."""
        now = int(claims.pop("now", time.time()))
        payload = {
            "iss": ISSUER,
            "aud": RESOURCE,
            "sub": sub,
            "client_id": client,
            "iat": now,
            "exp": now + 3600,
            "scope": "mcp",
            **claims,
        }
        payload = {name: value for name, value in payload.items() if value is not None}
        key = self.keys[-1]
        return jwt.encode({"alg": "ES256", "typ": "at+jwt", "kid": key.kid, **(header or {})}, payload, key)
