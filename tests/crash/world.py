"""One story of a call that needs approval, told by real processes, and what must be true however often one dies.

The service, the gateway and the server behind it are processes of their own; the agent and the automated resolver are
the published clients, and do what clients do when a connection breaks: try again, from what they have on disk.
"""

import fcntl
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client, types
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from arap_service import audit
from arap_service.client import AsyncResolver, Conflict, Unavailable
from arap_service.store.database import Database
from examples.demo.world import RESOLVER, Cast, World, command, gate_settings, write_service
from mcp_gate.client import CreatedTask, TaskRecord, TaskRecords, TasksExtension, TaskState
from tests.crash.counting_server import ALIVE, BEGUN, EFFECTS, HELD
from tests.crash.nursery import Nursery
from tests.crash.processes import NO_CHANGES, Server, lasting_port, until
from tests.patience import pause

ROOT = Path(__file__).parents[2]
CAST = Cast(
    agent="crash-agent",
    subject="dana@crash.example",
    gate="crash-gate",
    reviewer="morgan",
    reviewer_name="Morgan Ellis",
    group="approvers",
)
RULES = """
version: 1
entities:
  identity:
    dana@crash.example: {active: true}
clients:
  - client: crash-gate
    may: resource.type == "tool"
rules:
  - id: reading-is-free
    when: resource.id == "read"
    permit: true
  - id: money-needs-approval
    when: resource.id == "wire"
    request: wire
    reason: needs_approval
templates:
  wire:
    title: Wire transfer
    explanation: The agent wants to move money.
    steps:
      - {id: review, title: One approver, resolvers: [auto-resolver]}
"""
CALL: dict[str, Any] = {"to": "acct-991", "amount": 50_000}
SERVICE_DATABASE, GATE_DATABASE = "ARAP_DATABASE", "MCP_GATE_DATABASE"
# Nothing here is spoken over TLS, and reading the authorities of the machine would be most of what a connection costs.
NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
# What a broken connection looks like to a client: its own name for it, or that of any layer below.
BROKEN = (OSError, httpx2.HTTPError, MCPError, anyio.ClosedResourceError, anyio.EndOfStream, TimeoutError)


