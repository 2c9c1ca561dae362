"""Every byte that a client receives, in every flow, from a backend that has a canary in everything it says.

The backend is written by hand in raw values; the client is raw JSON-RPC over HTTP, so that nothing is parsed away.
SEP-2848, "Denied-but-requestable": no artifact of the backend reaches the client in any field, error or notification.
"""

import itertools
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.lowlevel
import httpx2
import pytest
from mcp.server.mcpserver import MCPServer
from mcp.types import TextContent

from mcp_gate import Gate
from mcp_gate.backend import (
    Accepted,
    AnswerRefused,
    BackendStatus,
    BackendUnavailable,
    DecisionPointUnavailable,
    Denial,
    Handle,
    InputQuestion,
    Permit,
    Refused,
)
from mcp_gate.runtime import Parts
from tests.gate.live import serving
from tests.gate.world import META, TASKS, VERSION, World

pytestmark = pytest.mark.anyio

CANARY: Final = "canary"
LATER: Final = timedelta(minutes=5)
FIELD: Final[dict[str, Any]] = {"type": "object", "properties": {"ticket": {"type": "string"}}, "required": ["ticket"]}
ENDINGS: Final[Mapping[str, str]] = {
    "approved": "completed",
    "retried": "completed",
    "chained": "completed",
    "asked": "completed",
    "leaky": "completed",
    "overruled": "completed",
    "denied": "completed",
    "expired": "completed",
    "gone": "completed",
    "partial": "completed",
    "unenforceable": "completed",
    "failed": "failed",
    "cancelled": "cancelled",
}


