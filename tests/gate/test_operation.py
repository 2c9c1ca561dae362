"""The operator's listener of a running gate. Provenance: design section 8."""

import json
import socket
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

from mcp_gate.database import Database
from mcp_gate.metrics import Metrics
from mcp_gate.operation import Operation, listening
from mcp_gate.settings import ConfigurationInvalid, parse_settings
from tests.clock import FakeClock
from tests.gate.world import World, connected, create, tasks_client

pytestmark = pytest.mark.anyio


def free_port() -> int:
    """A port of the loopback address that nobody uses."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


async def test_a_running_gate_tells_its_operator_how_it_is(tmp_path: Path) -> None:
    """The real listener beside a gate with a task; nothing of the call is in what it tells."""
    world, bind = World(tmp_path), f"127.0.0.1:{free_port()}"
    settings = world.settings(operation=bind)
    async with connected(world.server(settings), tasks_client()) as client:
        await create(client, "wire", to="canary-account", amount=50_000)
        async with httpx2.AsyncClient(base_url=f"http://{bind}", trust_env=False) as operator:
            health, ready, told = [await operator.get(path) for path in ("/healthz", "/readyz", "/metrics")]
    assert health.json() == {"status": "ok"}
    assert ready.status_code == 200
    assert ready.json()["parts"] == {
        "database": {"status": "ok"},
        "recovery": {"status": "ok"},
        "backend": {"status": "ok"},
        "deliveries": {"status": "ok", "waiting": 0, "dead": 0},
    }
    assert told.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert 'mcp_gate_open_tasks{phase="pending"} 1.0' in told.text
    assert 'mcp_gate_decisions_total{outcome="request",with_approval="false"} 1.0' in told.text
    for secret in ("canary", "acct", "alice", "wire", "treasury", "agent-7"):
        assert secret not in told.text + ready.text


async def test_a_gate_that_cannot_use_its_database_is_not_ready(clock: FakeClock, tmp_path: Path) -> None:
    """An empty database has no tables, which is a database that cannot be used."""
    database = Database.open(f"sqlite:///{tmp_path}/gate.db")
    operation = Operation(database, Metrics(), lambda: True, clock)
    transport = httpx2.ASGITransport(app=operation.app())
    async with httpx2.AsyncClient(transport=transport, base_url="http://gate") as operator:
        ready = await operator.get("/readyz")
        told = await operator.get("/metrics")
        health = await operator.get("/healthz")
    assert (ready.status_code, ready.json()["parts"]["database"]) == (503, {"status": "unavailable"})
    assert (told.status_code, told.json()) == (503, {"status": "unavailable"})
    assert health.status_code == 200
    await database.aclose()


async def test_a_gate_that_has_not_recovered_is_not_ready(clock: FakeClock, sqlite_url: str) -> None:
    database = Database.open(sqlite_url)
    transport = httpx2.ASGITransport(app=Operation(database, Metrics(), lambda: False, clock).app())
    async with httpx2.AsyncClient(transport=transport, base_url="http://gate") as operator:
        ready = await operator.get("/readyz")
    assert (ready.status_code, ready.json()["parts"]["recovery"]) == (503, {"status": "pending"})
    assert ready.json()["parts"]["backend"] == {"status": "unknown"}
    await database.aclose()


async def test_an_address_that_is_taken_is_named(clock: FakeClock, sqlite_url: str) -> None:
    database = Database.open(sqlite_url)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        bind = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ConfigurationInvalid, match="cannot be used"), anyio.fail_after(20):
            async with listening(Operation(database, Metrics(), lambda: True, clock), bind):
                pass
    await database.aclose()


@pytest.mark.parametrize("bind", ["0.0.0.0:9464", "gate.example:9464", "127.0.0.1", "127.0.0.1:99999", "[::]:9464"])
def test_the_listener_stays_on_this_machine(bind: str) -> None:
    given: dict[str, Any] = {
        "server_name": "treasury",
        "backend": {"identifier": "https://pdp.example", "idempotency_retention_seconds": 86_400},
        "operation": bind,
    }
    with pytest.raises(ConfigurationInvalid, match="operation"):
        parse_settings(json.loads(json.dumps(given)))
