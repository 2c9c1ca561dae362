"""Every form of the desk, sent by a browser that runs no scripts; design.md section 7.

The list of forms is the route table's: a new form that nobody sends here turns the test red. Those that lead to a
provider are sent without scripts in `test_login.py`.
"""

import re
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.rooms import Room, furnish, open_room
from tests.browser.states import routes
from tests.web.desk import PASSWORD

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]
BY_A_PROVIDER = {"/login/provider", "/desk/again/provider"}


@pytest.fixture(scope="module")
def room(chromium_browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Room]:
    """A desk with everything on it, and a window without scripts."""
    with open_room(chromium_browser, tmp_path_factory.mktemp("room"), script=False) as opened:
        furnish(opened)
        yield opened


def press(page: Page, button: str, then: str) -> None:
    """Send a form; what the next page says."""
    page.get_by_role("button", name=button).first.click()
    expect(page.locator("main").get_by_text(then).first).to_be_visible()


def test_every_form_works_without_scripts(room: Room) -> None:
    sent: list[str] = []
    page = room.office.context.pages[0]
    page.on("request", lambda told: sent.append(urlsplit(told.url).path) if told.method == "POST" else None)
    _log_in_and_out(room)
    _decide(room)
    _talk(room)
    _as_requester(room)
    _around(room)
    patterns = {route: re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(route)) for route in routes("POST")}
    never = {route for route, pattern in patterns.items() if not any(re.fullmatch(pattern, path) for path in sent)}
    assert never == BY_A_PROVIDER


def _log_in_and_out(room: Room) -> None:
    page = room.office.context.pages[0]
    page.goto("/login")
    page.get_by_label("Account").fill("grace")
    page.get_by_label("Password").fill(PASSWORD)
    press(page, "Log in", "For you to decide")
    press(page, "Log out", "Here people decide")


def _decide(room: Room) -> None:
    page = room.open(room.ids["waiting"].path, who="sam")
    press(page, "Approve", "The approval is in force.")
    press(page, "Propose it", "Waiting for an administrator")
    page = room.open(room.ids["waiting"].path, who="sam")
    page.get_by_label("Reason for taking it back").fill("Wrong branch.")
    press(page, "Take the approval back", "Nothing can start under it any more.")
    page = room.open("/desk/rules")
    press(page, "Put it into force", "In force")
    press(page, "End it now", "Ended")
    page = room.open("/desk", who="sam")
    page.get_by_label("Choose: Replaces the signing keys of ledger").check()
    page.get_by_label("Choose: Commits “Remove an entry” to ledger").check()
    press(page, "Decide the chosen ones together", "Your decision on all of them")
    page.get_by_label("Remark or reason").fill("Not today.")
    press(page, "Deny these 2", "2 of 2 decisions recorded")
    page = room.open("/desk/reviews", who="grace")
    page.get_by_label("It was an emergency").check()
    page.get_by_label("Why").fill("The ledger was down.")
    press(page, "Close the review", "Rightly approved")
    page = room.open(f"/desk/again?next={room.ids['keys'].path}", who="grace")
    page.get_by_label("Password").fill(PASSWORD)
    press(page, "Log in", "Replaces the signing keys of ledger")


def _talk(room: Room) -> None:
    page = room.open(room.commit("Add a test").path, who="grace")
    page.get_by_label("Ask for more").fill("Which one?")
    press(page, "Send the question", "Waiting for the answer.")
    page.get_by_label("Comment").fill("I wait for the answer.")
    press(page, "Add the comment", "I wait for the answer.")
    press(page, "I work on this", "works on this")
    press(page, "Nobody works on it any more", "I work on this")


def _as_requester(room: Room) -> None:
    page = room.open(f"/desk/my/{room.ids['asked'].id}", who="ada")
    page.get_by_label("Answer").fill("The release branch.")
    press(page, "Send the answer", "You need not do anything.")
    press(page, "Withdraw the request", "It was withdrawn")
    page = room.open(f"/desk/forms/{room.ids['form'].id}", who="ada")
    page.get_by_label("Why it is needed").fill("The books are closed on Friday.")
    page.get_by_label("Application").select_option(index=1)
    press(page, "Show the choices", "Role in an application")
    page.get_by_label("Role").select_option(index=1)
    press(page, "Keep what I filled in", "Go back to your agent")


def _around(room: Room) -> None:
    page = room.open("/desk/absence", who="olga")
    page.get_by_label("Who").fill("sam")
    page.get_by_label("Until").fill("2026-06-02T08:00")
    press(page, "Enter it", "Sam decides for you")
    press(page, "End it now", "nobody decides for you")
    page = room.open("/desk/account/notifications", who="grace")
    press(page, "Keep this", "It holds from now on.")
    page = room.open("/desk/deliveries?show=disabled")
    press(page, "Send there again", "Deliveries")
    expect(page.get_by_role("button", name="Send there again")).to_have_count(0)
    page = room.open("/desk/deliveries/dlv-dead")
    press(page, "Send again", "On its way")
    page = room.open("/desk/notices")
    expect(page.locator(".chip").get_by_text("On its way")).to_have_count(0)
    press(page, "Send again", "Notices")
    expect(page.locator(".chip").get_by_text("On its way")).to_have_count(2)
    page = room.open("/desk/simulator")
    page.get_by_label("Behaviour").select_option("slow")
    page.get_by_label("An address, for its faults").select_option("status")
    press(page, "Do this next", "Forget all of it")
    press(page, "Forget all of it", "Nothing: it does what the rules")
    page = room.open("/desk/account/password", who="sam")
    page.get_by_label("Password now").fill(PASSWORD)
    page.get_by_label("New password", exact=True).fill("a kite over the harbour")
    page.get_by_label("New password once more").fill("a kite over the harbour")
    press(page, "Change the password", "You are logged out everywhere else.")
    page = room.open("/desk/account", who="olga")
    press(page, "End all, this one too", "Here people decide")
