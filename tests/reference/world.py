"""A real service, a real MCP server with the gate in it, and a client that sends raw JSON: both wires are recorded.

Everything listens on loopback in this process. A flow drives it; what is shown of it is in `tape.py`.
"""

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal

import httpx2
from mcp.server.mcpserver import MCPServer

from arap_service.client import AsyncResolver
from mcp_gate import Gate
from mcp_gate.arap import ArapBackend
from mcp_gate.arap_channel import Channel
from mcp_gate.runtime import Parts
from mcp_gate.settings import parse_settings
from tests.gate.live import serving as serving_app
from tests.gate.world import META, TASKS, VERSION
from tests.live import Live, serving
from tests.patience import pause
from tests.reference.tape import Exchange, Names, Tape, neutral
from tests.service import SECRET

POLICY: Final = """
version: 1
clients: [{client: gate, may: 'subject.type == "identity"'}]
rules:
  - {id: balances, when: resource.id == "get_balance", permit: true}
  - {id: closing, when: resource.id == "close_account", deny: closing_is_done_by_people}
  - {id: hosts, when: resource.id == "log_in", request: host}
  - {id: reasons, when: resource.id == "pay_invoice", request: invoice}
  - {id: transfers, when: 'resource.id in ["wire_transfer", "book_transfer"]', request: transfer}
templates:
  transfer:
    title: Transfers over $25,000 need a treasurer
    explanation: Money leaves the company.
    steps: [{id: treasurer, title: One treasurer, resolvers: [resolver]}]
  invoice:
    title: Invoices need a reason
    explanation: Money leaves the company.
    steps: [{id: treasurer, title: One treasurer, resolvers: [resolver]}]
    request_schema:
      type: object
      required: [context]
      properties:
        context:
          type: object
          required: [business_justification]
          properties: {business_justification: {type: string, title: Why now, minLength: 5}}
  host:
    title: Log in to a host
    explanation: The account is made after the yes.
    provisioned: 'false'
    provisioned_retry_seconds: 60
    steps: [{id: admins, title: Administrators, resolvers: [resolver]}]
"""


class Recording(httpx2.AsyncBaseTransport):
    """The way from the gate to its backend, with every exchange kept; logging in and looking up are left out."""

    def __init__(self, tape: Tape, names: Names) -> None:
        self._inner = httpx2.AsyncHTTPTransport()
        self._tape = tape
        self._names = names

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        body = await request.aread()
        response = await self._inner.handle_async_request(request)
        content = await response.aread()
        path = request.url.raw_path.decode()
        came = json.loads(content) if content else None
        if not path.startswith(("/.well-known", "/issuer")) and not _is_idle(request.method, came):
            sent = json.loads(body) if body else None
            key = request.headers.get("idempotency-key")
            if key is not None:
                sent = {"Idempotency-Key": key, "body": sent}
            self._tape.add(
                Exchange(
                    "backend",
                    request.method,
                    self._names.in_text(path),
                    neutral(_with_key_named(sent), self._names),
                    response.status_code,
                    neutral(came, self._names),
                )
            )
        headers = [(name, value) for name, value in response.headers.raw if name.lower() != b"content-encoding"]
        return httpx2.Response(response.status_code, headers=headers, content=content, request=request)

    async def aclose(self) -> None:
        await self._inner.aclose()


def _is_idle(method: str, came: Any) -> bool:
    """Whether this is a look at a request with nothing new; how many there are depends on the machine."""
    task = came.get("task") if isinstance(came, dict) else None
    if method != "GET" or task is None or task["status"] != "pending":
        return False
    return "urn:x-arap:input" not in task.get("links", {})


def _with_key_named(sent: Any) -> Any:
    if isinstance(sent, dict) and "Idempotency-Key" in sent:
        return {"idempotency-key": sent["Idempotency-Key"], **sent["body"]}
    return sent


