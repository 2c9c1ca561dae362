"""An OpenID provider in the hands of a test: it does what a real one does, and lies where it is told to.

It speaks HTTP on loopback for whatever the service asks, and stands in for the pages that people see: `authorize` is
what happens while a browser is away.
"""

import base64
import hashlib
import json
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from email.message import Message
from html import unescape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx2
from joserfc import jws
from joserfc.jwk import ECKey

from tests.clock import FakeClock
from tests.tokens import encoded
from tests.web.desk import Browser

CLIENT: Final = "desk"
CLIENT_SECRET: Final = "a secret that both of them know"
LOGOUT_EVENT: Final = "http://schemas.openid.net/event/backchannel-logout"
_REFRESH: Final = re.compile(r'<meta http-equiv="refresh" content="0; url=([^"]+)">')


def leads_to(page: httpx2.Response) -> str:
    """Where a page goes on to by itself."""
    found = _REFRESH.search(page.text)
    assert found is not None, page.text
    return unescape(found[1])


def key(kid: str) -> ECKey:
    """A fresh signing key."""
    return ECKey.generate_key("P-256", {"kid": kid, "use": "sig", "alg": "ES256"})


class TestProvider:
    """What the provider knows, publishes and hands out; every member may be changed by a test at any time."""

    __test__ = False

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.issuer = ""
        self.keys = [key("first")]
        self.people: dict[str, dict[str, Any]] = {}
        self.metadata_changes: dict[str, Any] = {}
        self.claim_changes: dict[str, Any] = {}
        self.userinfo_only: frozenset[str] = frozenset()
        self.userinfo_changes: dict[str, Any] = {}
        self.id_token: str | None = None
        """What is handed out instead of a token that is made properly."""
        self.token_status = 200
        self.asked: list[str] = []
        self._codes: dict[str, dict[str, Any]] = {}
        self._access: dict[str, str] = {}

    def settings(self, **changes: Any) -> dict[str, Any]:
        """The section `login.oidc` for a service that trusts this provider."""
        known = {"issuer": self.issuer, "client_id": CLIENT, "client_secret": CLIENT_SECRET, "groups_claim": "groups"}
        return {**known, "create_people": True, **changes}

    def authorize(self, url: str, sub: str) -> str:
        """Log `sub` in where `url` asks for it; the address that the browser is sent back to."""
        parts = urlsplit(url)
        assert f"{parts.scheme}://{parts.netloc}{parts.path}" == f"{self.issuer}/authorize"
        asked = {name: values[0] for name, values in parse_qs(parts.query).items()}
        assert asked["response_type"] == "code"
        assert asked["client_id"] == CLIENT
        assert asked["code_challenge_method"] == "S256"
        code = f"code-{len(self._codes)}-{sub}"
        self._codes[code] = {**asked, "sub": sub}
        answer = {"code": code, "state": asked["state"], "iss": self.issuer}
        return f"{asked['redirect_uri']}?{urlencode(answer)}"

    def claims(self, asked: Mapping[str, Any], **changes: Any) -> dict[str, Any]:
        """What an ID token says; None leaves a claim out."""
        now = int(self.clock().timestamp())
        claims = {
            "iss": self.issuer,
            "aud": CLIENT,
            "sub": asked["sub"],
            "nonce": asked["nonce"],
            "iat": now,
            "exp": now + 300,
            "auth_time": now,
            "sid": f"sid-of-{asked['sub']}",
            **{name: value for name, value in self._told(asked["sub"]).items() if name not in self.userinfo_only},
            **self.claim_changes,
            **changes,
        }
        return {name: value for name, value in claims.items() if value is not None}

    def logout_token(self, *, signer: ECKey | None = None, typ: str = "logout+jwt", **changes: Any) -> str:
        """A logout token; None leaves a claim out."""
        now = int(self.clock().timestamp())
        claims = {"iss": self.issuer, "aud": CLIENT, "iat": now, "exp": now + 120, "jti": "a-word"}
        claims |= {"events": {LOGOUT_EVENT: {}}, **changes}
        said = {name: value for name, value in claims.items() if value is not None}
        return self.signed(said, signer=signer, typ=typ)

    def signed(self, claims: Mapping[str, Any], *, signer: ECKey | None = None, **header: Any) -> str:
        """A token by the newest key or another."""
        signer = signer or self.keys[-1]
        head = {"alg": "ES256", "kid": signer.kid, **header}
        return jws.serialize_compact(head, json.dumps(dict(claims)).encode(), signer, algorithms=["ES256"])

    def answer(self, path: str, form: Mapping[str, str], headers: Message) -> tuple[int, Any]:
        """What is answered to a call of the service."""
        self.asked.append(path)
        if path in {"/authorize", "/logout"}:
            return 200, "<!doctype html><title>The provider</title><h1>The provider</h1>"
        if path == "/.well-known/openid-configuration":
            return 200, self._metadata()
        if path == "/jwks":
            return 200, {"keys": [each.as_dict(private=False) for each in self.keys]}
        if path == "/userinfo":
            sub = self._access[headers["Authorization"].removeprefix("Bearer ")]
            return 200, {"sub": sub, **self._told(sub), **self.userinfo_changes}
        if path == "/token":
            return self._token(form, headers)
        return 404, {}

    def _told(self, sub: str) -> dict[str, Any]:
        return self.people.get(sub, {"name": sub.title(), "email": f"{sub}@id.example", "groups": []})

    def _metadata(self) -> dict[str, Any]:
        own = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "userinfo_endpoint": f"{self.issuer}/userinfo",
            "jwks_uri": f"{self.issuer}/jwks",
            "end_session_endpoint": f"{self.issuer}/logout",
            "authorization_response_iss_parameter_supported": True,
        }
        return {name: value for name, value in (own | self.metadata_changes).items() if value is not None}

    def _token(self, form: Mapping[str, str], headers: Message) -> tuple[int, Any]:
        if self.token_status != 200:
            return self.token_status, "no JSON at all"
        credentials = base64.b64decode(headers.get("Authorization", "").removeprefix("Basic ")).decode()
        if credentials != f"{CLIENT}:{CLIENT_SECRET}":
            return 401, {"error": "invalid_client"}
        asked = self._codes.pop(form.get("code", ""), None)
        challenge = encoded(hashlib.sha256(form.get("code_verifier", "").encode()).digest())
        if asked is None or challenge != asked["code_challenge"] or form["redirect_uri"] != asked["redirect_uri"]:
            return 400, {"error": "invalid_grant"}
        access = f"access-{len(self._access)}"
        self._access[access] = asked["sub"]
        id_token = self.id_token or self.signed(self.claims(asked))
        return 200, {"access_token": access, "token_type": "Bearer", "expires_in": 60, "id_token": id_token}


@contextmanager
def running(provider: TestProvider) -> Iterator[TestProvider]:
    """The provider on a loopback port, for as long as the context lasts."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer({})

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            self._answer({name: values[0] for name, values in parse_qs(body).items()})

        def log_message(self, *_: Any) -> None:
            """Tests are quiet."""

        def _answer(self, form: Mapping[str, str]) -> None:
            status, said = provider.answer(urlsplit(self.path).path, form, self.headers)
            body = (said if isinstance(said, str) else json.dumps(said)).encode()
            self.send_response(status)
            self.send_header("Content-Type", "text/html" if isinstance(said, str) else "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        provider.issuer = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield provider
        finally:
            server.shutdown()
            thread.join()


async def leave(browser: Browser, *, target: str = "/desk") -> str:
    """Begin to log in by the provider; the address that the browser is sent to."""
    page = await browser.client.get("/login", params={"next": target})
    return leads_to(await browser.submit("/login/provider", seen=page, next=target))


async def log_in(browser: Browser, provider: TestProvider, sub: str, *, target: str = "/desk") -> httpx2.Response:
    """Log in by the provider; what the way back is answered with."""
    return await browser.get(provider.authorize(await leave(browser, target=target), sub))
