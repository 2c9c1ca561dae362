"""Ask back, comment and claim at the desk, without a script (design.md sections 5 to 7)."""

import pytest
from fastapi import FastAPI

from arap_service.context import Context
from tests.service import bearer, http
from tests.web.desk import Browser, commit_request, decide


@pytest.mark.anyio
async def test_question_from_the_desk_is_answered_and_the_answer_shown(
    app: FastAPI, context: Context, grace: Browser
) -> None:
    """Whatever the requester writes is text on the page."""
    task_id = await commit_request(app, context)
    path = f"/desk/requests/{task_id}"
    sent = await grace.submit(f"{path}/question", seen=await grace.get(path), text="Which ticket?")
    assert (sent.status_code, sent.headers["location"]) == (303, f"{path}#questions-title")
    shown = (await grace.get(path)).text
    assert "Which ticket?" in shown
    assert "Waiting for the answer." in shown
    assert "Send the question" not in shown
    async with http(app, headers=bearer(context, "gate")) as gate:
        said = {"version": 1, "input": {"answer": "<b>OPS-7</b>"}}
        assert (await gate.post(f"/access/v1/request/{task_id}/input", json=said)).status_code == 204
    shown = (await grace.get(path)).text
    assert "&lt;b&gt;OPS-7&lt;/b&gt;" in shown
    assert "Asked the requester for more" in shown
    assert "Send the question" in shown


@pytest.mark.anyio
async def test_comment_and_claim_are_seen_by_the_other_reviewer(
    app: FastAPI, context: Context, grace: Browser, linus: Browser
) -> None:
    task_id = await commit_request(app, context)
    path = f"/desk/requests/{task_id}"
    await grace.submit(f"{path}/comment", seen=await grace.get(path), text="The branch is <protected>")
    assert (await grace.submit(f"{path}/claim", seen=await grace.get(path))).status_code == 303
    seen = await linus.get(path)
    assert "The branch is &lt;protected&gt;" in seen.text
    assert "<strong>Grace Hopper</strong> works on this." in seen.text
    taken = await linus.submit(f"{path}/claim", seen=seen)
    assert taken.status_code == 409
    assert "Nothing was recorded" in taken.text
    assert (await linus.submit(f"{path}/release", seen=seen)).status_code == 303
    assert "works on this." not in (await linus.get(path)).text


@pytest.mark.anyio
async def test_empty_text_is_explained_beside_its_field_and_nothing_is_sent(
    app: FastAPI, context: Context, grace: Browser
) -> None:
    task_id = await commit_request(app, context)
    path = f"/desk/requests/{task_id}"
    for form, typed in (("question", "   "), ("comment", "x" * 2001)):
        refused = await grace.submit(f"{path}/{form}", seen=await grace.get(path), text=typed)
        assert refused.status_code == 422
        assert f'id="{form}-error"' in refused.text
        assert "Please write between" in refused.text
    assert (await grace.post(f"{path}/question", {"text": "x"})).status_code == 403  # no form of ours
    shown = (await grace.get(path)).text
    assert ("Waiting for the answer." in shown, "x" * 2000 in shown) == (False, False)


@pytest.mark.anyio
async def test_settled_request_offers_no_form_and_takes_none(app: FastAPI, context: Context, grace: Browser) -> None:
    task_id = await commit_request(app, context)
    path = f"/desk/requests/{task_id}"
    seen = await grace.get(path)
    assert (await decide(grace, task_id, "approve")).status_code == 303
    for form in ("question", "comment", "claim", "release"):
        assert (await grace.submit(f"{path}/{form}", seen=seen, text="x")).status_code == 409
    shown = (await grace.get(path)).text
    assert "Send the question" not in shown
    assert "I work on this" not in shown
    assert (await grace.submit("/desk/requests/no.id/claim", seen=seen)).status_code == 404
