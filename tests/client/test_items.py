"""Bundles through the client library: item by item, over real HTTP."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio.to_thread
import httpx2
import pytest

from arap_service.client import AsyncResolver, Conflict, Resolver
from tests.live import Live, serving
from tests.peers import EVALUATION, POLICY, REQUEST

SUBJECT = {"type": "user", "id": "alice@example.com"}


@pytest.fixture
async def live(service_url: str, tmp_path: Path) -> AsyncIterator[Live]:
    async with serving(tmp_path, database=service_url, policy=POLICY, background=False) as opened:
        yield opened


async def requested(live: Live, *actions: str) -> str:
    """The id of a new request for these actions on one account."""
    resource, context = {"type": "account", "id": "wire_transfer"}, {"tenant": "acme"}
    listed: list[dict[str, Any]] = []
    async with httpx2.AsyncClient(base_url=live.url, auth=live.credentials("gate")) as gate:
        for action in actions:
            thing = {"resource": resource, "action": {"name": action}}
            told = (await gate.post(EVALUATION, json={"subject": SUBJECT, "context": context, **thing})).json()
            offer = told["context"]["access_request"]
            denial = {"binding_token": offer["binding_token"], "expires_at": offer["expires_at"]}
            listed.append({**thing, "denial": denial})
        body = {"subject": SUBJECT, "context": context, "items": listed}
        return str((await gate.post(REQUEST, json=body)).json()["task"]["id"])


@pytest.mark.anyio
async def test_resolver_decides_the_items_that_are_its_to_decide(live: Live) -> None:
    request_id = await requested(live, "read", "write")

    def resolve() -> list[str]:
        with Resolver(live.url, auth=live.credentials("resolver")) as resolver:
            request = resolver.get(request_id)
            for item in request["items"]:
                decision = "approve" if item["action"]["name"] == "read" else "deny"
                request = resolver.decide(
                    request_id,
                    decision,  # type: ignore[arg-type]
                    version=item["version"],
                    item=item["item"],
                    reason="by action",
                )
            return [request["status"], *(item["status"] for item in request["items"])]

    assert await anyio.to_thread.run_sync(resolve) == ["partial", "approved", "denied"]


@pytest.mark.anyio
async def test_asynchronous_resolver_does_the_same_and_meets_the_same_conflicts(live: Live) -> None:
    request_id = await requested(live, "read", "write")
    async with AsyncResolver(live.url, auth=live.credentials("resolver")) as resolver:
        decided = await resolver.decide(request_id, "approve", version=1, item=2)
        assert [item["status"] for item in decided["items"]] == ["pending", "approved"]
        with pytest.raises(Conflict) as conflict:
            await resolver.decide(request_id, "deny", version=1, item=2, reason="no")
        assert conflict.value.problem["current_status"] == "approved"
        revoked = await resolver.revoke(decided["items"][1]["approval"]["id"], reason="no")
        assert [item["approval"] and item["approval"]["status"] for item in revoked["items"]] == [None, "revoked"]
