"""The gate's whole flow with each half of its backend ours or somebody else's: design section 2, independent halves."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

from arap_service.store import migrate
from arap_service.surroundings import utc_now
from arap_service.upstream import Upstream
from mcp_gate.arap import ArapBackend
from mcp_gate.arap_channel import Channel
from mcp_gate.runtime import Parts
from mcp_gate.settings import GateSettings
from tests.databases import Databases
from tests.foreign.decision_point import ForeignDecisionPoint
from tests.foreign.halves import ForeignArapDecisionPoint, ForeignRequestService
from tests.gate.world import World, connected, create, ended, tasks_client
from tests.peers import peers
from tests.service import IDENTIFIER, SECRET, app_for, service_context, settings_for

pytestmark = pytest.mark.anyio

PDP = "https://pdp.elsewhere.example"
ARS = "https://requests.elsewhere.example"
RULES = """
version: 1
{upstream}
clients:
  - {{client: gate, may: 'true'}}
rules:
  - {{id: a, when: resource.id == "read", permit: true}}
  - {{id: b, when: resource.id == "wire", request: transfer}}
templates:
  transfer:
    title: Wire transfer
    explanation: Money leaves the company.
    steps: [{{id: risk, title: Risk engine, resolvers: [resolver]}}]
"""
Decide = Callable[[str], Awaitable[None]]


@dataclass
class Elsewhere(httpx2.AsyncBaseTransport):
    """The network of a combination: which host is answered by what."""

    hosts: dict[str, httpx2.AsyncBaseTransport] = field(default_factory=dict)
    halves: dict[str, Callable[[httpx2.Request], httpx2.Response]] = field(default_factory=dict)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.url.host in self.halves:
            await request.aread()
            return self.halves[request.url.host](request)
        return await self.hosts[request.url.host].handle_async_request(request)

    async def fetch(self, url: str) -> bytes:
        """A key set, as the service fetches it."""
        async with httpx2.AsyncClient(transport=self) as client:
            return (await client.get(url)).content


@dataclass
class Combined(World):
    """A gate whose backend is a decision point and a request service of different origins."""

    network: Elsewhere = field(default_factory=Elsewhere)
    identifier: str = IDENTIFIER

    def parts(self, settings: GateSettings, **changes: Any) -> Parts:
        assert settings.backend is not None
        client = httpx2.AsyncClient(transport=self.network)
        channel = Channel(settings.backend, http=client, clock=lambda: datetime.now(UTC))
        return Parts(backend=ArapBackend(channel), **changes)

    def settings(self, **changes: Any) -> GateSettings:
        backend = {
            "identifier": self.identifier,
            "idempotency_retention_seconds": 86_400,
            "client_id": "gate",
            "client_secret": SECRET,
            "token_endpoint": f"{IDENTIFIER}/issuer/token",
            "trusted_origins": [IDENTIFIER, ARS],
        }
        return super().settings(backend=backend, **changes)


@dataclass
class Combination:
    """One combination, ready to be driven: `approve` or `deny` decides the only open request."""

    world: Combined
    decide: Decide


@asynccontextmanager
async def combination(
    pdp: str, ars: str, folder: Path, database: str, *, real: str | None = None
) -> AsyncIterator[Combination]:
    """A decision point that is `ours`, `foreign` or `behind` another, and a request service `ours` or `foreign`.

    `real` is the base URL of a decision point to stand behind that really listens and gives no reasons.
    """
    network = Elsewhere()
    known: dict[str, Callable[[], dict[str, Any]]] = {}

    def fetch(url: str) -> dict[str, Any]:
        return known[url]()

    foreign_ars = ForeignRequestService(ARS, (IDENTIFIER, f"{IDENTIFIER}/jwks.json"), fetch)
    rules = {"read": "permit", "wire": "request"}
    endpoint = foreign_ars.endpoint if ars == "foreign" else f"{IDENTIFIER}/access/v1/request"
    foreign_pdp = ForeignArapDecisionPoint(PDP, endpoint, rules, (endpoint, f"{IDENTIFIER}/jwks.json"), fetch)
    if pdp == "foreign" and ars == "foreign":
        foreign_ars.pdp, foreign_pdp.service = (PDP, f"{PDP}/keys"), (ARS, f"{ARS}/keys")
    network.halves |= {"pdp.elsewhere.example": foreign_pdp.answer, "requests.elsewhere.example": foreign_ars.answer}
    known |= {f"{PDP}/keys": foreign_pdp.signer.jwks, f"{ARS}/keys": foreign_ars.signer.jwks}

    changes: dict[str, Any] = {"independent": "foreign" in (pdp, ars), "limits": {"poll_seconds": 1}}
    if pdp == "foreign":
        changes["trusted_pdps"] = [{"issuer": PDP, "jwks_uri": f"{PDP}/keys"}]
    if ars == "foreign":
        changes |= {
            "request_endpoint": foreign_ars.endpoint,
            "trusted_services": [{"issuer": ARS, "jwks_uri": f"{ARS}/keys"}],
        }
    other = ForeignDecisionPoint()
    other.permit("read")
    other.deny("wire", "over_limit")
    if pdp == "behind":
        changes["upstream"] = {"identifier": real or other.identifier, "timeout_seconds": 10}
        changes["insecure_loopback"] = real is not None
    upstream = "upstream: {convertible: [over_limit], unexplained: true}" if pdp == "behind" else ""
    settings = settings_for(folder, database=database, policy=RULES.format(upstream=upstream), **changes)
    asking = None
    if settings.upstream is not None and real is None:
        asking = Upstream(settings.upstream, clock=utc_now, transport=other.transport())
    async with service_context(settings, clock=utc_now, fetch=network.fetch, upstream=asking) as context:
        known[f"{IDENTIFIER}/jwks.json"] = context.keys.jwks
        network.hosts["approvals.example"] = httpx2.ASGITransport(app=app_for(context))
        two = peers(context)

        async def decide(decision: str) -> None:
            if ars == "foreign":
                (task_id,) = foreign_ars.tasks
                {"approve": foreign_ars.approve, "deny": foreign_ars.deny}[decision](task_id)
                return
            (row,) = (await two.resolver.get("/resolver/v1/requests")).json()["items"]
            made = await two.decide(row["id"], decision)
            assert made.status_code == 200, made.text

        yield Combination(Combined(folder, network=network, identifier=PDP if pdp == "foreign" else IDENTIFIER), decide)
        await two.aclose()


COMBINATIONS = [(pdp, ars) for pdp in ("ours", "behind", "foreign") for ars in ("ours", "foreign")]


@pytest.fixture(params=COMBINATIONS, ids=lambda each: f"{each[0]}-{each[1]}")
async def combined(request: pytest.FixtureRequest, databases: Databases, tmp_path: Path) -> AsyncIterator[Combination]:
    url = databases.copy_of("sqlite", "service", migrate.upgrade)
    pdp, ars = request.param
    async with combination(pdp, ars, tmp_path, url) as made:
        yield made


@pytest.mark.requirement("PDP-40", "PDP-68", "ARS-16", "ARS-61", "PEP-34")
async def test_a_call_is_permitted_denied_or_approved_and_then_run_once(combined: Combination) -> None:
    with anyio.fail_after(55):
        async with connected(combined.world.server(), tasks_client()) as client:
            assert not (await client.call_tool("read", {"account": "a1"})).is_error
            assert (await client.call_tool("sees", {})).is_error
            task = await create(client, "wire", to="acct-991", amount=5)
            await combined.decide("approve")
            state = await ended(client, task.task_id)
            again = await ended(client, task.task_id)
    assert state["status"] == again["status"] == "completed"
    assert state["result"]["content"][0]["text"] == "Transfer of 5 to acct-991 completed."
    assert combined.world.effects == ["acct-991 5"]


async def test_a_call_that_somebody_denies_never_runs(combined: Combination) -> None:
    with anyio.fail_after(55):
        async with connected(combined.world.server(), tasks_client()) as client:
            task = await create(client, "wire", to="acct-991", amount=5)
            await combined.decide("deny")
            state = await ended(client, task.task_id)
    assert state["result"]["isError"] is True
    assert combined.world.effects == []
