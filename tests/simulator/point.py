"""An enforcement point written by hand from the specifications, and the ways in which it can be wrong.

Plain dictionaries over HTTP. Each defect is one line; without any it keeps the rules.
"""

import json
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx2
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from arap_service.protocol.callback import CallbackRejected, verify
from arap_service.simulator.driving import Target
from arap_service.surroundings import utc_now
from tests.patience import as_told
from tests.pdp import question
from tests.service import CALLBACK_KEY
from tests.simulator.world import Rehearsal

ENDED = {"approved", "denied", "expired", "cancelled", "failed"}


@dataclass
class Point:
    """One enforcement point; `defect` names what it does wrong, `ran` counts its tool."""

    http: httpx2.AsyncClient
    defect: str | None = None
    callback: str | None = None
    ran: int = 0
    claimed: list[str] = field(default_factory=list)

    async def call(self) -> bool:
        """One call of the tool; whether it was permitted."""
        try:
            answer = (await self.http.post("/access/v1/evaluation", json=question())).json()
        except (httpx2.HTTPError, ValueError):
            return False
        if answer["decision"] is True or (self.defect == "truthy-decision" and answer["decision"]):
            return await self.run(None)
        if answer["decision"] is not False or "access_request" not in answer.get("context", {}):
            return False
        return await self.request(answer["context"])

    async def request(self, denial: dict[str, Any]) -> bool:
        """Ask for approval, wait for it, and present it."""
        task = await self.submit(denial)
        if task is None:
            return await self.call() if self.defect == "new-key" else False
        shown = await self.wait(task)
        if shown["task"]["status"] != "approved":
            return False
        if self.defect == "no-reevaluation":
            return await self.run(shown)
        return await self.present(shown)

    async def submit(self, denial: dict[str, Any]) -> dict[str, Any] | None:
        """Submit until there is an answer, under one key."""
        offer = denial["access_request"]
        echoed = {"binding_token": offer["binding_token"], "expires_at": offer["expires_at"]}
        if self.defect != "half-an-echo":
            echoed["evaluation_id"] = denial["evaluation_id"]
        body: dict[str, Any] = {**question(), "denial": echoed}
        if self.callback is not None:
            body["callback"] = {"endpoint": self.callback, "state": "s1"}
        headers = {} if self.defect == "no-key" else {"Idempotency-Key": secrets.token_urlsafe(16)}
        for _ in range(5):
            try:
                answer = await self.http.post("/access/v1/request", json=body, headers=headers)
            except httpx2.HTTPError:
                if self.defect == "new-key":
                    return None
                continue
            if answer.status_code in {201, 202}:
                shown: dict[str, Any] = answer.json()
                shown["wait"] = int(answer.headers.get("retry-after", "1"))
                return shown
            if answer.status_code == 429:
                await as_told(int(answer.headers["retry-after"]))
        return None

    async def wait(self, shown: dict[str, Any]) -> dict[str, Any]:
        """Poll until the end."""
        url, wait = shown["task"]["status_endpoint"], shown["wait"]
        while shown["task"]["status"] not in ENDED:
            await as_told(0.1 if self.defect == "impatient" else wait)
            if self.defect == "follows-callbacks" and self.claimed:
                await self.http.get(self.claimed.pop(0))
            try:
                answer = await self.http.get(url)
                latest = answer.json() if answer.is_success else shown
            except (httpx2.HTTPError, ValueError):
                continue
            wait = int(answer.headers.get("retry-after", "1"))
            shown = latest
        if self.defect == "polls-on":
            await self.http.get(url)
        return shown

    async def present(self, shown: dict[str, Any]) -> bool:
        """Ask again with the approval, as long as the answer is retry."""
        approval = shown["result"]["approval"]
        if self.defect == "decorates":
            approval = {**approval, "note": "mine"}
        asked = question() | {"context": question()["context"] | {"approval": approval}}
        insists = self.defect == "insists"
        while True:
            answer = (await self.http.post("/access/v1/evaluation", json=asked)).json()
            if answer["decision"] is True:
                return await self.run(shown)
            context = answer["context"]
            if insists and context["next_action"] in {"request", "none"}:
                insists = False
            elif context["next_action"] == "retry":
                await as_told(0 if self.defect == "does-not-wait" else context["retry_after"])
            elif context["next_action"] == "request":
                return await self.request(context)
            else:
                return False

    async def run(self, shown: dict[str, Any] | None) -> bool:
        """Run the tool and say so."""
        self.ran += 2 if self.defect == "runs-twice" else 1
        if shown is not None:
            report = {"disposition": "approved-executed", "at": "2026-04-30T20:00:00Z", "generation": 1}
            for _ in range(2 if self.defect == "reports-twice" else 1):
                await self.http.post(shown["task"]["links"]["urn:x-arap:report"], json=report)
        return True

    async def receive(self, request: Request) -> Response:
        """The callback endpoint: what is authentic wakes nobody here, who polls anyway."""
        body = await request.body()
        try:
            verify(body, request.headers, keys=[b"k" * 32], now=utc_now())
        except CallbackRejected:
            return Response(status_code=204 if self.defect == "believes-callbacks" else 401)
        self.claimed.append(json.loads(body)["task"]["status_endpoint"])
        return Response(status_code=204)

    def target(self) -> Target:
        """The enforcement point as a scenario drives it."""
        return Target("gate", "transfer", trigger=self.call, count=lambda: self.ran)


@asynccontextmanager
async def pointed(world: Rehearsal, defect: str | None = None) -> AsyncIterator[Point]:
    """The enforcement point before `world`, with short time-outs."""
    async with httpx2.AsyncClient(
        base_url=world.live.url, auth=world.live.credentials("gate"), timeout=5, trust_env=False
    ) as http:
        yield Point(http, defect)


def app_of(points: list[Point]) -> Starlette:
    """The callback endpoint of the latest of `points`."""

    async def callback(request: Request) -> Response:
        return await points[-1].receive(request)

    return Starlette(routes=[Route("/callbacks/arap", callback, methods=["POST"])])


def callbacks_of(base: str) -> dict[str, Any]:
    """The setting that lets a service call back to `base`."""
    endpoint = {"endpoints": [f"{base}/callbacks/arap"], "keys": [CALLBACK_KEY]}
    return {"gate": {**endpoint, "allow_destinations": [base.removeprefix("http://")]}}
