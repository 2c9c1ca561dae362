"""Logging in and out, once more, and everywhere, in Chromium; WCAG 2.2 AA by axe-core, CSP Level 3."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from arap_service.store.directory import add_identity
from arap_service.web import passwords
from tests.browser.checks import violations
from tests.browser.keyboard import Keyboard
from tests.browser.server import RunningDesk, running_desk
from tests.browser.test_desk import Visit, visit
from tests.clock import FakeClock
from tests.web.desk import PASSWORD, QUICK
from tests.web.policy import POLICY
from tests.web.provider import TestProvider, running

__all__ = ["visit"]  # a fixture
pytestmark = [pytest.mark.browser]
STRICT = POLICY.replace("  commit:\n", "  commit:\n    step_up: true\n", 1)


@pytest.fixture
def provider() -> Iterator[TestProvider]:
    with running(TestProvider(FakeClock())) as provider:
        yield provider


@pytest.fixture
def desk(tmp_path: Path, provider: TestProvider, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunningDesk]:
    """A desk with both ways in; commits demand a fresh log-in."""
    monkeypatch.setattr(passwords, "_HASHER", QUICK)
    login = {"oidc": provider.settings(label="Example Account", groups_claim=None)}
    with running_desk(tmp_path, policy=STRICT, login=login) as running_now:
        provider.clock = running_now.clock
        running_now.context.database.write_now(
            lambda session: add_identity(session, "grace", iss=provider.issuer, sub="u-17")
        )
        yield running_now


def by_provider(page: Page, provider: TestProvider, sub: str = "u-17") -> None:
    """What a person does at the provider: he is there by now, logs in, and is sent back."""
    expect(page.get_by_role("heading", name="The provider")).to_be_visible()
    page.goto(provider.authorize(page.url, sub))


@pytest.mark.parametrize("script", [True, False])
def test_a_person_logs_in_and_out_by_the_provider(
    visit: Visit, desk: RunningDesk, provider: TestProvider, *, script: bool
) -> None:
    page = visit(log_in=None, script=script)
    page.goto("/desk/account")
    page.get_by_role("button", name="Log in with Example Account").click()
    by_provider(page, provider)
    expect(page.get_by_role("heading", name="Your account")).to_be_visible()
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("heading", name="The provider")).to_be_visible()
    assert page.url.startswith(f"{provider.issuer}/logout?")
    page.goto("/desk")
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()


@pytest.mark.parametrize("way", ["password", "provider"])
def test_a_decision_waits_for_a_fresh_log_in_and_keeps_what_was_typed(
    visit: Visit, desk: RunningDesk, provider: TestProvider, way: str
) -> None:
    page = visit(log_in=None if way == "provider" else "grace")
    if way == "provider":
        page.goto("/login")
        page.get_by_role("button", name="Log in with Example Account").click()
        by_provider(page, provider)
    task_id = desk.commit()
    desk.clock.advance(600)
    page.goto(f"/desk/requests/{task_id}")
    expect(page.get_by_text("at most 5 minutes old")).to_be_visible()
    page.get_by_label("Remark or reason").fill("Reviewed with Linus.")
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_role("heading", name="Log in once more")).to_be_visible()
    assert violations(page) == []
    assert "Linus" not in page.url
    if way == "provider":
        page.get_by_role("button", name="Log in with Example Account").click()
        by_provider(page, provider)
    else:
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Log in", exact=True).click()
    expect(page.get_by_text("Nothing has been decided yet")).to_be_visible()
    expect(page.get_by_label("Remark or reason")).to_have_value("Reviewed with Linus.")
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_role("heading", name="Approved", exact=True)).to_be_visible()


def test_a_password_is_changed_by_the_keyboard_alone(visit: Visit, desk: RunningDesk) -> None:
    new = "a kite over the harbour"
    elsewhere, page = visit(), visit()
    page.goto("/desk/account")
    keys = Keyboard(page)
    keys.to("Change your password", "a")
    keys.press("Enter")
    expect(page.get_by_role("heading", name="Change your password")).to_be_visible()
    for again in ("a kite over the city", new):
        for label, typed in (("Password now", PASSWORD), ("New password", new), ("New password once more", again)):
            keys.to(label, "input")
            keys.type(typed)
        keys.press("Enter")
        if again != new:
            expect(page.get_by_role("alert")).to_contain_text("The two new passwords are not the same.")
            expect(page.get_by_label("New password", exact=True)).to_have_value("")
    expect(page.get_by_role("heading", name="Your password was changed")).to_be_visible()
    elsewhere.goto("/desk")
    for password, heading in ((PASSWORD, "Log in"), (new, "Requests")):
        elsewhere.get_by_label("Account").fill("grace")
        elsewhere.get_by_label("Password").fill(password)
        elsewhere.get_by_role("button", name="Log in", exact=True).click()
        expect(elsewhere.get_by_role("heading", name=heading, exact=True, level=1)).to_be_visible()


@pytest.mark.parametrize("width", [320, 1440])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_pages_of_logging_in_are_readable_for_everybody(
    visit: Visit, desk: RunningDesk, tmp_path: Path, scheme: str, width: int
) -> None:
    out = visit(log_in=None, scheme=scheme, width=width)
    out.goto("/login")
    assert violations(out) == []
    out.goto("/login/callback?state=forged&code=x")
    expect(out.get_by_role("heading", name="You could not be logged in")).to_be_visible()
    assert violations(out) == []
    other = visit(scheme=scheme, width=width)
    page = visit(scheme=scheme, width=width)
    for path, heading in (
        ("/desk/account", "Your account"),
        ("/desk/account/password", "Change your password"),
        ("/desk/again", "Log in once more"),
    ):
        page.goto(path)
        expect(page.get_by_role("heading", name=heading)).to_be_visible()
        assert violations(page) == []
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    page.goto("/desk/account")
    page.get_by_role("button", name="End all others").click()
    expect(page.get_by_text("(this one)")).to_be_visible()
    other.goto("/desk/account")
    expect(other.get_by_role("heading", name="Log in")).to_be_visible()