@dataclass
class Recorded:
    """What a flow holds in its hands: a client that records, the resolver, and the tape."""

    url: str
    http: httpx2.AsyncClient
    resolver: AsyncResolver
    tape: Tape
    names: Names
    ran: list[str] = field(default_factory=list)

    async def ask(self, method: str, params: Mapping[str, Any], *, tasks: bool = True) -> dict[str, Any]:
        """Send a request of MCP as it is written, and record it with its answer."""
        declared: dict[str, Any] = {"elicitation": {}, **({"extensions": {TASKS: {}}} if tasks else {})}
        meta = {META + "protocolVersion": VERSION, META + "clientCapabilities": declared}
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
        name = str(params.get("name", params.get("taskId", "")))
        headers = {
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": VERSION,
            "mcp-method": method,
            **({"mcp-name": name} if name else {}),
        }
        began = len(self.tape.exchanges)
        response = await self.http.post(self.url, json=body, headers=headers)
        lines = [line.removeprefix("data:").strip() for line in response.text.splitlines() if line.startswith("data:")]
        answer: dict[str, Any] = json.loads([line for line in lines if line][-1] if lines else response.text)
        without_meta = {**body, "params": dict(params)}
        self.tape.add(
            Exchange("mcp", "", "", neutral(without_meta, self.names), None, neutral(answer, self.names), began)
        )
        return answer

    async def call(self, tool: str, *, tasks: bool = True, **arguments: Any) -> dict[str, Any]:
        """Call a tool; the answer's result."""
        answer = await self.ask("tools/call", {"name": tool, "arguments": arguments}, tasks=tasks)
        result: dict[str, Any] = answer["result"]
        return result

    async def get(self, task_id: str) -> dict[str, Any]:
        """The task, recorded."""
        result: dict[str, Any] = (await self.ask("tasks/get", {"taskId": task_id}))["result"]
        return result

    async def until(self, holds: Callable[[Tape], bool]) -> None:
        """Look at the tape until what is awaited is on it."""
        while not holds(self.tape):
            await pause()

    async def unrecorded(self, task_id: str) -> dict[str, Any]:
        """The task, without leaving a trace on the tape."""
        kept = list(self.tape.exchanges)
        state = await self.get(task_id)
        self.tape.exchanges = kept + [each for each in self.tape.exchanges[len(kept) :] if each.wire == "backend"]
        return state

    async def when(self, task_id: str, status: str) -> None:
        """Wait until the task has this status."""
        while (await self.unrecorded(task_id))["status"] != status:
            await pause()

    async def reported(self) -> None:
        """Wait until the gate has told the backend what became of the approval."""
        await self.until(lambda tape: any(each.path.endswith(("executions", "report")) for each in tape.exchanges))

    async def waiting(self) -> dict[str, Any]:
        """The only request that waits for the resolver."""
        (found,) = [each async for each in self.resolver.queue(mine=True)]
        request: dict[str, Any] = await self.resolver.get(found["id"])
        return request

    async def decide(self, decision: Literal["approve", "deny"], *, reason: str = "") -> None:
        """Decide the only request that waits; that is the resolver's wire, and on no tape."""
        request = await self.waiting()
        await self.resolver.decide(request["id"], decision, version=request["version"], reason=reason or None)


@asynccontextmanager
async def recorded(folder: Path, *, database: str, **limits: Any) -> AsyncIterator[Recorded]:
    """A world to record one flow in; `limits` go into the gate's settings."""
    tape, names = Tape(), Names()
    async with serving(folder, database=database, policy=POLICY, limits={"poll_seconds": 1}) as live:
        settings = parse_settings(_gate(folder, live, limits))
        assert settings.backend is not None
        way = httpx2.AsyncClient(transport=Recording(tape, names))
        channel = Channel(settings.backend, http=way, clock=lambda: datetime.now(UTC), insecure_loopback=True)
        gate = Gate(settings, parts=Parts(backend=ArapBackend(channel)))
        server: MCPServer[Any] = MCPServer("treasury", extensions=[gate], lifespan=gate.lifespan())
        ran: list[str] = []
        _add_tools(server, ran)
        gate.bind(server)
        async with (
            serving_app(server.streamable_http_app()) as base,
            httpx2.AsyncClient(timeout=30) as http,
            AsyncResolver(live.url, auth=live.credentials("resolver")) as resolver,
        ):
            yield Recorded(f"{base}/mcp", http, resolver, tape, names, ran)
        await way.aclose()


def _gate(folder: Path, live: Live, limits: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "server_name": "treasury",
        "backend": {
            "identifier": live.url,
            "client_id": "gate",
            "client_secret": SECRET,
            "token_endpoint": f"{live.url}/issuer/token",
            "idempotency_retention_seconds": 86_400,
        },
        "insecure_loopback": True,
        "database": f"sqlite:///{folder}/gate.sqlite",
        "key_file": str(folder / "gate-keys.yaml"),
        "anonymous": {"iss": "https://issuer.example", "sub": "alice@example.com", "client": "agent-7"},
        "limits": {"poll_interval_seconds": 0.05, **limits},
    }


def _add_tools(server: MCPServer[Any], ran: list[str]) -> None:
    @server.tool()
    def wire_transfer(to: str, amount: int) -> str:
        """Transfer US dollars to an account."""
        ran.append("wire_transfer")
        return f"Transfer of ${amount:,} to {to} completed."

    @server.tool()
    def book_transfer(to: str, amount: int) -> str:
        """Transfer within the bank, which is closed."""
        ran.append("book_transfer")
        raise ValueError(f"The bank did not take ${amount:,} for {to}.")

    @server.tool()
    def pay_invoice(invoice: str) -> str:
        """Pay an invoice."""
        ran.append("pay_invoice")
        return f"Invoice {invoice} paid."

    @server.tool()
    def log_in(host: str) -> str:
        """Log in to a host."""
        ran.append("log_in")
        return f"Logged in to {host}."

    @server.tool()
    def get_balance(account: str) -> str:
        """Read a balance."""
        return f"{account}: $1,200"

    @server.tool()
    def close_account(account: str) -> str:
        """Close an account."""
        ran.append("close_account")
        return f"{account} closed."
