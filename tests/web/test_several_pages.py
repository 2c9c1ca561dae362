"""Deciding several requests at once: an explicit list, the versions that were seen, a result for each."""

import re
from typing import Any

import pytest
from fastapi import FastAPI
from sqlmodel import select

from arap_service.context import Context
from arap_service.requests import decisions, several
from arap_service.store.database import StoreUnavailable
from arap_service.store.tables import Approval
from tests.service import bearer, http
from tests.web.desk import Browser, ask, commit_request, decide, transfer_request
from tests.web.test_request_pages import task, votes

pytestmark = pytest.mark.anyio


def picks(*ids: str, version: int = 1) -> dict[str, str]:
    return {f"pick-{task_id}": str(version) for task_id in ids}


async def test_several_are_denied_with_one_reason_and_each_has_its_result(
    grace: Browser, linus: Browser, app: FastAPI, context: Context
) -> None:
    first, second = await commit_request(app, context, "One"), await transfer_request(app, context)
    settled, changed = await commit_request(app, context, "Two"), await transfer_request(app, context)
    queue = await grace.get("/desk")
    assert {f'name="pick-{each}" value="1"' in queue.text for each in (first, second, settled, changed)} == {True}
    chosen = picks(first, second, settled, changed)
    listed = await grace.submit("/desk/several", seen=queue, **chosen)
    assert "Decide 4 requests together" in listed.text
    assert 'value="approve"' not in listed.text, "they are not of one kind"
    await decide(linus, settled, "approve")
    await decide(linus, changed, "approve")
    done = await grace.submit("/desk/several/decision", seen=listed, decision="deny", reason="Freeze today.", **chosen)
    assert "2 of 4 decisions recorded" in done.text
    assert done.text.count("Your decision is recorded.") == 2
    assert "settled or ran out of time" in done.text
    assert "it changed after you chose it" in done.text
    stand = {each: task(context, each).status for each in (first, second, settled, changed)}
    assert stand == {first: "denied", second: "denied", settled: "approved", changed: "pending"}
    assert votes(context, first) == [("grace", "deny")]


async def test_the_reason_is_needed_once_and_nothing_is_recorded_without_it(
    grace: Browser, app: FastAPI, context: Context
) -> None:
    ids = [await commit_request(app, context, text) for text in ("One", "Two")]
    listed = await grace.submit("/desk/several", seen=await grace.get("/desk"), **picks(*ids))
    answer = await grace.submit("/desk/several/decision", seen=listed, decision="deny", **picks(*ids))
    assert answer.status_code == 422
    assert "Please say why" in answer.text
    assert {task(context, each).status for each in ids} == {"pending"}


async def test_equal_requests_are_approved_together_and_unequal_ones_never(
    grace: Browser, app: FastAPI, context: Context
) -> None:
    ids = [await commit_request(app, context, text) for text in ("One", "Two")]
    other = await transfer_request(app, context)
    listed = await grace.submit("/desk/several", seen=await grace.get("/desk"), **picks(*ids))
    assert "Approve these 2" in listed.text
    refused = await grace.submit("/desk/several/decision", seen=listed, decision="approve", **picks(*ids, other))
    assert refused.status_code == 422
    assert "Nothing was approved" in refused.text
    assert {task(context, each).status for each in (*ids, other)} == {"pending"}
    done = await grace.submit("/desk/several/decision", seen=listed, decision="approve", lifetime="60", **picks(*ids))
    assert "2 of 2 decisions recorded" in done.text
    assert [task(context, each).status for each in (*ids, other)] == ["approved", "approved", "pending"]


@pytest.mark.requirement("PDP-67")
async def test_what_is_approved_together_reaches_no_further_than_what_was_asked(
    grace: Browser, app: FastAPI, context: Context
) -> None:
    """The page shows the values of each, and not the words for how far its template would let an approval reach."""
    async with http(app, headers=bearer(context, "gate")) as gate:
        ids = [await ask(gate, "pay", {"amount": amount}) for amount in (20, 30)]
    listed = await grace.submit("/desk/several", seen=await grace.get("/desk"), **picks(*ids))
    assert "exactly what you see here" in listed.text
    chosen = {**picks(*ids), "decision": "approve", "reason": "CHG-12"}
    done = await grace.submit("/desk/several/decision", seen=listed, scope="shown", **chosen)
    assert "2 of 2 decisions recorded" in done.text
    granted = context.database.read_now(lambda session: session.exec(select(Approval)).all())
    assert sorted(each.task_id for each in granted) == sorted(ids)
    assert [each.scope for each in granted] == [None, None]


async def test_nothing_is_said_of_how_far_approvals_reach_where_they_reach_nowhere_else(
    grace: Browser, app: FastAPI, context: Context
) -> None:
    listed = await grace.submit(
        "/desk/several", seen=await grace.get("/desk"), **picks(await commit_request(app, context))
    )
    assert "exactly what you see here" not in listed.text


