"""The queue of the desk on a real service: what is listed, for whom and in which order; design.md section 7."""

import re

import pytest
from fastapi import FastAPI

from arap_service.context import Context
from arap_service.web import pages
from tests.clock import FakeClock
from tests.web.desk import Browser, commit_request, decide, transfer_request

pytestmark = pytest.mark.anyio


async def test_nobody_sees_the_desk_without_logging_in(browser: Browser, app: FastAPI, context: Context) -> None:
    task_id = await commit_request(app, context)
    for path in ("/desk", "/desk?show=all", f"/desk/requests/{task_id}"):
        answer = await browser.get(path)
        assert answer.status_code == 303
        assert answer.headers["location"].startswith("/login?next=%2Fdesk")


async def test_a_list_that_refreshes_itself_sends_the_browser_to_the_log_in_page(browser: Browser) -> None:
    answer = await browser.get("/desk/live/queue", **{"HX-Request": "true"})
    assert (answer.status_code, answer.headers["hx-redirect"]) == (204, "/login")


async def test_the_bare_address_leads_to_the_desk(browser: Browser) -> None:
    answer = await browser.get("/")
    assert (answer.status_code, answer.headers["location"]) == (303, "/desk")


async def test_an_empty_queue_teaches(grace: Browser) -> None:
    assert "it appears here by itself" in (await grace.get("/desk")).text


async def test_mine_to_decide_come_first_and_the_oldest_deadline_before_the_newer(
    grace: Browser, app: FastAPI, context: Context, clock: FakeClock
) -> None:
    first = await commit_request(app, context, "First")
    clock.advance(60)
    second = await commit_request(app, context, "Second")
    page = (await grace.get("/desk")).text
    assert page.index(first) < page.index(second)
    assert "For you to decide" in page
    assert "Commit &#34;First&#34; in /srv/ledger" in page


async def test_what_others_decide_is_listed_apart(app: FastAPI, context: Context) -> None:
    task_id = await commit_request(app, context)
    olga = Browser(app)
    await olga.log_in("olga")
    mine = (await olga.get("/desk")).text
    assert "Nothing waits for you" in mine
    assert mine.index("Nothing waits for you") < mine.index("Waiting for others") < mine.index(task_id)
    page = (await olga.get(f"/desk/requests/{task_id}")).text
    assert "You are not among the people who decide requests of this kind." in page
    assert "/decision" not in page
    await olga.client.aclose()


async def test_the_queue_can_be_filtered_and_searched(grace: Browser, app: FastAPI, context: Context) -> None:
    commit, transfer = await commit_request(app, context), await transfer_request(app, context)
    assert (await decide(grace, commit, "deny", reason="No.")).status_code == 303
    shown = {
        show: [
            task_id in (await grace.client.get("/desk", params={"show": show})).text for task_id in (commit, transfer)
        ]
        for show in ("mine", "waiting", "approved", "denied", "all", "nonsense")
    }
    assert shown == {
        "mine": [False, True],
        "waiting": [False, True],
        "approved": [False, False],
        "denied": [True, False],
        "all": [True, True],
        "nonsense": [False, True],
    }
    found = (await grace.client.get("/desk", params={"show": "all", "q": "git_commit"})).text
    assert [commit in found, transfer in found] == [True, False]
    assert "Nothing found" in (await grace.client.get("/desk", params={"show": "all", "q": "\x00%_'\"<"})).text


@pytest.mark.parametrize("query", ["cursor=%00", "cursor=nonsense", "q=" + "a" * 201])
async def test_a_query_that_no_page_links_to_is_refused(grace: Browser, query: str) -> None:
    answer = await grace.get(f"/desk?show=all&{query}")
    assert answer.status_code == 400
    assert "could not be read" in answer.text


async def test_a_long_queue_comes_in_pages(
    grace: Browser, app: FastAPI, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "PAGE_SIZE", 2)
    tasks = [await commit_request(app, context, f"Number {n}") for n in range(3)]
    for show in ("mine", "all"):
        first = (await grace.client.get("/desk", params={"show": show})).text
        more = first.split('<p class="more"><a href="')[1].split('"')[0].replace("&amp;", "&")
        second = (await grace.get(more)).text
        assert sorted((task_id in first) + (task_id in second) for task_id in tasks) == [1, 1, 1]
        assert 'class="more"' not in second
        assert "hx-get" not in second, "a further page stays as it is"


async def test_what_waits_for_others_links_to_all_of_it_when_it_is_long(
    app: FastAPI, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "PAGE_SIZE", 1)
    for n in range(2):
        await commit_request(app, context, f"Number {n}")
    olga = Browser(app)
    await olga.log_in("olga")
    assert '<p class="more"><a href="/desk?show=waiting"' in (await olga.get("/desk")).text
    await olga.client.aclose()


async def test_the_lists_refresh_only_when_something_changed(grace: Browser, app: FastAPI, context: Context) -> None:
    first = await grace.get("/desk")
    live = first.text.split('hx-get="')[1].split('"')[0].replace("&amp;", "&")
    assert (await grace.get(live)).status_code == 204
    task_id = await commit_request(app, context)
    changed = await grace.get(live)
    assert (changed.status_code, task_id in changed.text, "<html" in changed.text) == (200, True, False)


async def test_the_list_of_everything_says_what_state_each_request_is_in(
    grace: Browser, app: FastAPI, context: Context
) -> None:
    settled, _ = await commit_request(app, context), await transfer_request(app, context)
    await decide(grace, settled, "deny", reason="No.")
    everything = (await grace.get("/desk?show=all")).text
    assert sorted(re.findall(r'class="chip status-(\w+)"', everything)) == ["denied", "pending"]
    assert "status-pending" not in (await grace.get("/desk?show=waiting")).text
