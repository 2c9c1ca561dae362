"""One request at the desk on a real service: its page, decisions and what follows; design.md section 7.

Every request comes in over HTTP from an enforcement point, every decision through a form.
"""

import re

import anyio
import pytest
from fastapi import FastAPI
from sqlmodel import select

from arap_service import requests
from arap_service.audit import entries_of
from arap_service.context import Context
from arap_service.domain.callers import Caller, Scope
from arap_service.domain.errors import Forbidden
from arap_service.store.database import ReadSession
from arap_service.store.tables import Approval, Task, Vote
from tests.clock import FakeClock
from tests.web.desk import Browser, commit_request, decide, form_token, report, transfer_request

pytestmark = pytest.mark.anyio


def task(context: Context, task_id: str) -> Task:
    return context.database.read_now(lambda session: session.get_one(Task, task_id))


def votes(context: Context, task_id: str) -> list[tuple[str, str]]:
    def work(session: ReadSession) -> list[tuple[str, str]]:
        found = session.exec(select(Vote).where(Vote.task_id == task_id)).all()
        return sorted((vote.voter, vote.decision) for vote in found)

    return context.database.read_now(work)


def approvals(context: Context, task_id: str) -> list[Approval]:
    return context.database.read_now(
        lambda session: list(session.exec(select(Approval).where(Approval.task_id == task_id)).all())
    )


async def test_the_request_page_shows_all_that_a_decision_needs(grace: Browser, app: FastAPI, context: Context) -> None:
    page = (await grace.get(f"/desk/requests/{await commit_request(app, context)}")).text
    for text in (
        "Commit &#34;Fix rounding&#34; in /srv/ledger", "It commits what is staged at the moment it runs.",
        "git_commit", "repo_path", "/srv/ledger", "message", "Fix rounding", "ada", "gate",
        "Commit needs review", "commit-needs-review", "For 15 minutes at most", "1 May 2026, 20:00 UTC",
    ):  # fmt: skip
        assert text in page, text


async def test_an_approval_is_recorded_and_shown(grace: Browser, app: FastAPI, context: Context) -> None:
    task_id = await commit_request(app, context)
    answer = await decide(grace, task_id, "approve", reason="Looks right.")
    assert (answer.status_code, answer.headers["location"]) == (303, f"/desk/requests/{task_id}")
    assert task(context, task_id).status == "approved"
    assert votes(context, task_id) == [("grace", "approve")]
    page = (await grace.get(f"/desk/requests/{task_id}")).text
    for text in (
        "The approval is in force", "Grace Hopper", "Looks right.", "30 Apr 2026, 20:15 UTC", "Take it back",
        "For 15 minutes</strong> after the decision", "Waiting for gate to report what becomes of it.",
    ):  # fmt: skip
        assert text in page, text
    assert "0 seconds" not in page


async def test_an_approval_can_be_made_shorter_and_not_longer(grace: Browser, app: FastAPI, context: Context) -> None:
    shorter, longer = await commit_request(app, context), await commit_request(app, context)
    for task_id, asked, given in ((shorter, "60", 60), (longer, "86400", 900)):
        assert (await decide(grace, task_id, "approve", lifetime=asked)).status_code == 303
        lasting = [(row.approved_until - row.approved_at).total_seconds() for row in approvals(context, task_id)]
        assert lasting == [given]


async def test_a_denial_needs_a_reason_and_shows_it(grace: Browser, app: FastAPI, context: Context) -> None:
    task_id = await commit_request(app, context)
    missing = await decide(grace, task_id, "deny")
    assert missing.status_code == 422
    assert "Please say why" in missing.text
    assert task(context, task_id).status == "pending"
    assert (await decide(grace, task_id, "deny", reason="Wrong branch.")).status_code == 303
    page = (await grace.get(f"/desk/requests/{task_id}")).text
    assert "It was refused. Nothing runs" in page
    assert "Wrong branch." in page
    assert "You can make it shorter" not in page


async def test_two_people_decide_where_the_rules_want_two(
    grace: Browser, linus: Browser, app: FastAPI, context: Context
) -> None:
    task_id = await transfer_request(app, context)
    assert (await decide(grace, task_id, "approve")).status_code == 303
    seen = await grace.get(f"/desk/requests/{task_id}")
    assert "1 of 2 approvals" in seen.text
    assert "Your decision is recorded below" in seen.text
    version = str(task(context, task_id).version)
    assert (await decide(linus, task_id, "approve", version=version)).status_code == 303
    assert task(context, task_id).status == "approved"
    assert votes(context, task_id) == [("grace", "approve"), ("linus", "approve")]


