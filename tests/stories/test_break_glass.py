"""Story: in the night one person on call lets a transfer through, and next morning somebody else says what they think.

Service, gate and client are the real ones; the people work at the desk. That it is an emergency is asked for like any
other input, and approves nothing by itself. ARS-119.
"""

from html import unescape
from pathlib import Path
from typing import Any

import pytest
from mcp import types

from tests.service import app_for
from tests.stories.bank import Bank, bank, disposition
from tests.web.desk import Browser, add_person

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
    steps: [{id: treasury, title: Two treasurers, groups: [treasury], quorum: 2}]
    emergency: {groups: [on-call], owners: [treasury], approval_seconds: 120, review_seconds: 3600}
    request_schema:
      type: object
      required: [requested_access]
      properties:
        requested_access:
          type: object
          required: [emergency, business_justification]
          properties:
            emergency: {type: boolean, title: This cannot wait}
            business_justification: {type: string, title: Why now, minLength: 5}
"""
WHY = "The payroll bounces at six"


async def fill_in(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
    """What the person who uses the agent answers."""
    del context, params
    return types.ElicitResult(action="accept", content={"emergency": True, "business_justification": WHY})


async def at_desk(told: Bank, person: str) -> Browser:
    """The browser of somebody who has logged in."""
    browser = Browser(app_for(told.live.context))
    assert (await browser.log_in(person)).status_code == 303
    return browser


@pytest.mark.anyio
@pytest.mark.requirement("ARS-119")
async def test_one_on_call_approves_and_an_owner_reviews_it_afterwards(service_url: str, tmp_path: Path) -> None:
    opened: list[str] = []

    async def review(told: Bank) -> None:
        if opened:
            return
        [waiting] = [request async for request in told.resolver.queue(status="pending")]
        opened.append(waiting["id"])
        path = f"/desk/requests/{waiting['id']}"
        owner, lea = await at_desk(told, "owner"), await at_desk(told, "lea")
        page = unescape((await owner.get(path)).text)
        assert ("Emergency" in page, "Whoever is on call" in page, WHY in page) == (
            True, True, True,
        )  # fmt: skip
        assert 'id="approve"' not in page
        seen = await lea.get(path)
        assert (await lea.submit(f"{path}/decision", seen=seen, decision="approve", version="1")).status_code == 303
        for browser in (owner, lea):
            await browser.client.aclose()

    async with bank(tmp_path, service_url, POLICY, review=review, elicitation=fill_in) as told:
        for name, groups in (("lea", ("on-call",)), ("owner", ("treasury",)), ("other", ("treasury",))):
            add_person(told.live.context, name, name=name.title(), groups=groups)
        result = await told.transfer(900)
        assert (disposition(result), told.ran) == ("approved-executed", [("ACME", 900)])
        approval = (await told.resolver.get(opened[0]))["approval"]
        lea, owner = await at_desk(told, "lea"), await at_desk(told, "owner")
        hers = unescape((await lea.get("/desk/reviews")).text)
        assert ("Transfers 900 to ACME" in hers, "Close the review" in hers) == (True, False)
        seen = await owner.get("/desk/reviews")
        path = f"/desk/reviews/{approval['id']}"
        forgotten = await owner.submit(path, seen=seen, outcome="justified")
        assert forgotten.status_code == 422
        said = {"outcome": "unjustified", "note": "Payroll is on the first."}
        assert (await lea.submit(path, seen=await lea.get(f"/desk/requests/{opened[0]}"), **said)).status_code == 403
        assert (await owner.submit(path, seen=seen, **said)).status_code == 303
        after = unescape((await owner.get("/desk/reviews")).text)
        assert ("Nothing waits." in after, said["note"] in after) == (True, True)
        history = [entry["kind"] for entry in (await told.resolver.get(opened[0]))["history"]]
        assert history[-1] == "emergency_reviewed"
        for browser in (owner, lea):
            await browser.client.aclose()
