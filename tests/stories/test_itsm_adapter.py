"""Story: a ticket decides. The adapter opens one for each request, follows it, and closes it when the request ends.

The adapter is examples/itsm_adapter, a client like any other; service, gate and client are the real ones.
"""

from pathlib import Path

import httpx2
import pytest

from examples.itsm_adapter.adapter import Adapter
from examples.itsm_adapter.tickets import ticket_server
from tests.stories.bank import Bank, bank, disposition
from tests.stories.test_risk_engine import POLICY


@pytest.mark.anyio
async def test_ticket_is_opened_once_and_its_state_decides(service_url: str, tmp_path: Path) -> None:
    """A person at the ticket desk approves what goes to ACME and rejects the rest; nobody else decides."""
    transport = httpx2.ASGITransport(app=ticket_server())
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as desk:
        seen: list[tuple[str, str]] = []

        async def review(told: Bank) -> None:
            for request in await told.waiting():
                reference = f"/tickets/{request['id']}"
                await Adapter(told.resolver, desk).round()
                await Adapter(told.resolver, desk).round()  # a new one finds the ticket of the one before
                ticket = (await desk.get(reference)).json()
                seen.append((ticket["number"], ticket["state"]))
                state = "approved" if "ACME" in str(request["arguments"]) else "rejected"
                await desk.patch(reference, json={"state": state, "note": "Checked by phone."})
                await Adapter(told.resolver, desk).round()

        async with bank(tmp_path, service_url, POLICY, review=review) as told:
            assert disposition(await told.transfer(500)) == "approved-executed"
            assert disposition(await told.transfer(600, to="Stranger")) == "denied-not-executed"
            assert told.ran == [("ACME", 500)]
            assert seen == [("T-1", "open"), ("T-2", "open")]
            [approved] = [each async for each in told.resolver.queue(status="approved")]
            assert (await told.resolver.get(approved["id"]))["approval"]["may_vary"] == []
            [denied] = [each async for each in told.resolver.queue(status="denied")]
            [vote] = (await told.resolver.get(denied["id"]))["votes"]
            assert (vote["voter"], vote["reason"]) == ("resolver", "Ticket T-2: Checked by phone.")


@pytest.mark.anyio
async def test_ticket_of_a_request_that_ends_elsewhere_is_closed(service_url: str, tmp_path: Path) -> None:
    transport = httpx2.ASGITransport(app=ticket_server())
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as desk:
        adapters: list[Adapter] = []
        closed: list[dict[str, str]] = []

        async def review(told: Bank) -> None:
            adapters[:] = adapters or [Adapter(told.resolver, desk)]
            for request in await told.waiting():
                await adapters[0].round()
                await told.resolver.decide(request["id"], "approve", version=request["version"])
                await adapters[0].round()
                closed.append((await desk.get(f"/tickets/{request['id']}")).json())

        async with bank(tmp_path, service_url, POLICY, review=review) as told:
            assert disposition(await told.transfer(500)) == "approved-executed"
        assert [(each["state"], each["note"]) for each in closed] == [("closed", "The request was approved.")]