async def test_sending_a_form_twice_casts_one_vote_and_the_second_sees_what_happened(
    grace: Browser, app: FastAPI, context: Context
) -> None:
    task_id = await transfer_request(app, context)
    seen = await grace.get(f"/desk/requests/{task_id}")
    answers = {}

    async def send(name: str) -> None:
        answers[name] = await grace.submit(
            f"/desk/requests/{task_id}/decision", seen=seen, decision="approve", version="1"
        )

    with anyio.fail_after(55):
        async with anyio.create_task_group() as group:
            group.start_soon(send, "first")
            group.start_soon(send, "second")
    assert sorted(answer.status_code for answer in answers.values()) == [303, 409]
    [second] = [answer for answer in answers.values() if answer.status_code == 409]
    assert "Only your first decision counts" in second.text
    assert "1 of 2 approvals" in second.text
    assert votes(context, task_id) == [("grace", "approve")]


@pytest.mark.requirement("ARS-118")
async def test_a_decision_on_what_has_changed_since_is_not_counted(
    grace: Browser, linus: Browser, app: FastAPI, context: Context
) -> None:
    task_id = await transfer_request(app, context)
    seen = await linus.get(f"/desk/requests/{task_id}")
    await decide(grace, task_id, "approve")
    fields = {"decision": "approve", "version": "1", "reason": "Called them back.", "lifetime": "300"}
    late = await linus.submit(f"/desk/requests/{task_id}/decision", seen=seen, **fields)
    assert late.status_code == 409
    assert "It changed while you were reading it" in late.text
    assert "1 of 2 approvals" in late.text
    assert ">Called them back.</textarea>" in late.text, "nothing has to be typed again"
    assert '<option value="300" selected>' in late.text
    assert votes(context, task_id) == [("grace", "approve")]
    assert task(context, task_id).status == "pending"
    again = await linus.submit(f"/desk/requests/{task_id}/decision", seen=late, decision="approve", version="2")
    assert again.status_code == 303
    assert task(context, task_id).status == "approved"


async def test_who_is_overtaken_sees_the_first_decision_and_changes_nothing(
    grace: Browser, linus: Browser, app: FastAPI, context: Context
) -> None:
    task_id = await commit_request(app, context)
    seen = await linus.get(f"/desk/requests/{task_id}")
    await decide(grace, task_id, "deny", reason="Wrong branch.")
    late = await linus.submit(f"/desk/requests/{task_id}/decision", seen=seen, decision="approve", version="1")
    assert late.status_code == 409
    assert "Your decision was not recorded" in late.text
    assert "Wrong branch." in late.text
    assert task(context, task_id).status == "denied"
    assert votes(context, task_id) == [("grace", "deny")]


@pytest.mark.requirement("ARS-120")
async def test_a_page_from_before_the_deadline_decides_nothing_after_it(
    grace: Browser, app: FastAPI, context: Context, clock: FakeClock
) -> None:
    task_id = await commit_request(app, context)
    await grace.get(f"/desk/requests/{task_id}")
    clock.advance(86_400)
    await grace.log_in("grace")
    seen = await grace.get("/desk/none")
    late = await grace.post(
        f"/desk/requests/{task_id}/decision",
        {"form_token": form_token(seen), "decision": "approve", "version": "1"},
    )
    assert late.status_code == 409
    assert "The time to decide had run out" in late.text
    assert task(context, task_id).status == "expired"
    assert votes(context, task_id) == []


@pytest.mark.requirement("ARS-115", "GOV-12")
async def test_who_asked_cannot_decide_even_with_a_form_in_hand(grace: Browser, app: FastAPI, context: Context) -> None:
    task_id = await commit_request(app, context)
    ada = Browser(app)
    await ada.log_in("ada")
    page = await ada.get(f"/desk/requests/{task_id}")
    assert "The request is made in your name" in page.text
    forged = await ada.submit(f"/desk/requests/{task_id}/decision", seen=page, decision="approve", version="1")
    assert forged.status_code == 403
    assert "The request is made in your name" in forged.text
    assert task(context, task_id).status == "pending"
    assert votes(context, task_id) == []
    await ada.client.aclose()


@pytest.mark.requirement("GOV-09")
async def test_the_desk_decides_by_the_same_function_as_every_other_way(app: FastAPI, context: Context) -> None:
    """Without the right to decide, the function that the desk calls refuses whoever calls it."""
    task_id = await commit_request(app, context)
    reader = Caller(
        iss=context.settings.identifier, sub="grace", client_id="desk", channel="desk", person_id="grace",
        scopes=frozenset({Scope.APPROVAL_READ}),
    )  # fmt: skip
    with pytest.raises(Forbidden):
        await requests.decide(context, reader, task_id, decision="approve", version=1)
    assert task(context, task_id).status == "pending"


