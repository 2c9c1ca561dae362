"""A decision point of somebody else's, written in raw dicts from the Authorization API alone.

It knows nothing of access requests and nothing of this project. It answers over an httpx2 mock transport or wherever
its `answer` is called, keeps what it was asked, and does what its script says.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx2
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

IDENTIFIER = "https://decisions.example/tenant"
Script = Callable[[httpx2.Request], httpx2.Response | None]


@dataclass
class ForeignDecisionPoint:
    """`answers` maps the id of a resource to its decision response; what is not named is denied without a reason."""

    answers: dict[str, dict[str, Any]] = field(default_factory=dict)
    identifier: str = IDENTIFIER
    searches: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    token: str | None = None
    asked: list[dict[str, Any]] = field(default_factory=list)
    received: list[httpx2.Request] = field(default_factory=list)
    script: Script = lambda _: None

    def transport(self) -> httpx2.MockTransport:
        """It as the transport of an httpx2 client."""
        return httpx2.MockTransport(self.answer)

    def app(self) -> Starlette:
        """It as an ASGI application; set `identifier` to the base URL under which it is served."""

        async def endpoint(request: Request) -> Response:
            body = await request.body()
            answer = self.answer(
                httpx2.Request(request.method, str(request.url), headers=request.headers, content=body)
            )
            return Response(answer.content, answer.status_code, media_type="application/json")

        return Starlette(routes=[Route("/{path:path}", endpoint, methods=["GET", "POST"])])

    def permit(self, resource: str, **context: Any) -> None:
        """Permit whatever is asked about a resource from now on."""
        self.answers[resource] = {"decision": True, "context": context} if context else {"decision": True}

    def deny(self, resource: str, reason: str | None = None, **context: Any) -> None:
        """Deny it from now on."""
        members = context if reason is None else {**context, "reason": reason}
        self.answers[resource] = {"decision": False, "context": members} if members else {"decision": False}

    def answer(self, request: httpx2.Request) -> httpx2.Response:
        """What it answers to one request."""
        self.received.append(request)
        scripted = self.script(request)
        if scripted is not None:
            return scripted
        path = str(request.url)
        origin, _, tenant = self.identifier.partition("://")[2].partition("/")
        well_known = f"{self.identifier.partition('://')[0]}://{origin}/.well-known/authzen-configuration"
        if path == (f"{well_known}/{tenant}" if tenant else well_known):
            return httpx2.Response(200, json=self.metadata())
        if path == f"{self.identifier}/token":
            return httpx2.Response(200, json={"access_token": self.token, "token_type": "Bearer", "expires_in": 300})
        if self.token is not None and request.headers.get("authorization") != f"Bearer {self.token}":
            return httpx2.Response(401)
        if path == f"{self.identifier}/decide":
            return self._decision(json.loads(request.content))
        kind = path.removeprefix(f"{self.identifier}/find/")
        if kind in self.searches:
            return self._page(kind, json.loads(request.content))
        return httpx2.Response(404)

    def metadata(self) -> dict[str, Any]:
        """What it says about itself."""
        said = {
            "policy_decision_point": self.identifier,
            "access_evaluation_endpoint": f"{self.identifier}/decide",
        }
        return said | {f"search_{kind}_endpoint": f"{self.identifier}/find/{kind}" for kind in self.searches}

    def _decision(self, asked: dict[str, Any]) -> httpx2.Response:
        self.asked.append(asked)
        return httpx2.Response(200, json=self.answers.get(asked["resource"]["id"], {"decision": False}))

    def _page(self, kind: str, asked: dict[str, Any]) -> httpx2.Response:
        self.asked.append(asked)
        page = asked.get("page", {})
        start, most = int(page.get("token", "0")), int(page.get("limit", 100))
        found = self.searches[kind][start : start + most]
        following = "" if start + most >= len(self.searches[kind]) else str(start + most)
        return httpx2.Response(200, json={"page": {"next_token": following}, "results": found})
