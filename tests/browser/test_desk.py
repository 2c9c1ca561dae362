"""A reviewer at the desk, in Chromium; design.md section 7, WCAG 2.2 AA by axe-core."""

from collections.abc import Callable, Iterator
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.checks import violations
from tests.browser.conftest import PATIENCE_MS
from tests.browser.server import RunningDesk
from tests.clock import START
from tests.web.desk import PASSWORD

pytestmark = [pytest.mark.browser]
Visit = Callable[..., Page]


@pytest.fixture
def visit(chromium_browser: Browser, desk: RunningDesk) -> Iterator[Visit]:
    """Opens pages in fresh contexts, and fails when a page broke its own rules or threw an error."""
    complaints: list[str] = []
    contexts = []

    def opened(
        *,
        scheme: Literal["light", "dark"] = "light",
        width: int = 1440,
        script: bool = True,
        log_in: str | None = "grace",
    ) -> Page:
        context = chromium_browser.new_context(
            base_url=desk.url,
            color_scheme=scheme,
            viewport={"width": width, "height": 900},
            java_script_enabled=script,
            timezone_id="UTC",
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on(
            "console", lambda said: complaints.append(said.text) if "Content Security Policy" in said.text else None
        )
        if log_in:
            page.goto("/desk")
            page.get_by_label("Account").fill(log_in)
            page.get_by_label("Password").fill(PASSWORD)
            page.get_by_role("button", name="Log in", exact=True).click()
            expect(page.get_by_role("heading", name="Requests", exact=True, level=1)).to_be_visible()
        return page

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []


def test_a_reviewer_reads_and_approves(visit: Visit, desk: RunningDesk) -> None:
    desk.commit()
    page = visit()
    page.clock.set_fixed_time(START)  # else the page counts on, and after a second it says four minutes
    page.get_by_role("link", name="Fix rounding of the last digit").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Fix rounding of the last digit")
    expect(page.get_by_text("It commits what is staged at the moment it runs.")).to_be_visible()
    expect(page.locator("pre", has_text="/srv/ledger")).to_be_visible()
    page.get_by_label("An approval lasts").select_option("5 minutes")
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_role("heading", name="Approved", exact=True)).to_be_visible()
    expect(page.get_by_text("(in 5 minutes)")).to_be_visible()
    page.get_by_label("Reason for taking it back").fill("Wrong repository.")
    page.get_by_role("button", name="Take the approval back").click()
    expect(page.get_by_text("Nothing can start under it any more.")).to_be_visible()


def test_a_reviewer_denies_with_a_reason(visit: Visit, desk: RunningDesk) -> None:
    page = visit()
    page.goto(f"/desk/requests/{desk.commit()}")
    page.get_by_role("button", name="Deny").click()
    expect(page.get_by_text("Please say why.")).to_be_visible()
    expect(page.get_by_label("Remark or reason")).to_be_focused()
    page.get_by_label("Remark or reason").fill("Wrong branch.")
    page.get_by_role("button", name="Deny").click()
    expect(page.get_by_role("heading", name="Denied", exact=True)).to_be_visible()
    expect(page.get_by_text("Wrong branch.")).to_be_visible()


def test_everything_works_without_scripts(visit: Visit, desk: RunningDesk) -> None:
    first, second = desk.commit("First"), desk.commit("Second")
    page = visit(script=False)
    page.get_by_role("link", name="First").click()
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_role("heading", name="Approved", exact=True)).to_be_visible()
    assert page.url.endswith(first)
    page.get_by_role("link", name="All requests").click()
    page.get_by_role("link", name="Second").click()
    page.get_by_label("Remark or reason").fill("No.")
    page.get_by_role("button", name="Deny").click()
    expect(page.get_by_role("heading", name="Denied", exact=True)).to_be_visible()
    assert page.url.endswith(second)
    page.get_by_role("link", name="All requests").click()
    page.get_by_role("link", name="Everything").click()
    expect(page.get_by_role("link", name="First")).to_be_visible()
    page.get_by_label("Search requests").fill(second)
    page.get_by_role("button", name="Search").click()
    expect(page.get_by_role("link", name="First")).to_have_count(0)
    expect(page.get_by_role("link", name="Second")).to_be_visible()
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()