@pytest.mark.requirement("ARS-121")
async def test_an_approval_can_be_taken_back_and_then_nothing_can_start(
    grace: Browser, app: FastAPI, context: Context
) -> None:
    task_id = await commit_request(app, context)
    await decide(grace, task_id, "approve")
    [approval] = approvals(context, task_id)
    page = await grace.get(f"/desk/requests/{task_id}")
    path = f"/desk/approvals/{approval.id}/revocation"
    unexplained = await grace.submit(path, seen=page, request=task_id)
    assert unexplained.status_code == 422
    assert "Please say why" in unexplained.text
    done = await grace.submit(path, seen=page, request=task_id, reason="Wrong repository.")
    assert (done.status_code, done.headers["location"]) == (303, f"/desk/requests/{task_id}")
    after = await grace.get(f"/desk/requests/{task_id}")
    assert "The approval was taken back" in after.text
    assert "/revocation" not in after.text
    again = await grace.submit(path, seen=after, request=task_id, reason="Once more.")
    assert again.status_code == 409
    assert "Nothing was taken back" in again.text
    assert [row.status for row in approvals(context, task_id)] == ["revoked"]
    assert task(context, task_id).status == "approved"


async def test_an_approval_of_another_request_is_not_taken_back(grace: Browser, app: FastAPI, context: Context) -> None:
    first, second = await commit_request(app, context), await commit_request(app, context)
    await decide(grace, first, "approve")
    [approval] = approvals(context, first)
    page = await grace.get(f"/desk/requests/{second}")
    answer = await grace.submit(
        f"/desk/approvals/{approval.id}/revocation", seen=page, request=second, reason="Mixed up."
    )
    assert answer.status_code == 404
    assert [row.status for row in approvals(context, first)] == ["active"]


async def test_a_page_notices_that_its_request_has_changed(
    grace: Browser, linus: Browser, app: FastAPI, context: Context
) -> None:
    task_id = await commit_request(app, context)
    live = f"/desk/live/requests/{task_id}?version=1"
    assert (await grace.get(live)).status_code == 204
    await decide(linus, task_id, "deny", reason="No.")
    changed = await grace.get(live)
    assert changed.status_code == 200
    assert "This request has changed" in changed.text
    assert "Denied" in changed.text


@pytest.mark.parametrize("task_id", ["task_unknown", "%00", "a" * 101, "..%2f..", "💥"])
async def test_an_unknown_request_is_a_page_that_says_so(grace: Browser, task_id: str) -> None:
    answer = await grace.get(f"/desk/requests/{task_id}")
    assert answer.status_code == 404
    assert "There is nothing here" in answer.text


async def test_every_decision_is_in_the_audit_chain_of_its_request(
    grace: Browser, app: FastAPI, context: Context
) -> None:
    task_id = await commit_request(app, context)
    await decide(grace, task_id, "deny", reason="canary-reason")
    entries = context.database.read_now(lambda session: entries_of(session, task_id))
    assert any("grace" in entry.actor for entry in entries)
    assert all("canary-reason" not in entry.detail for entry in entries)


async def test_what_the_enforcement_point_reports_is_shown(grace: Browser, app: FastAPI, context: Context) -> None:
    task_id = await commit_request(app, context)
    await decide(grace, task_id, "approve")
    await report(app, context, task_id)
    page = (await grace.get(f"/desk/requests/{task_id}")).text
    assert "Used: it ran once; nothing more can run with it." in page
    assert "It ran once, with the values shown here." in page
    assert "/revocation" not in page


async def test_a_page_that_awaits_a_report_is_renewed_by_it_and_then_rests(
    grace: Browser, app: FastAPI, context: Context
) -> None:
    task_id = await commit_request(app, context)
    await decide(grace, task_id, "approve")
    page = (await grace.get(f"/desk/requests/{task_id}")).text
    [live] = [link for link in re.findall(r'hx-get="([^"]+)"', page) if link.startswith("/desk/live/requests/")]
    assert (await grace.get(live)).status_code == 204
    await report(app, context, task_id)
    renewed = await grace.get(live)
    assert (renewed.status_code, "<html" in renewed.text, "hx-get" in renewed.text) == (200, False, False)
    assert "Used: it ran once; nothing more can run with it." in renewed.text
    assert "Reported what became of the approval" in renewed.text


async def test_a_page_that_awaits_a_report_is_renewed_when_the_approval_runs_out(
    grace: Browser, app: FastAPI, context: Context, clock: FakeClock
) -> None:
    task_id = await commit_request(app, context)
    await decide(grace, task_id, "approve", lifetime="60")
    live = f"/desk/live/requests/{task_id}/outcome?version={task(context, task_id).version}"
    clock.advance(59)
    assert (await grace.get(live)).status_code == 204
    clock.advance(1)
    renewed = await grace.get(live)
    assert renewed.status_code == 200
    assert "The approval has run out." in renewed.text
    assert "hx-get" not in renewed.text
