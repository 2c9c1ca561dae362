"""Story: first the manager of who asks says yes, then whoever owns the tool; nobody in the other order.

Service, gate and client are the real ones; who is manager and owner stands in the entities of the rules file.
"""

from pathlib import Path

import pytest

from tests.stories.bank import Bank, bank, disposition
from tests.stories.people import decides, employ, the_one_that_waits

POLICY = """
version: 1
clients: [{client: gate, may: 'subject.type == "identity"'}]
entities:
  identity: {alice: {manager: mia}}
  tool: {wire_transfer: {owner: [otto]}}
rules:
  - {id: transfers, when: resource.id == "wire_transfer", request: transfer}
templates:
  transfer:
    title: Wire transfer
    explanation: Money leaves the company.
    steps:
      - {id: manager, title: The manager, relations: [{of: subject, is: manager}]}
      - {id: owner, title: The owner of the tool, after: [manager], relations: [{of: resource, is: owner}]}
"""


@pytest.mark.anyio
@pytest.mark.parametrize(("last", "expected"), [("approve", "approved-executed"), ("deny", "denied-not-executed")])
async def test_the_owner_decides_once_the_manager_has_agreed(
    service_url: str, tmp_path: Path, last: str, expected: str
) -> None:
    settled: list[str] = []

    async def review(told: Bank) -> None:
        if settled:
            return
        waiting = await the_one_that_waits(told)
        settled.append(waiting)
        early = await decides(told, "otto", waiting, "approve")
        assert (early.status_code, "It is not your turn yet" in early.text) == (403, True)
        assert (await decides(told, "mia", waiting, "approve")).status_code == 303
        assert ((await told.resolver.get(waiting))["status"], told.ran) == ("pending", [])
        assert (await decides(told, "mia", waiting, "approve")).status_code in {403, 409}
        assert (await decides(told, "otto", waiting, last, reason="My tool, my word.")).status_code == 303

    async with bank(tmp_path, service_url, POLICY, review=review) as told:
        employ(told, mia="", otto="")
        result = await told.transfer(900)
        assert (disposition(result), told.ran) == (expected, [("ACME", 900)] if last == "approve" else [])
        votes = (await told.resolver.get(settled[0]))["votes"]
        assert [(vote["voter"], vote["decision"]) for vote in votes] == [("Mia", "approve"), ("Otto", last)]