async def test_letters_that_look_like_others_are_told_beside_the_decision_on_all(
    grace: Browser, app: FastAPI, context: Context
) -> None:
    for text, is_told in (("plain", False), ("p\u0430per", True)):
        ids = [await commit_request(app, context, each) for each in ("One", text)]
        listed = await grace.submit("/desk/several", seen=await grace.get("/desk"), **picks(*ids))
        assert "Approve these 2" in listed.text
        assert ("holds letters that look like others" in listed.text) is is_told


async def test_one_of_whom_the_rules_exclude_counts_for_nothing(app: FastAPI, context: Context) -> None:
    """The same rule as behind every other way: ada asked for it herself."""
    ada = Browser(app)
    await ada.log_in("ada")
    ids = [await commit_request(app, context, text) for text in ("One", "Two")]
    queue = await ada.get("/desk")
    assert "pick-" not in queue.text
    done = await ada.submit("/desk/several/decision", seen=queue, decision="approve", **picks(*ids))
    assert "0 of 2 decisions recorded" in done.text
    assert done.text.count("The request is made in your name") == 2
    assert [votes(context, each) for each in ids] == [[], []]
    await ada.client.aclose()


@pytest.mark.parametrize("fields", [{}, {"pick-task_unknown": "1"}])
async def test_a_list_with_nothing_in_it_decides_nothing(grace: Browser, fields: dict[str, str]) -> None:
    answer = await grace.submit("/desk/several", seen=await grace.get("/desk"), **fields)
    assert (answer.status_code, "Nothing was chosen" in answer.text) == (422, True)


@pytest.mark.parametrize("fields", [{"pick-x": "one"}, {"pick-../x": "1"}, {"pick-x": "1", "decision": "maybe"}])
async def test_what_no_form_of_ours_sends_is_refused(grace: Browser, fields: dict[str, str]) -> None:
    answer = await grace.submit(
        "/desk/several/decision", seen=await grace.get("/desk"), **{"decision": "deny"} | fields
    )
    assert answer.status_code == 400


async def test_sending_the_list_twice_counts_once(grace: Browser, app: FastAPI, context: Context) -> None:
    ids = [await commit_request(app, context, text) for text in ("One", "Two")]
    seen = await grace.get("/desk")
    for recorded in (2, 0):
        done = await grace.submit("/desk/several/decision", seen=seen, decision="deny", reason="No.", **picks(*ids))
        assert f"{recorded} of 2 decisions recorded" in done.text
    assert [votes(context, each) for each in ids] == [[("grace", "deny")]] * 2


async def test_the_list_narrows_by_kind_risk_step_subject_and_deadline(
    grace: Browser, app: FastAPI, context: Context
) -> None:
    commit, transfer = await commit_request(app, context), await transfer_request(app, context)
    for query, found in (
        ("template=commit", [commit]),
        ("risk=high", [transfer]),
        ("step=Treasurers", [transfer]),
        ("subject=ada", [commit, transfer]),
        ("subject=ad", []),
        ("due=hour", []),
        ("due=day", [commit, transfer]),
        ("risk=medium&step=Treasurers", []),
    ):
        page = (await grace.get(f"/desk?{query}")).text
        assert [each for each in (commit, transfer) if each in page] == found, query
        live = re.search(r'hx-get="([^"]+)"', page)
        assert live is not None
        assert query.split("&")[0] in live[1].replace("&amp;", "&"), "it refreshes what it shows"
    assert (await grace.get("/desk?risk=huge")).status_code == 400
    assert (await grace.get("/desk?due=never")).status_code == 400


async def test_the_keys_are_told_on_a_page_as_well(grace: Browser, browser: Browser) -> None:
    page = (await grace.get("/desk/help")).text
    for key in "jkoxad?":
        assert f"<kbd>{key}</kbd>" in page
    assert 'href="/desk/help"' in (await grace.get("/desk")).text
    assert (await browser.get("/desk/help")).status_code == 303


async def test_what_is_recorded_is_told_even_if_the_database_stops_answering_midway(
    grace: Browser, app: FastAPI, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [await commit_request(app, context, text) for text in ("One", "Two", "Three")]
    listed = await grace.submit("/desk/several", seen=await grace.get("/desk"), **picks(*ids))
    asked: list[str] = []

    async def once(ctx: Context, caller: Any, task_id: str, **more: Any) -> Any:
        asked.append(task_id)
        if len(asked) > 1:
            raise StoreUnavailable("busy", "database: it is away")
        return await decisions.decide(ctx, caller, task_id, **more)

    monkeypatch.setattr(several, "decide", once)
    chosen = picks(*ids)
    done = await grace.submit("/desk/several/decision", seen=listed, decision="deny", reason="Freeze.", **chosen)
    assert "1 of 3 decisions recorded" in done.text
    assert done.text.count("Your decision is recorded.") == 1
    assert done.text.count("Perhaps recorded") == 1
    assert done.text.count("was not tried") == 1
    assert len(asked) == 2
    assert sorted(task(context, each).status for each in ids) == ["denied", "pending", "pending"]
    asked.append("one more, so that the first of them fails")
    failed = await grace.submit("/desk/several/decision", seen=listed, decision="deny", reason="F.", **picks(*ids[1:]))
    assert failed.status_code == 503
