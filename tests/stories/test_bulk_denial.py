"""Story: an agent runs wild; a reviewer denies what it asked for in one go, with one reason, and lets the rest wait.

Service, gate and client are the real ones; the reviewer ticks what she has seen in her list at the desk. Each request
is decided by itself: what was not ticked, or has changed since, is left alone.
"""

from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.stories.bank import Bank, bank, disposition
from tests.stories.people import at_desk, decides, employ

POLICY = """
version: 1
clients: [{client: gate, may: 'subject.type == "identity"'}]
rules:
  - {id: transfers, when: resource.id == "wire_transfer", request: transfer}
templates:
  transfer:
    title: Wire transfer
    explanation: Money leaves the company.
    effect: '"Transfers " + string(call.arguments.amount) + " to " + call.arguments.to'
    steps: [{id: treasury, title: A treasurer, groups: [treasury]}]
"""
WILD = (1, 2, 3)


async def deny_the_wild_ones(told: Bank) -> list[str]:
    """Tick what goes to the stranger, deny it, and let the other one through; what became of the ticked ones."""
    kim = await at_desk(told, "kim")
    waiting = {row["effect"]: row async for row in told.resolver.queue(status="pending")}
    chosen = {f"pick-{row['id']}": str(row["version"]) for effect, row in waiting.items() if "Stranger" in effect}
    seen = await kim.submit("/desk/several", seen=await kim.get("/desk"), **chosen)
    assert (seen.status_code, f"Deny these {len(WILD)}" in seen.text) == (200, True)
    sent = {"decision": "deny", "reason": "Nobody asked for this.", **chosen}
    done = await kim.submit("/desk/several/decision", seen=seen, **sent)
    assert f"{len(WILD)} of {len(WILD)} decisions recorded" in done.text
    await kim.client.aclose()
    other = waiting["Transfers 900 to ACME"]["id"]
    assert (await told.resolver.get(other))["status"] == "pending"
    assert (await decides(told, "kim", other, "approve")).status_code == 303
    return [(await told.resolver.get(name.removeprefix("pick-")))["status"] for name in chosen]


@pytest.mark.anyio
async def test_what_an_agent_asked_for_without_end_is_denied_together(service_url: str, tmp_path: Path) -> None:
    became: list[str] = []
    results: dict[int, Any] = {}

    async def review(told: Bank) -> None:
        asked = [row async for row in told.resolver.queue(status="pending")]
        if not became and len(asked) == len(WILD) + 1:
            became.extend(await deny_the_wild_ones(told))

    async with bank(tmp_path, service_url, POLICY, review=review) as told:
        employ(told, kim="treasury")

        async def transfer(amount: int, to: str) -> None:
            results[amount] = await told.transfer(amount, to)

        async with anyio.create_task_group() as calls:
            for amount in WILD:
                calls.start_soon(transfer, amount, "Stranger")
            calls.start_soon(transfer, 900, "ACME")
        assert became == ["denied"] * len(WILD)
        assert {disposition(results[amount]) for amount in WILD} == {"denied-not-executed"}
        assert (disposition(results[900]), told.ran) == ("approved-executed", [("ACME", 900)])
