"""Story: nobody of the treasury is there, so the board is asked as well, and decides in time.

Service, gate and client are the real ones; the time that nobody comes passes when the story says so.
"""

from pathlib import Path

import pytest

from arap_service.surroundings import utc_now
from tests.clock import FakeClock
from tests.stories.bank import Bank, bank, disposition
from tests.stories.people import decides, employ, the_one_that_waits

POLICY = """
version: 1
groups: {treasury: Treasury, board: The board}
clients: [{client: gate, may: 'subject.type == "identity"'}]
rules:
  - {id: transfers, when: resource.id == "wire_transfer", request: transfer}
templates:
  transfer:
    title: Wire transfer
    explanation: Money leaves the company.
    steps:
      - {id: treasury, title: A treasurer, groups: [treasury], escalate: {after_seconds: 30, groups: [board]}}
"""


@pytest.mark.anyio
async def test_the_board_is_asked_when_the_treasury_lets_a_request_wait(service_url: str, tmp_path: Path) -> None:
    clock = FakeClock(utc_now())
    settled: list[str] = []

    async def review(told: Bank) -> None:
        if settled:
            return
        waiting = await the_one_that_waits(told)
        settled.append(waiting)
        early = await decides(told, "bea", waiting, "approve")
        assert (early.status_code, told.ran) == (403, [])
        clock.advance(31)
        assert (await decides(told, "bea", waiting, "approve")).status_code == 303

    async with bank(tmp_path, service_url, POLICY, review=review, clock=clock) as told:
        employ(told, kim="treasury", bea="board")
        result = await told.transfer(900)
        assert (disposition(result), told.ran) == ("approved-executed", [("ACME", 900)])
        request = await told.resolver.get(settled[0])
        assert "step_escalated" in [entry["kind"] for entry in request["history"]]
        assert [vote["voter"] for vote in request["votes"]] == ["Bea"]
