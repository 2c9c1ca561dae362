"""The page about oneself: where one is logged in, and ending that; the session rules are the project's own."""

import re

import pytest
from fastapi import FastAPI

from arap_service.audit import entries_of
from arap_service.context import Context
from arap_service.store.sessions import web_sessions_of
from arap_service.web.login import LOGIN_CHAIN
from arap_service.web.sessions import browser_of
from tests.clock import FakeClock
from tests.web.desk import Browser

pytestmark = pytest.mark.anyio
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:142.0) Gecko/20100101 Firefox/142.0"
CHROME = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0 Safari/537.36"
SAFARI = "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1 (KHTML, like Gecko) Version/18 Safari/605.1"


def marks(text: str) -> list[str]:
    return re.findall(r'name="which" value="([0-9a-f]{16})"', text)


async def is_in(browser: Browser) -> bool:
    return (await browser.get("/desk/account")).status_code == 200


async def test_everybody_sees_his_own_sessions_and_groups_and_nobody_elses(
    app: FastAPI, linus: Browser, clock: FakeClock
) -> None:
    hers = Browser(app)
    hers.client.headers["User-Agent"] = FIREFOX
    await hers.log_in("grace")
    clock.advance(600)
    phone = Browser(app)
    await phone.log_in("grace")
    page = await hers.get("/desk/account")
    assert len(marks(page.text)) == 2
    assert page.text.count("(this one)") == 1
    assert "Firefox on Linux" in page.text
    assert "treasurers" in page.text
    assert len(marks((await linus.get("/desk/account")).text)) == 1
    for used in (hers, phone):
        await used.client.aclose()


async def test_one_other_all_others_or_all_are_ended(app: FastAPI, context: Context) -> None:
    browsers = [Browser(app) for _ in range(4)]
    for each in browsers:
        await each.log_in("grace")
    first, second, third, fourth = browsers
    page = await first.get("/desk/account")
    own = {mark for mark in marks(page.text) if re.search(f"this one.*?{mark}", page.text, re.DOTALL)}
    others = [mark for mark in marks(page.text) if f'value="{mark}"' in page.text]
    own_mark = next(
        row.digest[:16]
        for row in context.database.read_now(lambda session: web_sessions_of(session, "grace"))
        if row.csrf in page.text
    )
    assert own_mark in own
    target = next(mark for mark in others if mark != own_mark)
    answer = await first.submit("/desk/account/sessions", seen=page, which=target)
    assert (answer.status_code, answer.headers["location"]) == (303, "/desk/account")
    assert [await is_in(each) for each in browsers].count(True) == 3
    assert await is_in(first)
    answer = await first.submit("/desk/account/sessions", seen=page, which="others")
    assert [await is_in(each) for each in browsers] == [True, False, False, False]
    await second.log_in("grace")
    answer = await first.submit("/desk/account/sessions", seen=page, which="all")
    assert answer.headers["location"] == "/login"
    assert [await is_in(each) for each in browsers] == [False, False, False, False]
    entries = context.database.read_now(lambda session: entries_of(session, LOGIN_CHAIN))
    ended = [entry.detail for entry in entries if entry.kind == "logged_out"]
    assert ended == ['{"sessions":1}', '{"sessions":2}', '{"sessions":2}']
    for each in (first, second, third, fourth):
        await each.client.aclose()


async def test_ending_ones_own_session_logs_out(grace: Browser) -> None:
    page = await grace.get("/desk/account")
    [mark] = marks(page.text)
    answer = await grace.submit("/desk/account/sessions", seen=page, which=mark)
    assert answer.headers["location"] == "/login"
    assert not await is_in(grace)


async def test_nobody_ends_the_session_of_somebody_else(grace: Browser, linus: Browser) -> None:
    [mark] = marks((await linus.get("/desk/account")).text)
    page = await grace.get("/desk/account")
    assert (await grace.submit("/desk/account/sessions", seen=page, which=mark)).status_code == 303
    assert await is_in(linus)
    assert await is_in(grace)
    assert (await grace.submit("/desk/account/sessions", seen=page)).status_code == 400


async def test_the_limits_of_sessions_are_those_of_the_configuration(
    grace: Browser, context: Context, clock: FakeClock
) -> None:
    changed = context.settings.login.model_copy(update={"idle_seconds": 120})
    object.__setattr__(context.settings, "login", changed)
    clock.advance(119)
    assert await is_in(grace)
    clock.advance(120)
    assert not await is_in(grace)


async def test_a_session_of_a_way_that_is_switched_off_opens_nothing(grace: Browser, context: Context) -> None:
    object.__setattr__(context.settings, "login", context.settings.login.model_copy(update={"local": False}))
    assert not await is_in(grace)


@pytest.mark.parametrize(
    ("agent", "said"),
    [
        (FIREFOX, "Firefox on Linux"),
        (CHROME, "Chrome on Windows"),
        (SAFARI, "Safari on macOS"),
        ("curl/8", "A browser"),
        (None, "A browser"),
        ("<script>", "A browser"),
    ],
)
def test_a_browser_is_named_in_words_of_ours(agent: str | None, said: str) -> None:
    assert browser_of(agent) == said
