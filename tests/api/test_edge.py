"""What every answer carries, whichever door it comes from; OWASP ASVS 5.0, 3.4."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.clock import FakeClock
from tests.peers import POLICY
from tests.service import app_for, http, service_context, settings_for

pytestmark = pytest.mark.anyio
PATHS = (
    "/access/v1/evaluation",
    "/access/v1/request/none",
    "/resolver/v1/requests",
    "/.well-known/authzen-configuration",
    "/openapi.json",
    "/healthz",
    "/login",
    "/static/none.js",
    "/nowhere",
)


@pytest.fixture
def changes() -> dict[str, Any]:
    """Changes to the configuration."""
    return {}


@pytest.fixture
async def answers(service_url: str, tmp_path: Path, clock: FakeClock, changes: dict[str, Any]) -> AsyncIterator[Any]:
    settings = settings_for(tmp_path, database=service_url, policy=POLICY, **changes)
    async with service_context(settings, clock=clock) as context, http(app_for(context)) as client:
        yield [await client.request(method, path) for path in PATHS for method in ("GET", "POST")]


async def test_every_answer_keeps_browsers_to_https_and_runs_and_frames_nothing(answers: list[Any]) -> None:
    for answer in answers:
        said = answer.headers
        assert said["strict-transport-security"] == "max-age=31536000; includeSubDomains", answer.url
        assert said["x-content-type-options"] == "nosniff", answer.url
        policy = said["content-security-policy"].split("; ")
        assert {"default-src 'none'", "base-uri 'none'", "frame-ancestors 'none'"} <= set(policy), answer.url
        assert "access-control-allow-origin" not in said


@pytest.mark.parametrize("changes", [{"insecure_loopback": True, "identifier": "http://127.0.0.1:8400"}])
async def test_without_https_nothing_is_said_about_it(answers: list[Any]) -> None:
    """A browser would ignore it; a developer's loopback must not look like what it is not."""
    assert not [answer for answer in answers if "strict-transport-security" in answer.headers]
