"""Story: an agent supervises another one by the tools of a resolver server; what it may not do stays undone.

Server and agent are examples/supervising_agent; service, gate and client are the real ones. GOV-09.
"""

from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from arap_service.client import AsyncResolver
from examples.supervising_agent.agent import supervise
from examples.supervising_agent.server import resolver_server
from tests.stories.bank import Bank, bank, disposition
from tests.stories.test_risk_engine import POLICY


def judge(request: dict[str, Any]) -> tuple[str, str]:
    known = any(value["pointer"] == "/to" and value["text"] == "ACME" for value in request["arguments"])
    return ("approve", "Paid before.") if known else ("deny", "Nobody knows them.")


@pytest.mark.anyio
async def test_agent_decides_with_an_identity_that_the_rules_name(service_url: str, tmp_path: Path) -> None:
    async def review(told: Bank) -> None:
        async with Client(resolver_server(told.resolver, may_approve=True)) as client:
            await supervise(client, judge)

    async with bank(tmp_path, service_url, POLICY, review=review) as told:
        assert disposition(await told.transfer(500)) == "approved-executed"
        assert disposition(await told.transfer(600, to="Stranger")) == "denied-not-executed"
        assert told.ran == [("ACME", 500)]
        [approved] = [each async for each in told.resolver.queue(status="approved")]
        assert (await told.resolver.get(approved["id"]))["approval"]["may_vary"] == []


@pytest.mark.anyio
async def test_agent_without_the_tool_or_the_right_leaves_it_to_others(service_url: str, tmp_path: Path) -> None:
    """First a server that only denies; then the whole one for an identity that may read and no more."""
    came_of_it: list[list[str]] = []
    refused: list[bool] = []

    async def review(told: Bank) -> None:
        if came_of_it or not await told.waiting():
            return
        [request] = await told.waiting()
        async with Client(resolver_server(told.resolver, may_approve=False)) as client:
            assert "approve_request" not in {tool.name for tool in (await client.list_tools()).tools}
            came_of_it.append([outcome for _, outcome in await supervise(client, judge)])
        async with (
            AsyncResolver(told.live.url, auth=told.live.credentials("reader")) as reader,
            Client(resolver_server(reader, may_approve=True)) as client,
        ):
            about = {"request_id": request["id"], "version": request["version"], "reason": "Because."}
            refused.append((await client.call_tool("approve_request", about)).is_error)
        await told.resolver.decide(request["id"], "deny", version=request["version"], reason="Enough.")

    async with bank(tmp_path, service_url, POLICY, review=review) as told:
        assert disposition(await told.transfer(500)) == "denied-not-executed"
        assert (told.ran, came_of_it, refused) == ([], [["left"]], [True])
