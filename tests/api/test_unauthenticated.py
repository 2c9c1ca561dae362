"""`authentication: none`, for measuring and for certification: the decision point alone, loopback alone."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from pydantic import ValidationError
from structlog.testing import capture_logs

from arap_service.context import Context
from tests.clock import FakeClock
from tests.pdp import POLICY
from tests.service import app_for, http, service_context, settings_for

ASKED: dict[str, Any] = {
    "subject": {"type": "user", "id": "alice"},
    "resource": {"type": "record", "id": "record-1"},
    "action": {"name": "read"},
}


@pytest.fixture
async def open_to_all(service_url: str, tmp_path: Path, clock: FakeClock) -> AsyncIterator[Context]:
    settings = settings_for(
        tmp_path, database=service_url, policy=POLICY, authentication="none", builtin_issuer={"enabled": False}
    )
    async with service_context(settings, clock=clock) as context:
        yield context


@pytest.fixture
async def client(open_to_all: Context) -> AsyncIterator[httpx2.AsyncClient]:
    async with http(app_for(open_to_all)) as client:
        yield client


@pytest.mark.anyio
@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer not.a.token"}])
async def test_anybody_may_ask_for_a_decision(client: httpx2.AsyncClient, headers: dict[str, str]) -> None:
    answer = await client.post("/access/v1/evaluation", json=ASKED, headers=headers)
    assert answer.status_code == 200
    assert answer.json()["decision"] is True


@pytest.mark.anyio
async def test_nobody_is_offered_a_request(client: httpx2.AsyncClient) -> None:
    """`anybody` is a client without an entry in the rules, so a requestable denial is a plain one (ARS-02)."""
    tool = {"type": "tool", "id": "wire_transfer"}
    answer = await client.post("/access/v1/evaluation", json={**ASKED, "resource": tool})
    assert answer.json()["decision"] is False
    assert "access_request" not in answer.json()["context"]


@pytest.mark.anyio
async def test_start_says_that_nobody_is_authenticated(open_to_all: Context) -> None:
    with capture_logs() as logged:
        app_for(open_to_all)
    assert {"event": "authentication_disabled", "log_level": "warning", "bind": "127.0.0.1:8400"} in logged


@pytest.mark.parametrize("bind", ["0.0.0.0:8400", "[::]:8400", "192.0.2.1:8400", "localhost:8400"])
def test_every_other_bind_is_refused(tmp_path: Path, bind: str) -> None:
    with pytest.raises(ValidationError, match="must be a loopback address"):
        settings_for(tmp_path, database="sqlite:///x.db", policy=POLICY, authentication="none", bind=bind)


def test_issuers_are_still_required_where_callers_are_authenticated(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="name at least one"):
        settings_for(tmp_path, database="sqlite:///x.db", policy=POLICY, builtin_issuer={"enabled": False})