@dataclass
class Story:
    """The processes, and what agent and resolver remember; `other` is a second gate, which not every story starts.

    `calls` says how often this agent has made its call; more than once only where no answer came.
    """

    world: World
    service: Server
    gate: Server
    other: Server
    call: dict[str, Any] = field(default_factory=lambda: dict(CALL))
    attempt_seconds: float = 20.0
    records: TaskRecords = field(init=False)
    agents: list["Story"] = field(init=False)
    failures: list[str] = field(default_factory=list)
    calls: int = 0

    def __post_init__(self) -> None:
        self.agents = [self]
        self.records = TaskRecords(self.world.path("tasks"))
        self._agent = self.world.credentials(CAST.agent)
        self._resolver = self.world.credentials(RESOLVER)

    # The agent ------------------------------------------------------------------------------------------------------

    def another(self, amount: int) -> "Story":
        """The same story as an agent sees it that makes the call with another amount."""
        twin = copy(self)
        twin.call, twin.records = {**CALL, "amount": amount}, TaskRecords(self.world.path(f"tasks-{amount}"))
        twin.calls = 0
        self.agents.append(twin)
        return twin

    def _alive(self) -> Server:
        alive = [gate for gate in (self.gate, self.other) if gate.process is not None and not gate.is_frozen]
        return (alive or [self.gate])[0]

    @asynccontextmanager
    async def connected(self, gate: Server | None = None) -> AsyncIterator[tuple[Client, TasksExtension]]:
        """One connection of the agent, to one that lives unless a gate is named."""
        address = f"http://127.0.0.1:{(gate or self._alive()).port}/mcp"
        extension = TasksExtension(records=self.records, server=self.world.mcp)
        async with (
            httpx2.AsyncClient(auth=self._agent, timeout=self.attempt_seconds, trust_env=False, verify=NO_TLS) as http,
            # Pinned: a client that probes takes a busy server for one of the older protocol.
            Client(
                streamable_http_client(address, http_client=http), extensions=[extension], mode="2026-07-28"
            ) as client,
        ):
            yield client, extension

    async def begin(self) -> str:
        """Make the call once and return the id of the task that it became."""
        async with self.connected() as (client, _):
            answer = await client.session.call_tool("wire", self.call, allow_claimed=True)
        assert isinstance(answer, CreatedTask), answer
        self.records.remember(
            TaskRecord(answer.task_id, self.world.mcp, "wire", created_at=answer.created_at, status=answer.status)
        )
        return answer.task_id

    async def ask(self) -> types.CallToolResult:
        """Bring the call to its end as an agent does: resume the task whose id is on disk, else repeat the call."""
        while True:
            try:
                return await self._attempt()
            except BaseExceptionGroup as group:
                broken, other = group.split(BROKEN)
                if other is not None:
                    raise
                self.failures.append(repr(broken))
            except BROKEN as error:
                self.failures.append(repr(error))
            await pause()

    async def _attempt(self) -> types.CallToolResult:
        gate, results = self._alive(), list[types.CallToolResult]()
        with anyio.fail_after(self.attempt_seconds) as patience:
            async with anyio.create_task_group() as group:
                group.start_soon(_give_up_on, gate, patience)
                async with self.connected(gate) as (client, extension):
                    known = self.records.all()
                    if known:
                        results.append(await extension.resume(client.session, known[0].task_id))
                    else:
                        self.calls += 1
                        results.append(await client.call_tool("wire", self.call))
                group.cancel_scope.cancel()
        return results[0]

    async def refusal(self) -> types.ErrorData:
        """Make the call once and return the error that it ends in."""
        async with self.connected() as (client, _):
            with pytest.raises(MCPError) as raised:
                await client.session.call_tool("wire", self.call, allow_claimed=True)
            return raised.value.error

    async def state(self) -> TaskState:
        """The one task as `tasks/get` shows it."""
        (known,) = self.records.all()
        async with self.connected() as (client, extension):
            return await extension.get(client.session, known.task_id)

    # The resolver ---------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def resolver(self) -> AsyncIterator[AsyncResolver]:
        """The automated resolver's client."""
        async with AsyncResolver(self.world.identifier, auth=self._resolver) as resolver:
            yield resolver

    async def approve(self, count: int = 1) -> None:
        """Approve what turns up, until `count` requests are known to have been approved.

        Not before every agent has its task: else that could end unheard, and the call that is made again would be a new
        one, which nobody approves.
        """
        await until(lambda: all(agent.records.all() for agent in self.agents), "every agent has its task")
        decided: set[str] = set()
        async with self.resolver() as resolver:
            while len(decided) < count:
                try:
                    async for row in resolver.queue(status="pending", mine=True):
                        await resolver.decide(row["id"], "approve", version=row["version"])
                    decided |= {row["id"] async for row in resolver.queue(status="approved")}
                except (Unavailable, Conflict, httpx2.HTTPError) as error:
                    self.failures.append(repr(error))
                await pause()

    async def requests(self) -> list[dict[str, Any]]:
        """Every request that the service holds, in full."""
        async with self.resolver() as resolver:
            return [await resolver.get(row["id"]) async for row in resolver.queue()]

    # Deaths ---------------------------------------------------------------------------------------------------------

    async def tell(self, dying: Server, *, approvals: int = 1) -> types.CallToolResult:
        """Tell the story while `dying` dies at its point and is started again; the end that the agent saw."""
        result: types.CallToolResult | None = None
        async with anyio.create_task_group() as group:
            group.start_soon(self.approve, approvals)
            group.start_soon(self.revive, dying)
            result = await self.ask()
        assert result is not None
        return result

    async def revive(self, dying: Server) -> None:
        """Wait for a death and start the process again, without the point at which it died."""
        await dying.killed_itself()
        await dying.start()

    def hold(self) -> None:
        """From now on the tool does not get to its effect."""
        self.world.path(HELD).touch()

    def release(self) -> None:
        """The tool may go on."""
        self.world.path(HELD).unlink()

    def has_begun(self) -> bool:
        """Whether the tool was started."""
        return self.world.path(BEGUN).exists()

    def has_run(self) -> bool:
        """Whether the tool ever had its effect."""
        return self.world.path(EFFECTS).exists()

    async def executions(self) -> int:
        """How often the tool ran: counted when no process is left that could run it."""
        for gate in (self.gate, self.other):
            gate.kill()
        await until(self._is_nobody_left, "every server behind the gateway has ended")
        return len(self._effects())

    def own_executions(self) -> int:
        """How often the tool has had its effect with the arguments of this call, as far as is known by now."""
        return self._effects().count(f"{self.call['to']} {self.call['amount']}")

    def _effects(self) -> list[str]:
        return self.world.path(EFFECTS).read_text(encoding="utf-8").splitlines() if self.has_run() else []

    def _is_nobody_left(self) -> bool:
        with self.world.path(ALIVE).open("a") as alive:
            try:
                fcntl.flock(alive, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
        return True

    # What must be true ----------------------------------------------------------------------------------------------

    async def only_request(self, *, reported: str) -> dict[str, Any]:
        """The one request that the service ever had, ended and not forgotten, once the gate's report has arrived."""
        seen: list[dict[str, Any]] = []

        async def is_reported() -> bool:
            seen[:] = await self.requests()
            return len(seen) == 1 and [made["disposition"] for made in seen[0]["executions"]] == [reported]

        try:
            await until(is_reported, f"one request with the report {reported!r}")
        except AssertionError as error:
            brief = [{name: found[name] for name in ("id", "status", "executions")} for found in seen]
            raise AssertionError(f"{error}; the service has {brief}") from None
        return seen[0]

    def broken_chains(self) -> dict[str, object]:
        """Chains of the service's audit log that do not verify."""
        opened = Database.open(self.service.environment[SERVICE_DATABASE])
        try:
            found = opened.read_now(
                lambda session: {chain: audit.verify_chain(session, chain) for chain in audit.chains(session)}
            )
        finally:
            opened.close()
        assert found, "nothing was recorded"
        return {chain: result for chain, result in found.items() if isinstance(result, audit.Broken)}


async def _give_up_on(gate: Server, patience: anyio.CancelScope) -> None:
    """Let an attempt fail when its gate freezes, as a load balancer would."""
    while not gate.is_frozen:
        await pause()
    patience.deadline = anyio.current_time()


def invent(folder: Path, *, service_database: str, gate_database: str, nursery: Nursery | None = None) -> Story:
    """A story in `folder`, written down and not yet begun."""
    world = replace(World.invent(folder, CAST), service_port=lasting_port(), gate_port=lasting_port())
    write_service(world, RULES)
    settings = gate_settings(world, server_name="crash")
    counting = {"command": sys.executable, "args": ["-m", "tests.crash.counting_server", str(folder)]}
    upstream = {**(counting if nursery is None else nursery.behind(folder)), "cwd": str(ROOT)}
    limits = {"poll_interval_seconds": 0.1, "execution_seconds": 20}
    changes = {"upstream": upstream, "limits": limits}
    gate_file = world.write("gate.yaml", {**settings, **changes})
    service_file = world.path("service.yaml")
    service = Server(
        "service",
        [command("arap"), "serve", "--config", str(service_file), "--die-with-stdin"],
        service_file,
        world.service_port,
        "/readyz",
        {
            SERVICE_DATABASE: service_database,
            "ARAP_LIMITS__POLL_SECONDS": "1",
            "ARAP_LIMITS__CALLBACK_TIMEOUT_SECONDS": "2",
        },
        nursery,
    )
    port = lasting_port()
    other_file = world.write("other.yaml", {**settings, **changes, "front": {"http": f"127.0.0.1:{port}"}})
    gate = _gate("gate", gate_file, world.gate_port, gate_database, nursery)
    return Story(world, service, gate, _gate("other", other_file, port, gate_database, nursery))


def _gate(name: str, config: Path, port: int, database: str, nursery: Nursery | None) -> Server:
    # Without a file there is no lock to tell that a claim's holder is dead; the name of the instance is.
    environment = {GATE_DATABASE: database} | ({} if database.startswith("sqlite") else {"MCP_GATE_INSTANCE": name})
    arguments = [command("mcp-gate"), "proxy", "--config", str(config), "--die-with-stdin"]
    return Server(name, arguments, config, port, "/healthz", environment, nursery)


@asynccontextmanager
async def begun(
    story: Story, *, service: dict[str, str] | None = None, gate: dict[str, str] | None = None
) -> AsyncIterator[Story]:
    """Service and gate run; with `service` or `gate` as more of their environment. Nothing is left afterwards."""
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(story.service.start, service or NO_CHANGES)
            group.start_soon(story.gate.start, gate or NO_CHANGES)
        with anyio.fail_after(100):
            yield story
    except BaseException as error:
        explain(error, story)
        raise
    finally:
        for server in (story.gate, story.other, story.service):
            server.kill()


@asynccontextmanager
async def service_of(story: Story) -> AsyncIterator[Story]:
    """The service runs, and whoever starts the gates need not stop them; nothing is left afterwards."""
    try:
        await story.service.start()
        with anyio.fail_after(150):
            yield story
    except BaseException as error:
        explain(error, story)
        raise
    finally:
        for server in (story.gate, story.other, story.service):
            server.kill()


def explain(error: BaseException, story: Story) -> None:
    """Add to an error what the processes last said."""
    error.add_note("\n".join(["broken connections:", *story.failures[-5:]]))
    for server in (story.service, story.gate, story.other):
        if server.log.exists():
            error.add_note(f"the log of the {server.name} ends:\n{server.tail()}")
