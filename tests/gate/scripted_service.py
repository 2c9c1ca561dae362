"""A decision point with an access request service, written in raw dicts from the specifications alone.

It imports nothing of this project, so both ends cannot be wrong together. It answers over an httpx2 mock transport or
wherever its `answer` is called, keeps every request it got, and does what its script says.
"""

import json
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

HOST = "https://pdp.example"
ERROR = "urn:openid:authzen:access-request:error:"


@dataclass
class Received:
    """One request as it arrived."""

    method: str
    url: str
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class ScriptedService:
    """`rules` maps a tool name to permit, deny or request; a tool that is not named is denied."""

    rules: dict[str, str] = field(default_factory=dict)
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    host: str = HOST
    received: list[Received] = field(default_factory=list)
    tasks: dict[str, dict[str, Any]] = field(default_factory=dict)
    keys: dict[str, tuple[bytes, str]] = field(default_factory=dict)
    override: Callable[[Received], httpx2.Response | None] = lambda _: None
    token: str | None = None
    pending_seconds: int = 3600
    approval_seconds: int = 900
    extra_access_request: dict[str, Any] = field(default_factory=dict)
    reports: list[dict[str, Any]] = field(default_factory=list)
    answers: list[dict[str, Any]] = field(default_factory=list)
    born: str = "pending"

    def transport(self) -> httpx2.MockTransport:
        """The service as a transport of an httpx2 client."""
        return httpx2.MockTransport(self._handle)

    def app(self) -> Starlette:
        """The service as an ASGI application; set `host` to the base URL under which it is served."""

        async def endpoint(request: Request) -> Response:
            url = self.host + request.url.path
            answer = self.answer(Received(request.method, url, dict(request.headers), await request.body()))
            headers = {name: value for name, value in answer.headers.items() if name != "content-length"}
            return Response(answer.content, status_code=answer.status_code, headers=headers)

        return Starlette(routes=[Route("/{path:path}", endpoint, methods=["GET", "POST"])])

    async def _handle(self, request: httpx2.Request) -> httpx2.Response:
        body = await request.aread()
        received = Received(request.method, str(request.url), dict(request.headers), body)
        return self.answer(received)

    def answer(self, received: Received) -> httpx2.Response:
        """What the service answers to one request."""
        self.received.append(received)
        if (scripted := self.override(received)) is not None:
            return scripted
        path = received.url.removeprefix(self.host)
        if path == "/.well-known/authzen-configuration":
            return self._metadata()
        if path == "/issuer/token":
            return httpx2.Response(200, json={"access_token": self.token, "token_type": "Bearer", "expires_in": 300})
        if self.token is not None and received.headers.get("authorization") != f"Bearer {self.token}":
            return httpx2.Response(401, headers={"www-authenticate": "Bearer"})
        if path == "/evaluation":
            return self._evaluation(received.json())
        if path == "/requests":
            return self._submission(received)
        return self._task(received, path)

    def _metadata(self) -> httpx2.Response:
        return httpx2.Response(
            200,
            json={
                "policy_decision_point": self.host,
                "access_evaluation_endpoint": f"{self.host}/evaluation",
                "access_request_endpoint": f"{self.host}/requests",
            },
        )

    def _evaluation(self, asked: dict[str, Any]) -> httpx2.Response:
        if not {"subject", "resource", "action"} <= asked.keys():
            return httpx2.Response(400, text="subject, resource and action are required")
        context = asked.get("context", {})
        approval = context.get("approval")
        if isinstance(approval, dict):
            return httpx2.Response(200, json=self._reevaluation(approval))
        rule = self.rules.get(asked["resource"]["id"], "deny")
        if rule == "permit":
            return httpx2.Response(200, json={"decision": True})
        answer: dict[str, Any] = {"decision": False, "context": {"reason": "approval_required"}}
        if rule == "request":
            answer["context"] |= {
                "evaluation_id": "eval_" + secrets.token_hex(8),
                "evaluated_at": _text(self.now()),
                "access_request": {
                    "expires_at": _text(self.now() + timedelta(seconds=300)),
                    "binding_token": "not.a.token-" + secrets.token_hex(8),
                    "template": "review",
                    **self.extra_access_request,
                },
            }
        return httpx2.Response(200, json=answer)

    def _reevaluation(self, approval: dict[str, Any]) -> dict[str, Any]:
        for task in self.tasks.values():
            if task.get("approval", {}).get("id") == approval.get("id") and task["status"] == "approved":
                until = task["approval"]["approved_until"]
                return {"decision": True, "context": {"approval": {"id": approval["id"], "approved_until": until}}}
        return {"decision": False, "context": {"reason": "approval_unverifiable", "next_action": "none"}}

    def _submission(self, received: Received) -> httpx2.Response:
        key = received.headers.get("idempotency-key", "")
        if key in self.keys:
            body, known = self.keys[key]
            if body != received.body:
                return self.problem(409, "duplicate_request")
            return httpx2.Response(202, json=self.wire(known))
        task_id = "arq_" + secrets.token_hex(12)
        self.tasks[task_id] = {
            "status": self.born,
            "expires_at": _text(self.now() + timedelta(seconds=self.pending_seconds)),
            "body": received.json(),
        }
        self.keys[key] = (received.body, task_id)
        if self.born == "approved":
            self.approve(task_id)
        return httpx2.Response(201 if self.born != "pending" else 202, json=self.wire(task_id))

    def _task(self, received: Received, path: str) -> httpx2.Response:
        _, _, rest = path.partition("/requests/")
        task_id, _, operation = rest.partition("/")
        if task_id not in self.tasks:
            return self.problem(404, "unknown_task")
        if received.method == "GET" and not operation:
            return httpx2.Response(200, json=self.wire(task_id), headers={"retry-after": "1"})
        if operation == "input" and received.method == "GET":
            return httpx2.Response(200, json=self.tasks[task_id]["question"])
        if operation == "input":
            del self.tasks[task_id]["question"]
            self.answers.append(received.json())
            return httpx2.Response(204)
        if operation == "cancel":
            if self.tasks[task_id]["status"] != "pending":
                return self.problem(409, "invalid_task_state")
            self.tasks[task_id]["status"] = "cancelled"
            return httpx2.Response(200, json=self.wire(task_id))
        if operation == "report":
            self.reports.append(received.json())
            return httpx2.Response(204)
        return self.problem(404, "unknown_task")

    def wire(self, task_id: str) -> dict[str, Any]:
        """The task as its status endpoint shows it."""
        task, url = self.tasks[task_id], f"{self.host}/requests/{task_id}"
        shown: dict[str, Any] = {
            "task": {
                "id": task_id,
                "status": task["status"],
                "status_endpoint": url,
                "expires_at": task["expires_at"],
                "links": {"cancel": f"{url}/cancel", "review": f"{url}/canary-review"},
                "display": task.get("display", {}),
            }
        }
        if "question" in task:
            shown["task"]["links"]["urn:x-arap:input"] = f"{url}/input"
        if task["status"] == "approved":
            shown["result"] = {
                "mode": "reevaluate",
                "approval": task["approval"],
                "urn:x-arap:report": f"{url}/report",
            }
        return shown

    def approve(self, task_id: str | None = None) -> str:
        """Approve one task, or the only one."""
        task_id = task_id or self.only()
        self.tasks[task_id] |= {
            "status": "approved",
            "approval": {
                "id": "apr_" + secrets.token_hex(12),
                "approved_at": _text(self.now()),
                "approved_until": _text(self.now() + timedelta(seconds=self.approval_seconds)),
                "state": {"opaque": ["kept", 1, None]},
            },
        }
        return task_id

    def ask(self, message: str, schema: dict[str, Any]) -> None:
        """Ask the requester of the only task for more input."""
        self.tasks[self.only()]["question"] = {"message": message, "schema": schema, "version": 1}

    def deny(self, task_id: str | None = None) -> str:
        """Deny one task, or the only one."""
        task_id = task_id or self.only()
        self.tasks[task_id]["status"] = "denied"
        return task_id

    def only(self) -> str:
        """The id of the only task."""
        (task_id,) = self.tasks
        return task_id

    def problem(self, status: int, name: str) -> httpx2.Response:
        """A problem of the profile."""
        body = {"type": ERROR + name, "title": name, "status": status}
        return httpx2.Response(status, json=body, headers={"content-type": "application/problem+json"})

    def sent_to(self, path: str) -> list[Received]:
        """The requests to one path, oldest first."""
        return [received for received in self.received if received.url == self.host + path]


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
