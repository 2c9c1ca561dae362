"""The pages of somebody who asks: his own requests and nothing of what reviewers say; design.md section 7, ARS-63."""

import re
from collections.abc import AsyncIterator

import pytest
from fastapi import FastAPI

from arap_service import requests
from arap_service.context import Context
from arap_service.domain.callers import Caller
from arap_service.web import own_pages
from arap_service.web.rights import DECIDING
from tests.clock import FakeClock
from tests.service import bearer, http
from tests.web.desk import Browser, add_person, ask, commit_request, decide, report, transfer_request

pytestmark = pytest.mark.anyio
LISTED = re.compile(r'<h2><a href="/desk/my/(\w[\w-]*)"')


@pytest.fixture
async def ada(app: FastAPI) -> AsyncIterator[Browser]:
    """The browser of the person in whose name the gate asks."""
    hers = Browser(app)
    assert (await hers.log_in("ada")).status_code == 303
    yield hers
    await hers.client.aclose()


async def asked(browser: Browser, task_id: str, question: str = "Which branch?") -> None:
    """A reviewer's question."""
    seen = await browser.get(f"/desk/requests/{task_id}")
    assert (await browser.submit(f"/desk/requests/{task_id}/question", seen=seen, text=question)).status_code == 303


async def test_the_requester_sees_how_a_request_stands_and_what_happens_next(
    ada: Browser, app: FastAPI, context: Context
) -> None:
    task_id = await commit_request(app, context)
    page = (await ada.get(f"/desk/my/{task_id}")).text
    for text in (
        "Waiting for a decision",
        "You need not do anything.",
        "Commit &#34;Fix rounding&#34;",
        "UTC",
        task_id,
    ):
        assert text in page, text


@pytest.mark.requirement("ARS-63")
async def test_a_request_of_somebody_else_looks_like_one_that_does_not_exist(
    grace: Browser, app: FastAPI, context: Context
) -> None:
    foreign, unknown = await commit_request(app, context), "task_" + "0" * 22
    for path in ("/desk/my/{}", "/desk/my/{}/withdrawal", "/desk/my/{}/answer"):
        answers = []
        for task_id in (foreign, unknown):
            if path == "/desk/my/{}":
                answer = await grace.get(path.format(task_id))
            else:
                seen = await grace.get("/desk")
                answer = await grace.submit(path.format(task_id), seen=seen, question="1", f0="x")
            answers.append((answer.status_code, answer.text.replace(task_id, "")))
        assert answers[0] == answers[1]
        assert answers[0][0] == 404
    assert LISTED.findall((await grace.get("/desk/my")).text) == []


async def test_nothing_that_reviewers_say_to_each_other_reaches_the_requester(
    ada: Browser, grace: Browser, linus: Browser, app: FastAPI, context: Context
) -> None:
    task_id = await transfer_request(app, context)
    seen = await grace.get(f"/desk/requests/{task_id}")
    await grace.submit(f"/desk/requests/{task_id}/comment", seen=seen, text="I do not trust this one.")
    await grace.submit(f"/desk/requests/{task_id}/claim", seen=seen)
    assert (await decide(grace, task_id, "approve", reason="Looked at the invoice.")).status_code == 303
    waiting = (await ada.get(f"/desk/my/{task_id}")).text
    assert (await decide(linus, task_id, "deny", reason="Wrong account.", version="2")).status_code == 303
    denied = (await ada.get(f"/desk/my/{task_id}")).text
    assert "It will not be done." in denied
    assert "Wrong account." in denied, "the template lets a denier speak to who asked"
    for page in (waiting, denied, (await ada.get("/desk/my")).text):
        for text in ("Grace", "Linus", "trust", "invoice", "Treasurers", "of 2", "hunter2"):
            assert text not in page, text


async def test_a_question_is_answered_on_the_page_and_the_reviewer_reads_it(
    ada: Browser, grace: Browser, app: FastAPI, context: Context
) -> None:
    task_id = await commit_request(app, context)
    await asked(grace, task_id)
    assert "A question for you" in (await ada.get("/desk/my")).text
    page = await ada.get(f"/desk/my/{task_id}")
    assert "Which branch?" in page.text
    assert "Grace" not in page.text
    empty = await ada.submit(f"/desk/my/{task_id}/answer", seen=page, question="1", f0="  ")
    assert empty.status_code == 422
    assert "Please fill this in." in empty.text
    done = await ada.submit(f"/desk/my/{task_id}/answer", seen=page, question="1", f0="The release branch.")
    assert (done.status_code, done.headers["location"]) == (303, f"/desk/my/{task_id}")
    assert "A question for you" not in (await ada.get(f"/desk/my/{task_id}")).text
    assert "The release branch." in (await grace.get(f"/desk/requests/{task_id}")).text
    again = await ada.submit(f"/desk/my/{task_id}/answer", seen=page, question="1", f0="Another one.")
    assert again.status_code == 409
    assert "Another one." not in (await grace.get(f"/desk/requests/{task_id}")).text


