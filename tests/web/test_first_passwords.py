"""A password that was set for somebody opens nothing but the page to replace it, and not for long; ASVS 5.0, 6.4.1."""

from datetime import datetime, timedelta

import pytest
from fastapi import FastAPI

from arap_service.audit import entries_of
from arap_service.context import Context
from arap_service.directory import add_account
from arap_service.store.sessions import account_by_login, web_sessions_of
from arap_service.web.login import LOGIN_CHAIN, RAN_OUT, WRONG
from arap_service.web.password_pages import PATH
from arap_service.web.passwords import hash_password
from tests.clock import FakeClock
from tests.web.desk import Browser, commit_request, form_token

pytestmark = pytest.mark.anyio
FIRST = "set by an administrator"
OWN = "a kite over the harbour"


@pytest.fixture
def until(context: Context) -> datetime:
    """Grace was given a password; the moment at which it stops counting."""
    now = context.clock()
    end = now + timedelta(seconds=context.settings.login.first_password_seconds)
    hashed, issuer = hash_password(FIRST), context.settings.identifier
    context.database.write_now(
        lambda session: add_account(
            session, "grace", person_id="grace", password_hash=hashed, first_until=end, issuer=issuer, now=now
        )
    )
    return end


async def replaced(browser: Browser, path: str = PATH) -> str:
    seen = await browser.get(path)
    target = seen.text.partition('name="next" value="')[2].partition('"')[0]
    typed = {"current": FIRST, "new": OWN, "again": OWN, "next": target.replace("&amp;", "&")}
    answer = await browser.submit(PATH, seen=seen, **typed)
    return str(answer.headers.get("location", answer.text))


async def test_nothing_can_be_seen_or_done_before_the_password_is_replaced(
    browser: Browser, app: FastAPI, context: Context, until: datetime
) -> None:
    task_id = await commit_request(app, context)
    assert (await browser.log_in("grace", password=FIRST)).status_code == 303
    paths = ("/desk", "/desk/account", f"/desk/requests/{task_id}", "/desk/my", "/desk/again", "/desk/none")
    for path in paths:
        answer = await browser.get(path)
        assert (answer.status_code, answer.headers["location"].partition("?")[0]) == (303, PATH), path
    live = await browser.get("/desk/live/queue", **{"HX-Request": "true"})
    assert (live.status_code, live.headers["hx-redirect"]) == (204, PATH)
    page = await browser.get(PATH)
    assert "Choose your own password" in page.text
    decided = await browser.submit(f"/desk/requests/{task_id}/decision", seen=page, decision="approve", version="1")
    assert (decided.status_code, decided.headers["location"]) == (303, PATH)
    assert await replaced(browser, f"{PATH}?next=/desk/requests/{task_id}") == f"/desk/requests/{task_id}"
    shown = await browser.get(f"/desk/requests/{task_id}")
    assert (shown.status_code, "Your decision</h2>" in shown.text) == (200, True)
    account = context.database.read_now(lambda session: account_by_login(session, "grace"))
    assert account is not None
    assert account.first_until is None


async def test_whoever_was_on_the_way_to_a_page_arrives_there_in_the_end(browser: Browser, until: datetime) -> None:
    await browser.log_in("grace", password=FIRST)
    sent = await browser.client.get("/desk", params={"show": "all"})
    assert await replaced(browser, sent.headers["location"]) == "/desk?show=all"


async def test_ones_own_password_does_not_run_out(
    browser: Browser, app: FastAPI, clock: FakeClock, until: datetime
) -> None:
    await browser.log_in("grace", password=FIRST)
    assert await replaced(browser) == "/desk/account?changed"
    clock.advance(365 * 86_400)
    fresh = Browser(app)
    assert (await fresh.log_in("grace", password=OWN)).headers["location"] == "/desk"
    assert (await fresh.get("/desk")).status_code == 200
    await fresh.client.aclose()


async def test_a_first_password_runs_out_and_says_so_to_nobody_but_who_knows_it(
    browser: Browser, context: Context, clock: FakeClock, until: datetime
) -> None:
    clock.advance((until - clock()).total_seconds())
    wrong = await browser.log_in("grace", password="not the password")
    assert (wrong.status_code, WRONG in wrong.text, RAN_OUT in wrong.text) == (403, True, False)
    late = await browser.log_in("grace", password=FIRST)
    assert (late.status_code, RAN_OUT in late.text) == (403, True)
    assert context.database.read_now(lambda session: web_sessions_of(session, "grace")) == []
    entries = context.database.read_now(lambda session: entries_of(session, LOGIN_CHAIN))
    assert [entry.detail for entry in entries] == ["{}", '{"why":"first_password_ran_out"}']


async def test_a_first_password_that_has_run_out_meanwhile_is_not_replaced(
    browser: Browser, clock: FakeClock, until: datetime
) -> None:
    clock.advance((until - clock()).total_seconds() - 1)
    await browser.log_in("grace", password=FIRST)
    clock.advance(1)
    assert RAN_OUT in await replaced(browser)


async def test_one_can_leave_without_replacing_it(browser: Browser, until: datetime) -> None:
    await browser.log_in("grace", password=FIRST)
    page = await browser.get(PATH)
    assert (await browser.post("/logout", {"form_token": form_token(page)})).headers["location"] == "/login"
