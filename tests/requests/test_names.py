"""The names that a task handle uses: the profile's own, or names that nobody else can come to use."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from arap_service import requests
from tests.requests.world import GATE, World

pytestmark = pytest.mark.anyio
DEFINED = {
    "task": {"id", "status", "status_endpoint", "expires_at", "links", "display"},
    "task.links": {"cancel"},
    "task.display": set[str](),
    "result": {"mode", "approval"},
    "result.approval": {"id", "approved_at", "approved_until", "state"},
}


def extension_names(body: dict[str, Any]) -> Iterator[str]:
    """The member names that the profile does not define, at the places where it lets others be added."""
    for place, defined in DEFINED.items():
        value: Any = body
        for name in place.split("."):
            value = value.get(name, {})
        yield from set(value) - defined
    mode = body.get("result", {}).get("mode", "reevaluate")
    yield from {mode} - {"reevaluate"}


@pytest.mark.requirement("ARS-09", "ARS-08")
async def test_every_name_that_we_add_is_an_absolute_uri(world: World) -> None:
    """Access Request and Approval Profile, "Naming Extensions"."""
    pending, approved, denied = [await world.pending() for _ in range(3)]
    await world.decide(approved)
    await world.decide(denied, decision="deny", reason="not today")
    added = set()
    for task_id in (pending, approved, denied):
        added |= set(extension_names(await requests.status(world.ctx, GATE, task_id)))
    assert added == {"urn:x-arap:report", "urn:x-arap:decision"}
    assert all(urlsplit(name).scheme == "urn" for name in added)
