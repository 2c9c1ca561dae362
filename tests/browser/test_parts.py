"""The parts of the desk beyond queue and request, in Chromium; design.md section 7, WCAG 2.2 AA by axe-core."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page, expect

from arap_service.auditing.checkpoints import notary_of
from arap_service.store.database import WriteSession
from arap_service.store.notice_tables import Announcement, Notice
from arap_service.store.tables import Delivery
from arap_service.web import passwords
from tests.browser.conftest import PATIENCE_MS
from tests.browser.server import RunningDesk, running_desk
from tests.web.desk import PASSWORD, QUICK, add_person
from tests.web.parts import DESK

pytestmark = [pytest.mark.browser]
EVERYTHING = ("maintainers", "treasurers", "ops", "audit", "admins")
Visit = Callable[..., Page]


@dataclass(frozen=True, slots=True)
class Seeded:
    """A desk and the requests on it: one in force, one that asks its requester, one denied."""

    desk: RunningDesk
    approved: str
    asked: str
    denied: str


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunningDesk]:
    """A desk with a simulator; one person may open everything, one has asked."""
    monkeypatch.setattr(passwords, "_HASHER", QUICK)
    with running_desk(tmp_path, desk=DESK, simulator=True) as running:
        add_person(running.context, "rita", name="Rita Everywhere", groups=EVERYTHING)
        add_person(running.context, "ada", name="Ada Asker", identities=("https://id.example|ada",))
        yield running


@pytest.fixture
def visit(chromium_browser: Browser, desk: RunningDesk) -> Iterator[Visit]:
    """Logs people in, each in a fresh context, and fails when a page broke its own rules or threw an error."""
    complaints: list[str] = []
    contexts = []

    def opened(
        name: str, *, scheme: Literal["light", "dark"] = "light", width: int = 1440, script: bool = True
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
        page.goto("/desk")
        page.get_by_label("Account").fill(name)
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Log in", exact=True).click()
        expect(page.get_by_role("heading", name="Requests", exact=True, level=1)).to_be_visible()
        return page

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []


@pytest.fixture
def seeded(desk: RunningDesk, visit: Visit) -> Seeded:
    """Requests in several states, deliveries and a notice that were given up, a signed checkpoint."""
    page = visit("rita", script=False)

    def decide(button: str) -> str:
        task_id = desk.commit()
        page.goto(f"/desk/requests/{task_id}")
        page.get_by_label("Remark or reason").fill("Looked at it.")
        page.get_by_role("button", name=button, exact=True).click()
        return task_id

    approved, denied, asked = decide("Approve"), decide("Deny"), desk.commit("Add an entry")
    page.goto(f"/desk/requests/{asked}")
    page.get_by_label("Ask for more").fill("Which branch is it for?")
    page.get_by_role("button", name="Send the question").click()
    _seed_trouble(desk, approved)
    desk.portal.call(notary_of(desk.context).sign)
    return Seeded(desk, approved, asked, denied)


def _seed_trouble(desk: RunningDesk, task_id: str) -> None:
    now = desk.clock()

    def work(session: WriteSession) -> None:
        for status in ("dead", "pending", "disabled"):
            session.add(
                Delivery(
                    id=f"dlv-{status}", task_id=task_id, client_id="gate", endpoint="https://gate.example/callbacks",
                    event="approved", status=status, attempts=3, created_at=now, next_at=now, body_sealed=b"sealed",
                    finished_at=None if status == "pending" else now, last_error="status_503",
                )
            )  # fmt: skip
        about = Announcement(
            id="ann", key="k", kind="request_waiting", task_id=task_id, people=[], groups=[], at=now, settled_at=now
        )
        session.add(about)
        session.flush()
        session.add(
            Notice(
                id="ntc", announcement_id="ann", person_id="rita", channel="mail", status="dead", attempts=3,
                created_at=now, next_at=now, finished_at=now, last_error="timeout",
            )
        )  # fmt: skip

    desk.context.database.write_now(work)


def test_the_keyboard_reaches_the_menu_and_takes_an_approval_back(visit: Visit, seeded: Seeded) -> None:
    page = visit("rita")
    page.goto("/desk")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    link = page.get_by_role("navigation", name="Main").get_by_role("link", name="In force")
    _tab_to(page, "In force")
    expect(link).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Approvals in force", level=1)).to_be_visible()
    expect(link).to_have_attribute("aria-current", "page")
    _tab_to(page, "Take it back")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(page.get_by_label("Reason for taking it back")).to_be_focused()
    page.keyboard.type("Wrong repository.")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Nothing can start under it any more.")).to_be_visible()
    assert page.url.endswith(f"/desk/requests/{seeded.approved}")


def _tab_to(page: Page, text: str) -> None:
    """Press Tab until what has this text is in focus."""
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent").strip().startswith(text):
            return
    raise AssertionError(f"the keyboard does not reach {text}")


def test_the_parts_work_without_scripts(visit: Visit, seeded: Seeded) -> None:
    ada = visit("ada", script=False)
    ada.get_by_role("link", name="My requests").click()
    ada.get_by_role("link", name="Add an entry").click()
    ada.get_by_label("Answer").fill("The release branch.")
    ada.get_by_role("button", name="Send the answer").click()
    expect(ada.get_by_text("You need not do anything.")).to_be_visible()
    ada.get_by_role("button", name="Withdraw the request").click()
    expect(ada.get_by_text("It was withdrawn, so nothing will be done.")).to_be_visible()
    rita = visit("rita", script=False)
    rita.get_by_role("link", name="Look at it").first.click()
    rita.get_by_role("link", name="Approved: to gate").click()
    rita.get_by_role("button", name="Send again").click()
    expect(rita.get_by_text("On its way", exact=True)).to_be_visible()
    rita.get_by_role("link", name="Absence").click()
    rita.get_by_label("Who").fill("grace")
    rita.get_by_label("Until").fill("2026-05-02T08:00")
    rita.get_by_role("button", name="Enter it").click()
    expect(rita.get_by_text("Grace Hopper decides for you")).to_be_visible()
    rita.get_by_role("link", name="Audit trail").click()
    with rita.expect_download() as download:
        rita.get_by_role("button", name="Download the trail").click()
    assert download.value.suggested_filename == "audit-1.jsonl"