async def test_a_question_with_a_schema_of_its_own_has_its_fields_and_what_it_refuses_stands_beside_them(
    ada: Browser, grace: Browser, app: FastAPI, context: Context
) -> None:
    task_id = await commit_request(app, context)
    add_person(context, "rita", name="Rita", groups=("maintainers",))
    schema: dict[str, object] = {
        "type": "object",
        "required": ["branch"],
        "properties": {"branch": {"type": "string", "title": "Branch", "pattern": "^release/"}},
    }
    await _asked_with(context, task_id, schema)
    page = await ada.get(f"/desk/my/{task_id}")
    assert '<label for="f0">Branch</label>' in page.text
    wrong = await ada.submit(f"/desk/my/{task_id}/answer", seen=page, question="1", f0="main")
    assert wrong.status_code == 422
    assert "This is not accepted as it stands." in wrong.text
    assert ">\nmain</textarea>" in wrong.text, "nothing that was typed is lost"
    done = await ada.submit(f"/desk/my/{task_id}/answer", seen=page, question="1", f0="release/2.1")
    assert done.status_code == 303
    assert "release/2.1" in (await grace.get(f"/desk/requests/{task_id}")).text


async def _asked_with(context: Context, task_id: str, schema: dict[str, object]) -> None:

    reviewer = Caller(
        iss=context.settings.identifier, sub="rita", client_id="desk", scopes=DECIDING, channel="desk", person_id="rita"
    )
    await requests.ask(context, reviewer, task_id, message="Which branch?", schema=schema)


async def test_what_no_form_can_ask_for_is_left_to_the_agent(ada: Browser, app: FastAPI, context: Context) -> None:
    task_id = await commit_request(app, context)
    add_person(context, "rita", name="Rita", groups=("maintainers",))
    inner = {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}}
    await _asked_with(context, task_id, {"type": "object", "required": ["rows"], "properties": {"rows": inner}})
    page = (await ada.get(f"/desk/my/{task_id}")).text
    assert "It has to be answered where the request came from" in page
    assert "/answer" not in page


async def test_the_requester_withdraws_and_a_second_time_is_too_late(
    ada: Browser, grace: Browser, app: FastAPI, context: Context
) -> None:
    task_id = await commit_request(app, context)
    page = await ada.get(f"/desk/my/{task_id}")
    done = await ada.submit(f"/desk/my/{task_id}/withdrawal", seen=page)
    assert (done.status_code, done.headers["location"]) == (303, f"/desk/my/{task_id}")
    ended = (await ada.get(f"/desk/my/{task_id}")).text
    assert "It was withdrawn, so nothing will be done." in ended
    assert "/withdrawal" not in ended
    assert (await ada.submit(f"/desk/my/{task_id}/withdrawal", seen=page)).status_code == 409
    assert (await decide(grace, task_id, "approve", version="2")).status_code == 409
    at_the_desk = (await grace.get(f"/desk/requests/{task_id}")).text
    assert "Nobody decided." in at_the_desk
    assert "Nobody has decided yet." not in at_the_desk


async def test_each_end_of_a_request_is_told_in_its_own_words(
    ada: Browser, grace: Browser, app: FastAPI, context: Context, clock: FakeClock
) -> None:
    async def approved() -> str:
        task_id = await commit_request(app, context)
        assert (await decide(grace, task_id, "approve", lifetime="300")).status_code == 303
        return task_id

    async def told(task_id: str) -> str:
        return (await ada.get(f"/desk/my/{task_id}")).text

    usable, used, taken, unused = [await approved() for _ in range(4)]
    await report(app, context, used)
    seen = await grace.get(f"/desk/requests/{taken}")
    action = seen.text.split('action="/desk/approvals/')[1].split('"')[0]
    await grace.submit(f"/desk/approvals/{action}", seen=seen, request=taken, reason="Wrong one.")
    late = await commit_request(app, context)
    assert "It can be done now" in await told(usable)
    assert "It has been done." in await told(used)
    assert "The approval was taken back" in await told(taken)
    assert "Wrong one." not in await told(taken)
    clock.advance(301)
    assert "The approval ran out before it was used." in await told(unused)
    clock.advance(86_400)
    assert (await ada.log_in("ada")).status_code == 303  # the session has ended as well
    assert "Nobody decided in time" in await told(late)


async def test_the_list_holds_only_requests_of_the_reader_newest_first_and_page_by_page(
    ada: Browser, app: FastAPI, context: Context, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "You have asked for nothing" in (await ada.get("/desk/my")).text
    monkeypatch.setattr(own_pages, "PAGE_SIZE", 2)
    mine = []
    for n in range(3):
        mine.append(await commit_request(app, context, f"Number {n}"))
        clock.advance(1)
    async with http(app, headers=bearer(context, "gate")) as gate:
        other = await ask(gate, "git_commit", {"repo_path": "/srv", "message": "x"}, subject="somebody")
    first = (await ada.get("/desk/my")).text
    more = first.split('<p class="more"><a href="')[1].split('"')[0]
    second = (await ada.get(more)).text
    assert LISTED.findall(first) + LISTED.findall(second) == mine[::-1]
    assert other not in first + second
    assert (await ada.get("/desk/my?cursor=nonsense")).status_code == 400


async def test_a_name_that_may_mean_two_people_makes_neither_the_requester(
    ada: Browser, app: FastAPI, context: Context
) -> None:
    task_id = await commit_request(app, context)
    assert (await ada.get(f"/desk/my/{task_id}")).status_code == 200
    add_person(context, "ada-two", name="Another Ada", identities=("https://other.example|ada",))
    assert (await ada.get(f"/desk/my/{task_id}")).status_code == 404