class Canaries:
    """An approval backend that decides by the argument `kind` of a call, and says a canary wherever it says a text."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._kinds: dict[str, str] = {}
        self._evaluations: dict[str, int] = {}
        self._answered: set[str] = set()
        self.said: set[str] = set()
        self.heard: list[str] = []

    def text(self, what: str) -> str:
        """A text with a canary, remembered."""
        text = f"{CANARY}-{what}-{next(self._numbers)}"
        self.said.add(text)
        return text

    def denial(self, action: Any = "request", **more: Any) -> Denial:
        """A denial full of canaries."""
        access: dict[str, Any] = {
            "expires_at": (datetime.now(UTC) + LATER).isoformat(),
            "endpoint": f"https://{self.text('endpoint')}.example/requests",
            "binding_token": self.text("binding-token"),
            "form_url": f"https://{self.text('form')}.example/form",
            "display": {"title": self.text("display")},
            "unknown": [self.text("unknown")],
        }
        context: dict[str, Any] = {
            "evaluation_id": self.text("evaluation"),
            "reason": self.text("reason"),
            "reason_admin": {"en": self.text("reason-admin")},
            "access_request": access,
        }
        requested = access if action == "request" else None
        return Denial(self.text("reason"), action, access_request=requested, context=context, **more)

    async def evaluate(
        self, question: Mapping[str, Any], *, approval: Mapping[str, Any] | None = None
    ) -> Permit | Denial:
        kind = str(question["context"]["urn:x-arap:tool_call"]["arguments"]["kind"])
        if kind == "leaky":
            return self._overheard(approval)
        if kind == "pdp-down":
            raise DecisionPointUnavailable(self.text("pdp-down"))
        if kind == "permitted":
            return Permit({"note": self.text("permit"), "approval": {"id": self.text("approval")}})
        if approval is None:
            schema = {"$id": f"https://{self.text('schema')}.example", "$comment": self.text("comment")}
            wanted = {"type": "object", "properties": {"context": FIELD}, "required": ["context"], **schema}
            if kind == "form":
                return self.denial(request_schema=wanted)
            return self.denial("none") if kind == "refused-at-once" else self.denial()
        count = self._evaluations[kind] = self._evaluations.get(kind, 0) + 1
        if kind == "overruled":
            return self.denial("none")
        if count == 1 and kind == "retried":
            return self.denial("retry", retry_after=0.05)
        if count == 1 and kind == "chained":
            return self.denial()
        return Permit({"note": self.text("permit")}, approved_until=datetime.now(UTC) + LATER)

    def _overheard(self, approval: Mapping[str, Any] | None) -> Permit | Denial:
        """Tells the leaky tool what grants something in its own task."""
        if approval is not None:
            self.heard += [approval["id"], approval["state"]]
            return Permit(approved_until=datetime.now(UTC) + LATER)
        denial = self.denial()
        access = denial.access_request or {}
        self.heard += [str(access[name]) for name in ("endpoint", "binding_token", "form_url")]
        self.heard.append(str(denial.context["evaluation_id"]))
        return denial

    def submission_body(self, question: Mapping[str, Any], denial: Denial, **more: Any) -> bytes:
        return json.dumps({"question": question, "denial": denial.context}).encode()

    async def submit(self, body: bytes, *, key: str) -> Accepted | Refused:
        kind = json.loads(body)["question"]["context"]["urn:x-arap:tool_call"]["arguments"]["kind"]
        if kind == "submission-refused":
            return Refused(f"urn:{self.text('problem')}", 400)
        if kind == "submission-lost":
            raise BackendUnavailable(self.text("down"))
        task = self.text("task")
        self._kinds[task] = kind
        base = f"https://{self.text('status')}.example/{task}"
        handle = Handle(task, base, f"{base}/cancel", f"{base}/report", datetime.now(UTC) + LATER, f"{base}/input")
        if kind == "leaky":
            self.heard += [task, base, f"{base}/cancel", f"{base}/report", f"{base}/input"]
        return Accepted(handle, BackendStatus("pending", handle.expires_at))

    async def status(self, handle: Handle) -> BackendStatus:
        kind, until = self._kinds[handle.task_id], datetime.now(UTC) + LATER
        words: dict[str, Any] = {
            "decision_text": self.text("decision"),
            "handle": replace(handle, input_url=handle.input_url),
        }
        if kind == "asked" and handle.task_id not in self._answered:
            # A question's words are for the client; everything else about it is not.
            asked = InputQuestion("Which ticket?", {**FIELD, "$id": self.text("question")}, 1)
            return BackendStatus("pending", until, input=asked, **words)
        if kind in {"denied", "expired", "cancelled", "failed", "partial"}:
            return BackendStatus(kind, until, **words)
        if kind == "gone":
            return BackendStatus(self.text("gone"), gone=True)
        if kind in {"unenforceable", "waiting"}:
            word = "approved" if kind == "unenforceable" else self.text("unknown-status")
            return BackendStatus(word, until, {"id": self.text("approval")}, mode=self.text("mode"), **words)
        approval: dict[str, Any] = {
            "id": self.text("approval"),
            "state": self.text("state"),
            "unknown": {"by": self.text("approver")},
        }
        return BackendStatus("approved", until, approval, until, "reevaluate", **words)

    async def cancel(self, handle: Handle) -> None:
        raise BackendUnavailable(self.text("cancel"))

    async def report(self, handle: Handle, body: Mapping[str, Any]) -> None:
        raise BackendUnavailable(self.text("report"))

    async def answer(self, handle: Handle, version: int, answer: Mapping[str, Any]) -> None:
        if handle.task_id not in self._answered:
            self._answered.add(handle.task_id)
            raise AnswerRefused(self.text("answer"))


class Client:
    """Sends requests as they are written and keeps every byte of the answers, the headers included."""

    def __init__(self, http: httpx2.AsyncClient, url: str) -> None:
        self._http = http
        self._url = url
        self.seen = bytearray()

    @asynccontextmanager
    async def sent(
        self, method: str, params: Mapping[str, Any], *, tasks: bool = True
    ) -> AsyncIterator[httpx2.Response]:
        declared: dict[str, Any] = {"elicitation": {}, **({"extensions": {TASKS: {}}} if tasks else {})}
        meta = {META + "protocolVersion": VERSION, META + "clientCapabilities": declared}
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
        headers = {
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": VERSION,
            "mcp-method": method,
            "mcp-name": str(params.get("name", params.get("taskId", ""))),
        }
        if not headers["mcp-name"]:
            del headers["mcp-name"]
        async with self._http.stream("POST", self._url, json=body, headers=headers) as response:
            self.seen += repr(response.headers.raw).encode()
            yield response

    async def ask(self, method: str, params: Mapping[str, Any], *, tasks: bool = True) -> dict[str, Any]:
        """A request's answer."""
        async with self.sent(method, params, tasks=tasks) as response:
            raw = await response.aread()
        self.seen += raw
        lines = raw.decode().splitlines()
        data = [line.removeprefix("data:") for line in lines if line.startswith("data:") and line.strip() != "data:"]
        answer: dict[str, Any] = json.loads(data[-1] if data else raw)
        return answer

    async def call(self, kind: str, *, tasks: bool = True, **more: Any) -> dict[str, Any]:
        """A call of the tool."""
        params = {"name": "act", "arguments": {"kind": kind}, **more}
        return await self.ask("tools/call", params, tasks=tasks)

    async def task(self, kind: str) -> str:
        """The id of the task that a call becomes."""
        return str((await self.call(kind))["result"]["taskId"])

    async def get(self, task_id: str) -> dict[str, Any]:
        """The task."""
        result: dict[str, Any] = (await self.ask("tasks/get", {"taskId": task_id}))["result"]
        return result

    async def ended(self, task_id: str) -> dict[str, Any]:
        """The task once it has ended; its questions are answered."""
        while (state := await self.get(task_id))["status"] in {"working", "input_required"}:
            for key in state.get("inputRequests", {}):
                answers = {key: {"action": "accept", "content": {"ticket": "T-1"}}}
                await self.ask("tasks/update", {"taskId": task_id, "inputResponses": answers})
            await anyio.lowlevel.checkpoint()
        return state

    async def listened(self, task_id: str, *, ready: anyio.Event) -> None:
        """Listen for the task until it has ended."""
        async with self.sent("subscriptions/listen", {"notifications": {"taskIds": [task_id]}}) as response:
            async for line in response.aiter_lines():
                self.seen += line.encode()
                if '"cancelled"' in line:
                    return
                if line.startswith("data:"):
                    ready.set()


