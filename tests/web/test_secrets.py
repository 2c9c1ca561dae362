"""What reaches neither a page nor a log: masked and hidden values, passwords, cookies, reasons; design.md section 7."""

import pytest
from fastapi import FastAPI

from arap_service.context import Context
from tests.service import bearer, http
from tests.web.desk import PASSWORD, Browser, ask, commit_request, transfer_request

pytestmark = pytest.mark.anyio


async def test_secrets_are_masked_and_the_rest_is_whole(grace: Browser, app: FastAPI, context: Context) -> None:
    page = (await grace.get(f"/desk/requests/{await transfer_request(app, context)}")).text
    assert "hunter2" not in page
    assert "acct-991" in page
    assert "it is hidden from everybody on this page" in page


@pytest.mark.requirement("GOV-15")
async def test_where_the_rules_list_what_is_shown_the_rest_is_hidden_by_name(
    grace: Browser, app: FastAPI, context: Context
) -> None:
    letter = {"to": "press@example.com", "subject": "Figures", "body": "canary-body", "files": ["canary-file"]}
    async with http(app, headers=bearer(context, "gate")) as gate:
        task_id = await ask(gate, "send_mail", letter, server="mail")
    pages = [(await grace.get(path)).text for path in (f"/desk/requests/{task_id}", "/desk", "/desk?show=all")]
    assert all("canary" not in page for page in pages)
    for text in ("press@example.com", "Figures", "2 values not shown to you", ">body<", ">files → 0<"):
        assert text in pages[0], text


async def test_no_password_cookie_or_reason_is_logged(
    browser: Browser, app: FastAPI, context: Context, capfd: pytest.CaptureFixture[str]
) -> None:
    await browser.log_in("grace", password="canary-wrong-password")
    await browser.log_in("grace")
    task_id = await commit_request(app, context, "canary-message")
    seen = await browser.get(f"/desk/requests/{task_id}")
    await browser.submit(
        f"/desk/requests/{task_id}/decision", seen=seen, decision="deny", version="1", reason="canary-reason"
    )
    logged = "".join(capfd.readouterr())
    assert "decision_recorded" in logged
    assert "canary" not in logged
    assert PASSWORD not in logged
    assert browser.client.cookies["__Host-arap-desk"] not in logged
