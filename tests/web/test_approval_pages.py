"""The approvals in force at the desk, on a real service and both engines; design.md section 7, "Elsewhere"."""

import re
from dataclasses import replace

import pytest
from fastapi import FastAPI

from arap_service.context import Context
from arap_service.settings_parts import DeskSettings
from arap_service.web import approval_pages
from tests.clock import FakeClock
from tests.service import app_for
from tests.web.desk import Browser, commit_request, decide, report, transfer_request

pytestmark = pytest.mark.anyio
LISTED = re.compile(r'<h2><a href="/desk/requests/(\w[\w-]*)"')


async def approved(browser: Browser, app: FastAPI, context: Context, message: str, lifetime: str = "") -> str:
    task_id = await commit_request(app, context, message)
    assert (await decide(browser, task_id, "approve", lifetime=lifetime)).status_code == 303
    return task_id


async def test_what_may_run_is_listed_with_who_until_when_and_how_far(
    grace: Browser, app: FastAPI, context: Context
) -> None:
    task_id = await approved(grace, app, context, "First", "300")
    page = (await grace.get("/desk/approvals")).text
    assert LISTED.findall(page) == [task_id]
    for text in (
        "Commit &#34;First&#34; in /srv", "<b>ada</b>", "Exactly this, with exactly these values", "Not used yet",
        "Ends <span", "in 5 minutes", "30 Apr 2026, 20:05 UTC",
    ):  # fmt: skip
        assert text in page, text


async def test_the_one_that_runs_out_next_comes_first_and_what_has_run_out_is_gone(
    grace: Browser, app: FastAPI, context: Context, clock: FakeClock
) -> None:
    long, short = (
        await approved(grace, app, context, "Long"),
        await approved(grace, app, context, "Short", "60"),
    )
    assert LISTED.findall((await grace.get("/desk/approvals")).text) == [short, long]
    clock.advance(60)
    assert LISTED.findall((await grace.get("/desk/approvals")).text) == [long]


async def test_nothing_but_approvals_is_listed(grace: Browser, app: FastAPI, context: Context) -> None:
    await commit_request(app, context)
    denied = await commit_request(app, context)
    await decide(grace, denied, "deny", reason="No.")
    page = (await grace.get("/desk/approvals")).text
    assert LISTED.findall(page) == []
    assert "Nothing may run now" in page


async def test_used_and_unused_ones_are_told_apart(grace: Browser, app: FastAPI, context: Context) -> None:
    unused = await approved(grace, app, context, "Unused")
    used = await approved(grace, app, context, "Used")
    await report(app, context, used)
    listed = {
        show: LISTED.findall((await grace.get(f"/desk/approvals?show={show}")).text)
        for show in ("all", "unused", "used", "nonsense")
    }
    both = sorted([unused, used])
    listed = {show: sorted(tasks) for show, tasks in listed.items()}
    assert listed == {"all": both, "unused": [unused], "used": [used], "nonsense": both}
    page = (await grace.get("/desk/approvals?show=used")).text
    assert "It ran once, with the values shown here." in page
    assert "/revocation" not in page, "what has run cannot be taken back"


async def test_names_are_searched(grace: Browser, app: FastAPI, context: Context) -> None:
    commit = await approved(grace, app, context, "First")
    assert LISTED.findall((await grace.get("/desk/approvals?q=git_commit")).text) == [commit]
    nothing = (await grace.client.get("/desk/approvals", params={"q": "\x00%_'\"<nobody"})).text
    assert "No approval in force matches" in nothing
    assert "Nothing has been used" in (await grace.get("/desk/approvals?show=used")).text


@pytest.mark.parametrize("query", ["cursor=%00", "cursor=nonsense", "cursor=WyJhbGwiLDFd", "q=" + "a" * 201])
async def test_a_query_that_no_page_links_to_is_refused(grace: Browser, query: str) -> None:
    assert (await grace.get(f"/desk/approvals?{query}")).status_code == 400


async def test_an_approval_is_taken_back_from_the_list_with_a_reason(
    grace: Browser, app: FastAPI, context: Context
) -> None:
    task_id = await approved(grace, app, context, "First")
    page = await grace.get("/desk/approvals")
    action = page.text.split('<form method="post" action="/desk/approvals/')[1].split('"')[0]
    without = await grace.submit(f"/desk/approvals/{action}", seen=page, request=task_id, reason=" ")
    assert without.status_code == 422
    assert LISTED.findall((await grace.get("/desk/approvals")).text) == [task_id], "nothing happens without a reason"
    done = await grace.submit(f"/desk/approvals/{action}", seen=page, request=task_id, reason="Wrong repository.")
    assert (done.status_code, done.headers["location"]) == (303, f"/desk/requests/{task_id}")
    assert LISTED.findall((await grace.get("/desk/approvals")).text) == []


async def test_a_long_list_comes_in_pages(
    grace: Browser, app: FastAPI, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(approval_pages, "PAGE_SIZE", 2)
    tasks = [await approved(grace, app, context, f"Number {n}", "300") for n in range(3)]
    first = (await grace.get("/desk/approvals")).text
    more = first.split('<p class="more"><a href="')[1].split('"')[0].replace("&amp;", "&")
    second = (await grace.get(more)).text
    assert sorted(LISTED.findall(first) + LISTED.findall(second)) == sorted(tasks)
    assert 'class="more"' not in second


async def test_who_may_not_see_a_request_sees_no_approval_of_it(grace: Browser, app: FastAPI, context: Context) -> None:
    commit, transfer = await approved(grace, app, context, "First"), await transfer_request(app, context)
    desk = DeskSettings(readers=frozenset({"staff"}))
    closed = app_for(replace(context, settings=context.settings.model_copy(update={"desk": desk})))
    olga, linus = Browser(closed), Browser(closed)
    await olga.log_in("olga")
    await linus.log_in("linus")
    assert LISTED.findall((await olga.get("/desk/approvals")).text) == []
    assert LISTED.findall((await linus.get("/desk/approvals")).text) == [commit], "a step names him"
    assert transfer not in (await linus.get("/desk/approvals")).text
    await olga.client.aclose()
    await linus.client.aclose()