def test_the_keyboard_leads_through_queue_and_request(visit: Visit, desk: RunningDesk) -> None:
    desk.commit("First")
    desk.clock.advance(1)
    desk.commit("Second")
    page = visit()
    page.keyboard.press("j")
    expect(page.get_by_role("link", name="First")).to_be_focused()
    page.keyboard.press("j")
    expect(page.get_by_role("link", name="Second")).to_be_focused()
    page.keyboard.press("k")
    expect(page.get_by_role("link", name="First")).to_be_focused()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    assert violations(page) == []
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    page.get_by_role("link", name="First").focus()
    page.keyboard.press("o")
    expect(page.get_by_role("heading", level=1)).to_contain_text("First")
    page.keyboard.press("a")
    expect(page.get_by_role("button", name="Approve")).to_be_focused()
    page.keyboard.press("d")
    expect(page.get_by_label("Remark or reason")).to_be_focused()
    page.keyboard.type("jkoad?")
    expect(page.get_by_label("Remark or reason")).to_have_value("jkoad?")


def test_the_queue_refreshes_itself_and_keeps_the_focus(visit: Visit, desk: RunningDesk) -> None:
    desk.commit("First")
    page = visit()
    page.clock.install()
    page.goto("/desk")
    page.keyboard.press("j")
    desk.clock.advance(1)
    desk.commit("Second")
    page.clock.run_for(11_000)
    expect(page.get_by_role("link", name="Second")).to_be_visible()
    expect(page.get_by_role("link", name="First")).to_be_focused()
    expect(page.get_by_role("status")).to_have_text("The list of requests was updated.")


def test_the_outcome_appears_by_itself_once_the_gate_has_reported(visit: Visit, desk: RunningDesk) -> None:
    task_id = desk.commit()
    page = visit()
    page.goto(f"/desk/requests/{task_id}")
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_text("Waiting for gate to report what becomes of it.")).to_be_visible()
    page.clock.install()
    page.reload()
    desk.report(task_id)
    page.clock.run_for(4_000)
    expect(page.get_by_text("Used: it ran once; nothing more can run with it.")).to_be_visible()
    expect(page.get_by_role("button", name="Take the approval back")).to_have_count(0)
    expect(page.get_by_role("status")).to_have_text("What became of it was updated.")


def test_what_was_typed_goes_with_whichever_button_is_pressed(visit: Visit, desk: RunningDesk) -> None:
    page = visit(script=False)
    for button, heading in (("Approve", "Approved"), ("Deny", "Denied")):
        page.goto(f"/desk/requests/{desk.commit()}")
        page.get_by_label("Remark or reason").fill(f"Before pressing {button}.")
        page.get_by_role("button", name=button, exact=True).click()
        expect(page.get_by_role("heading", name=heading, exact=True)).to_be_visible()
        expect(page.get_by_text(f"Before pressing {button}.")).to_be_visible()


def test_an_open_request_says_that_somebody_else_was_faster(visit: Visit, desk: RunningDesk) -> None:
    path = f"/desk/requests/{desk.commit()}"
    hers, his = visit(log_in="grace"), visit(log_in="linus")
    hers.clock.install()
    hers.goto(path)
    his.goto(path)
    his.get_by_label("Remark or reason").fill("Wrong branch.")
    his.get_by_role("button", name="Deny").click()
    expect(his.get_by_role("heading", name="Denied", exact=True)).to_be_visible()
    hers.clock.run_for(6_000)
    expect(hers.get_by_role("heading", name="This request has changed")).to_be_visible()
    hers.get_by_role("button", name="Approve").click()
    expect(hers.get_by_role("heading", name="Your decision was not recorded")).to_be_visible()
    expect(hers.get_by_text("Wrong branch.")).to_be_visible()


@pytest.mark.parametrize("path", ["/desk", "request"])
def test_a_look_that_finds_nothing_new_is_told_to_nobody(visit: Visit, desk: RunningDesk, path: str) -> None:
    page = visit()
    page.clock.install()
    page.goto(f"/desk/requests/{desk.commit()}" if path == "request" else path)
    for _ in range(3):  # what came of the first looks has been dealt with when the last is answered
        with page.expect_response("**/desk/live/**") as look:
            page.clock.run_for(16_000)
        assert look.value.status == 204
    expect(page.get_by_role("status")).to_have_text("")


@pytest.mark.requirement("ARS-126")
def test_hostile_text_runs_nothing_and_hides_nothing(visit: Visit, desk: RunningDesk) -> None:
    attack = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>\u202egnp\u200b"
    page = visit()
    page.goto(f"/desk/requests/{desk.commit(attack)}")
    expect(page.get_by_role("heading", level=1)).to_contain_text("<img src=x")
    expect(page.locator("pre", has_text="⟦U+202E⟧gnp⟦U+200B⟧")).to_be_visible()
    assert page.title() != "owned"
    assert page.evaluate("document.querySelectorAll('img[src=x], main script').length") == 0
    page.goto("/desk")
    assert page.evaluate("document.querySelectorAll('img[src=x], main script').length") == 0