@pytest.fixture
def backend() -> Canaries:
    return Canaries()


@pytest.fixture
async def client(tmp_path: Path, backend: Canaries) -> AsyncIterator[Client]:
    settings = World(tmp_path).settings(
        stdio=None,
        anonymous={"iss": "https://issuer.example", "sub": "alice", "client": "agent-7"},
        insecure_loopback=True,
        limits={"poll_interval_seconds": 0.02, "submissions_per_minute": 1000},
    )
    gate = Gate(settings, parts=Parts(backend=backend))
    server: MCPServer[Any] = MCPServer("treasury", extensions=[gate], lifespan=gate.lifespan())

    @server.tool()
    def act(kind: str) -> list[TextContent]:
        """Do something; the leaky kind repeats what it has heard of the backend."""
        return [TextContent(type="text", text=text) for text in (backend.heard if kind == "leaky" else [kind])]

    gate.bind(server)
    with anyio.fail_after(100):
        async with serving(server.streamable_http_app()) as base, httpx2.AsyncClient(timeout=30) as http:
            yield Client(http, f"{base}/mcp")


@pytest.mark.requirement("PEP-51", "PEP-52", "PEP-125", "PEP-126", "PEP-127", "PEP-129")
async def test_no_byte_of_any_flow_has_anything_of_the_backends(client: Client, backend: Canaries) -> None:
    assert "result" in await client.ask("tools/list", {})
    assert (await client.call("permitted"))["result"]["isError"] is False
    assert (await client.call("refused-at-once"))["result"]["isError"] is True
    assert (await client.call("approved", tasks=False))["result"]["isError"] is True
    assert (await client.call("submission-refused"))["result"]["isError"] is True
    assert (await client.call("submission-lost"))["error"]["code"] == -32603
    assert (await client.call("pdp-down"))["error"]["code"] == -32603
    assert (await client.ask("tasks/get", {"taskId": "tsk_nobody"}))["error"]["code"] == -32602

    round_one = (await client.call("form"))["result"]
    answers = {key: {"action": "accept", "content": {"ticket": "T-1"}} for key in round_one["inputRequests"]}
    more = {"inputResponses": answers, "requestState": round_one["requestState"]}
    assert (await client.ended((await client.call("form", **more))["result"]["taskId"]))["status"] == "completed"

    for kind, ending in ENDINGS.items():
        assert (await client.ended(await client.task(kind)))["status"] == ending, kind

    waiting, ready = await client.task("waiting"), anyio.Event()
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: client.listened(waiting, ready=ready))
        await ready.wait()
        await client.ask("tasks/cancel", {"taskId": waiting})

    seen = bytes(client.seen).decode()
    assert seen.count("approved-executed") >= 6
    assert "notifications/tasks" in seen
    assert len(backend.said) > 200
    assert seen.count("[withheld]") >= 11
    assert [text for text in sorted(backend.said) if text in seen] == []
    assert CANARY not in seen
