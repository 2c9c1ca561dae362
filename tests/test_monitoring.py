"""The loopback listener for a collector on the same machine: figures without a token, and nothing else."""

import socket
from pathlib import Path

import anyio
import httpx2
import pytest
from pydantic import ValidationError

from arap_service.monitoring import create_monitoring, monitored
from tests.clock import FakeClock
from tests.peers import POLICY
from tests.service import service_context, settings_for


@pytest.mark.anyio
async def test_figures_and_readiness_are_served_beside_the_main_port_until_the_service_stops(
    service_url: str, tmp_path: Path, clock: FakeClock
) -> None:
    settings = settings_for(tmp_path, database=service_url, policy=POLICY)
    async with service_context(settings, clock=clock) as context:
        with socket.create_server(("127.0.0.1", 0)) as listening, anyio.fail_after(55):
            url = f"http://127.0.0.1:{listening.getsockname()[1]}"
            async with monitored(context, listening), httpx2.AsyncClient(base_url=url) as client:
                figures = await client.get("/metrics")
                assert figures.headers["content-type"].startswith("text/plain; version=0.0.4")
                assert "arap_policy_info" in figures.text
                assert (await client.get("/readyz")).json()["status"] == "ok"
                assert (await client.get("/healthz")).json() == {"status": "ok"}
                assert (await client.get("/resolver/v1/requests")).status_code == 404
                assert (await client.post("/metrics")).status_code == 405


@pytest.mark.anyio
async def test_without_a_bind_nothing_is_served(service_url: str, tmp_path: Path, clock: FakeClock) -> None:
    settings = settings_for(tmp_path, database=service_url, policy=POLICY)
    assert settings.metrics_bind is None
    async with service_context(settings, clock=clock) as context:
        assert {getattr(route, "path", "") for route in create_monitoring(context).routes} == {
            "/metrics",
            "/readyz",
            "/healthz",
        }
        async with monitored(context, None):
            pass


@pytest.mark.parametrize("bind", ["0.0.0.0:9464", "monitor.example:9464", "[::]:9464", "127.0.0.1:70000", "9464"])
def test_a_bind_that_others_could_reach_is_refused(tmp_path: Path, bind: str) -> None:
    with pytest.raises(ValidationError, match=r"metrics_bind|host:port"):
        settings_for(tmp_path, database="sqlite:///x.db", policy=POLICY, metrics_bind=bind)
