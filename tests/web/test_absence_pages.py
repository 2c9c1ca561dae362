"""Who decides in somebody's place, entered at the desk; design.md sections 4 and 7."""

import re

import pytest
from fastapi import FastAPI

from arap_service.context import Context
from tests.clock import FakeClock
from tests.web.desk import Browser, commit_request, decide, transfer_request
from tests.web.parts import member

pytestmark = pytest.mark.anyio
END = re.compile(r'action="(/desk/absence/[\w-]+/end)"')
SOON = {"deputy": "olga", "from": "", "until": "2026-05-01T20:00", "zone": "UTC"}


async def enter(browser: Browser, **fields: str) -> int:
    """Send the form as it is with these fields."""
    answer = await browser.submit("/desk/absence", seen=await browser.get("/desk/absence"), **{**SOON, **fields})
    return answer.status_code


async def test_a_deputy_decides_until_it_is_ended(
    grace: Browser, browser: Browser, app: FastAPI, context: Context
) -> None:
    first, second = await commit_request(app, context, "First"), await commit_request(app, context, "Second")
    olga = browser
    await olga.log_in("olga")
    assert (await decide(olga, first, "deny", reason="No.")).status_code == 403
    assert await enter(grace) == 303
    assert "Olga Outside decides for you" in (await grace.get("/desk/absence")).text
    assert "You decide for Grace Hopper" in (await olga.get("/desk/absence")).text
    assert (await decide(olga, first, "deny", reason="No.")).status_code == 303
    page = await grace.get("/desk/absence")
    assert (await grace.submit(END.findall(page.text)[0], seen=page)).status_code == 303
    assert "nobody decides for you" in (await grace.get("/desk/absence")).text
    assert (await decide(olga, second, "deny", reason="No.")).status_code == 403


@pytest.mark.parametrize(
    ("wrong", "field", "message"),
    [
        ({"deputy": ""}, "deputy", "Please name who decides for you."),
        ({"deputy": "somebody"}, "deputy", "Nobody here"),
        ({"deputy": "grace"}, "deputy", "Nobody stands in for himself."),
        ({"until": ""}, "until", "Please say until when."),
        ({"until": "tomorrow"}, "until", "This is no date and time."),
        ({"until": "2026-04-30T19:00"}, "until", "The end comes after the beginning"),
        ({"until": "2028-04-30T19:00"}, "until", "days at most"),
        ({"group": "auditors"}, "", "The person is not in this group."),
    ],
)
async def test_what_is_wrong_stands_beside_its_field_and_nothing_is_entered(
    grace: Browser, wrong: dict[str, str], field: str, message: str
) -> None:
    seen = await grace.get("/desk/absence")
    answer = await grace.submit("/desk/absence", seen=seen, **{**SOON, **wrong})
    assert answer.status_code == 422
    assert message in answer.text
    if field:
        assert f'id="{field}-error"' in answer.text
    assert "nobody decides for you" in (await grace.get("/desk/absence")).text


async def test_times_are_those_of_the_chosen_zone(grace: Browser) -> None:
    assert await enter(grace, until="2026-05-01T09:00", zone="Asia/Tokyo") == 303
    assert "1 May 2026, 00:00 UTC" in (await grace.get("/desk/absence")).text
    assert await enter(grace, zone="Mars/Base") == 422


async def test_a_group_limits_it_to_what_is_decided_as_its_member(
    grace: Browser, browser: Browser, app: FastAPI, context: Context
) -> None:
    commit, transfer = await commit_request(app, context), await transfer_request(app, context)
    assert await enter(grace, group="treasurers") == 303
    await browser.log_in("olga")
    assert (await decide(browser, commit, "deny", reason="No.")).status_code == 403, "commits are for maintainers"
    assert (await decide(browser, transfer, "deny", reason="No.")).status_code == 303


async def test_only_an_administrator_sees_and_ends_those_of_others(
    grace: Browser, linus: Browser, context: Context
) -> None:
    assert await enter(grace) == 303
    path = END.findall((await grace.get("/desk/absence")).text)[0]
    page = await linus.get("/desk/absence")
    assert "Grace" not in page.text
    assert (await linus.submit(path, seen=page)).status_code == 404
    async with member(context, "adam") as adam:
        page = await adam.get("/desk/absence")
        assert "Olga Outside decides for Grace Hopper" in page.text
        assert (await adam.submit(path, seen=page)).status_code == 303
    assert "nobody decides for you" in (await grace.get("/desk/absence")).text


async def test_one_that_is_over_cannot_be_ended_again(grace: Browser, clock: FakeClock) -> None:
    assert await enter(grace, until="2026-04-30T20:10") == 303
    page = await grace.get("/desk/absence")
    clock.advance(700)
    assert (await grace.submit(END.findall(page.text)[0], seen=page)).status_code == 409
