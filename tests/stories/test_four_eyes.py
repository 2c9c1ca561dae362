"""Story: a transfer of the company's money needs two of the treasury, and one of them twice is not two.

Service, gate and client are the real ones; the people work at the desk. ARS-114, ARS-116.
"""

from pathlib import Path

import pytest

from tests.stories.bank import Bank, bank, disposition
from tests.stories.people import decides, employ, the_one_that_waits

POLICY = """
version: 1
clients: [{client: gate, may: 'subject.type == "identity"'}]
rules:
  - {id: transfers, when: resource.id == "wire_transfer", request: transfer}
templates:
  transfer:
    title: Wire transfer
    explanation: Money leaves the company.
    steps: [{id: treasury, title: Two of the treasury, groups: [treasury], quorum: 2}]
"""


@pytest.mark.anyio
async def test_two_of_the_treasury_let_a_transfer_through(service_url: str, tmp_path: Path) -> None:
    settled: list[str] = []

    async def review(told: Bank) -> None:
        if settled:
            return
        waiting = await the_one_that_waits(told)
        settled.append(waiting)
        assert (await decides(told, "kim", waiting, "approve")).status_code == 303
        again = await decides(told, "kim", waiting, "approve")
        assert (again.status_code, "cannot be changed" in again.text) == (403, True)
        request = await told.resolver.get(waiting)
        assert (request["status"], told.ran) == ("pending", [])
        assert (await decides(told, "lou", waiting, "approve")).status_code == 303

    async with bank(tmp_path, service_url, POLICY, review=review) as told:
        employ(told, kim="treasury", lou="treasury")
        result = await told.transfer(50_000)
        assert (disposition(result), told.ran) == ("approved-executed", [("ACME", 50_000)])
        votes = (await told.resolver.get(settled[0]))["votes"]
        assert [vote["voter"] for vote in votes] == ["Kim", "Lou"]
