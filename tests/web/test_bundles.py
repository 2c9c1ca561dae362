"""A request for several things at the desk: every item has a form of its own that works without scripts; ARS-H.

Requests come in over HTTP from an enforcement point, decisions through forms.
"""

import re
from html.parser import HTMLParser
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI

from arap_service.context import Context
from arap_service.store import items
from tests.service import bearer, http
from tests.web.desk import Browser, commit_request, form_token

pytestmark = pytest.mark.anyio
NAMES = ("git_commit", "wire_transfer", "send_mail")


class Ids(HTMLParser):
    """Ids of a page, and what labels and descriptions point at."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.pointed_at: set[str] = set()
        self.headings: list[int] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if given.get("id"):
            self.ids.append(str(given["id"]))
        for name in ("for", "aria-labelledby", "aria-describedby"):
            if given.get(name):
                self.pointed_at.add(str(given[name]))
        if (given.get("href") or "").startswith("#"):
            self.pointed_at.add(str(given["href"])[1:])
        if tag in {"h1", "h2", "h3"}:
            self.headings.append(int(tag[1]))


async def bundle(app: FastAPI, context: Context, *names: str, subject: str = "ada", **shared: Any) -> str:
    """The id of a request for these things."""
    about = {"subject": {"type": "user", "id": subject}, "action": {"name": "open"}}
    listed: list[dict[str, Any]] = []
    async with http(app, headers=bearer(context, "gate")) as gate:
        for name in names or NAMES:
            question = {**about, "resource": {"type": "account", "id": name}, "context": shared}
            told = (await gate.post("/access/v1/evaluation", json=question)).json()["context"]
            offer = told["access_request"]
            denial = {"binding_token": offer["binding_token"], "expires_at": offer["expires_at"]}
            listed.append({"resource": question["resource"], "action": question["action"], "denial": denial})
        body = {"subject": about["subject"], "context": shared, "items": listed}
        answer = await gate.post("/access/v1/request", json=body)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["task"]["id"])


def statuses(context: Context, task_id: str) -> list[str]:
    return context.database.read_now(lambda session: [row.status for row in items.items_of(session, [task_id])])


def form(page: httpx2.Response, item: int) -> dict[str, str]:
    """The hidden fields of the decision form of one item, as a browser would send them."""
    section = page.text.split(f'id="item-{item}"')[1].split("</section>")[0]
    fields = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', section.split("</form>")[0])
    return dict(fields)


async def decide(browser: Browser, task_id: str, item: int, decision: str, **fields: str) -> httpx2.Response:
    """Open the request and send the form of one item, just as it stands on the page."""
    seen = await browser.get(f"/desk/requests/{task_id}")
    sent = {**form(seen, item), "decision": decision, **fields}
    return await browser.post(f"/desk/requests/{task_id}/decision", sent)


async def test_every_item_is_shown_with_its_facts_and_a_form_of_its_own(
    grace: Browser, app: FastAPI, context: Context
) -> None:
    task_id = await bundle(app, context, reference="case-17")
    page = await grace.get(f"/desk/requests/{task_id}")
    for text in (
        "gate asks for 3 things together for ada.", "1 of 3: gate may do open on account git_commit for ada.",
        "It commits what is staged at the moment it runs.", "3 things asked for together", "case-17",
        "Money leaves the account and cannot be called back.", "0 of 2 approvals", "High risk", "Medium risk",
    ):  # fmt: skip
        assert text in page.text, text
    assert [form(page, item)["item"] for item in (1, 2, 3)] == ["1", "2", "3"]
    found = Ids()
    found.feed(page.text)
    assert len(found.ids) == len(set(found.ids))
    assert set() < found.pointed_at <= set(found.ids)
    assert len(found.headings) > 3
    assert all(later - earlier <= 1 for earlier, later in zip(found.headings, found.headings[1:], strict=False))
    assert re.search(r"<script(?![^>]* src=)", page.text) is None


async def test_items_are_decided_one_by_one_through_their_forms(
    grace: Browser, linus: Browser, app: FastAPI, context: Context
) -> None:
    task_id = await bundle(app, context)
    answer = await decide(grace, task_id, 1, "approve", lifetime="60", reason="Fine.")
    assert (answer.status_code, answer.headers["location"]) == (303, f"/desk/requests/{task_id}#item-1")
    assert statuses(context, task_id) == ["approved", "pending", "pending"]
    await decide(grace, task_id, 2, "approve")
    seen = await grace.get(f"/desk/requests/{task_id}")
    assert "1 of 2 approvals" in seen.text
    assert "Your decision is recorded below" in seen.text
    assert (await decide(linus, task_id, 2, "approve")).status_code == 303
    assert (await decide(linus, task_id, 3, "deny", reason="Not now.")).status_code == 303
    assert statuses(context, task_id) == ["approved", "approved", "denied"]
    page = (await grace.get(f"/desk/requests/{task_id}")).text
    for text in (
        "Partly approved",
        "Item 3: denied",
        "Not now.",
        "Fine.",
        "Everything is settled, not everything alike",
    ):
        assert text in page, text


async def test_a_mistake_is_shown_at_the_item_and_nothing_is_recorded(
    grace: Browser, app: FastAPI, context: Context
) -> None:
    task_id = await bundle(app, context)
    missing = await decide(grace, task_id, 3, "deny", lifetime="60")
    assert missing.status_code == 422
    assert 'id="reason-3-error"' in missing.text
    assert 'id="reason-1-error"' not in missing.text
    assert missing.text.count('value="60" selected') == 1
    assert statuses(context, task_id) == ["pending"] * 3


async def test_a_decision_on_what_has_changed_is_refused_and_what_was_typed_stays(
    grace: Browser, linus: Browser, app: FastAPI, context: Context
) -> None:
    task_id = await bundle(app, context)
    seen = await grace.get(f"/desk/requests/{task_id}")
    await decide(linus, task_id, 1, "approve")
    sent = {**form(seen, 1), "decision": "deny", "reason": "My own words"}
    late = await grace.post(f"/desk/requests/{task_id}/decision", sent)
    assert late.status_code == 409
    assert "Somebody else was faster" in late.text
    # The other items are still what she has read.
    second = {**form(seen, 3), "decision": "approve"}
    assert (await grace.post(f"/desk/requests/{task_id}/decision", second)).status_code == 303


@pytest.mark.parametrize("item", ["", "0", "4", "x", None])
async def test_a_form_that_names_no_item_is_refused(
    grace: Browser, app: FastAPI, context: Context, item: str | None
) -> None:
    task_id = await bundle(app, context)
    seen = await grace.get(f"/desk/requests/{task_id}")
    sent = {**form(seen, 1), "decision": "approve", **({} if item is None else {"item": item})}
    if item is None:
        del sent["item"]
    refused = await grace.post(f"/desk/requests/{task_id}/decision", sent)
    assert refused.status_code in {400, 404}
    assert statuses(context, task_id) == ["pending"] * 3


async def test_one_approval_is_taken_back_and_the_others_stay(grace: Browser, app: FastAPI, context: Context) -> None:
    task_id = await bundle(app, context, "git_commit", "send_mail")
    for item in (1, 2):
        await decide(grace, task_id, item, "approve")
    seen = await grace.get(f"/desk/requests/{task_id}")
    path = re.findall(r'action="(/desk/approvals/[^"]+/revocation)"', seen.text)[1]
    missing = await grace.submit(path, seen=seen, request=task_id, reason="")
    assert missing.status_code == 422
    assert 'id="revoke-reason-2-error"' in missing.text
    taken = await grace.submit(path, seen=seen, request=task_id, reason="Too early.")
    assert (taken.status_code, taken.headers["location"]) == (303, f"/desk/requests/{task_id}#item-2")
    page = (await grace.get(f"/desk/requests/{task_id}")).text
    assert len(re.findall(r'action="/desk/approvals/[^"]+/revocation"', page)) == 1
    assert "Item 2: took the approval back" in page
    other = await bundle(app, context, "git_commit")
    assert (await grace.submit(path, seen=seen, request=other, reason="x")).status_code == 404


async def test_the_queue_says_that_several_things_are_asked_for(grace: Browser, app: FastAPI, context: Context) -> None:
    await bundle(app, context)
    page = (await grace.get("/desk")).text
    assert "gate asks for 3 things together for ada." in page
    assert "3 things, decided one by one" in page


async def test_the_requester_cannot_decide_any_item(app: FastAPI, context: Context) -> None:
    """ARS-116: the subject of the request is nobody who decides it, whatever the item."""
    task_id = await bundle(app, context)
    ada = Browser(app)
    await ada.log_in("ada")
    page = await ada.get(f"/desk/requests/{task_id}")
    assert page.text.count("The request is made in your name") == 3
    assert "/decision" not in page.text
    seen = await ada.get("/desk")
    sent = {"form_token": form_token(seen), "item": "1", "version": "1", "decision": "approve"}
    assert (await ada.post(f"/desk/requests/{task_id}/decision", sent)).status_code == 403
    assert statuses(context, task_id) == ["pending"] * 3
    await ada.client.aclose()


async def test_who_comments_on_one_of_several_things_is_told_who_reads_it(
    app: FastAPI, context: Context, grace: Browser
) -> None:
    """A comment belongs to the whole request: those who decide another part of it read it as well."""
    page = await grace.get(f"/desk/requests/{await bundle(app, context)}")
    told = re.search(r'<textarea id="comment"[^>]* aria-describedby="comment-hint"', page.text)
    assert told is not None
    assert "decides any part of this request reads it" in page.text
    single = await grace.get(f"/desk/requests/{await commit_request(app, context)}")
    assert 'id="comment"' in single.text
    assert "comment-hint" not in single.text
