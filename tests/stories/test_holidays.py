"""Story: during her holidays somebody decides in her place, as long as she says so, and the record names both.

Service, gate and client are the real ones; she enters her absence at the desk, and ends it there.
"""

import re
from datetime import timedelta
from pathlib import Path

import pytest

from arap_service.surroundings import utc_now
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
    steps: [{id: treasury, title: A treasurer, groups: [treasury]}]
"""


async def leave(told: Bank) -> None:
    """Kim enters that Dora decides for her until tomorrow."""
    kim = await at_desk(told, "kim")
    until = (utc_now() + timedelta(days=1)).strftime("%Y-%m-%dT%H:%M")
    seen = await kim.get("/desk/absence")
    assert (await kim.submit("/desk/absence", seen=seen, deputy="dora", until=until, zone="UTC")).status_code == 303
    await kim.client.aclose()


async def come_back(told: Bank) -> None:
    """Kim ends it."""
    kim = await at_desk(told, "kim")
    seen = await kim.get("/desk/absence")
    [path] = re.findall(r'action="(/desk/absence/[^"]+/end)"', seen.text)
    assert (await kim.submit(path, seen=seen)).status_code == 303
    await kim.client.aclose()


@pytest.mark.anyio
async def test_a_deputy_decides_for_somebody_who_is_away_and_no_longer_when_she_is_back(
    service_url: str, tmp_path: Path
) -> None:
    settled: list[str] = []

    async def review(told: Bank) -> None:
        for waiting in [request["id"] async for request in told.resolver.queue(status="pending")]:
            settled.append(waiting)
            is_back = len(settled) == 2
            assert (await decides(told, "dora", waiting, "approve")).status_code == (403 if is_back else 303)
            if is_back:
                assert told.ran == [("ACME", 900)]
                assert (await decides(told, "kim", waiting, "deny", reason="Not this one.")).status_code == 303

    async with bank(tmp_path, service_url, POLICY, review=review) as told:
        employ(told, kim="treasury", dora="")
        await leave(told)
        assert disposition(await told.transfer(900)) == "approved-executed"
        [vote] = (await told.resolver.get(settled[0]))["votes"]
        assert (vote["voter"], vote["in_place_of"]) == ("Dora", "Kim")
        await come_back(told)
        assert disposition(await told.transfer(901)) == "denied-not-executed"
        assert told.ran == [("ACME", 900)]
