"""People in stories: they work at the desk of the bank, by its forms."""

import re

import httpx2

from tests.service import app_for
from tests.stories.bank import Bank
from tests.web.desk import Browser, add_person


def employ(told: Bank, **people: str) -> None:
    """Have people with accounts, each in one group, or in none where its name is empty."""
    for name, group in people.items():
        add_person(told.live.context, name, name=name.title(), groups=(group,) if group else ())


async def at_desk(told: Bank, person: str) -> Browser:
    """The browser of somebody who has logged in."""
    browser = Browser(app_for(told.live.context))
    assert (await browser.log_in(person)).status_code == 303
    return browser


async def decides(told: Bank, person: str, request_id: str, decision: str, *, reason: str = "") -> httpx2.Response:
    """Somebody opens a request and sends a decision on what he sees; the answer of the desk."""
    browser = await at_desk(told, person)
    try:
        path = f"/desk/requests/{request_id}"
        seen = await browser.get(path)
        shown = re.search(r'name="version" value="(\d+)"', seen.text)
        version = shown[1] if shown else str((await told.resolver.get(request_id))["version"])
        return await browser.submit(f"{path}/decision", seen=seen, decision=decision, version=version, reason=reason)
    finally:
        await browser.client.aclose()


async def the_one_that_waits(told: Bank) -> str:
    """The id of the only request that nobody has settled."""
    [waiting] = [request async for request in told.resolver.queue(status="pending")]
    return str(waiting["id"])
