"""Pages of the desk as they answer to a form, and pages on which there is nothing yet; WCAG 2.2 AA."""

from collections.abc import Iterator
from datetime import timedelta

import pytest
from playwright.sync_api import Browser, Page, expect

from arap_service import requests
from arap_service.store.database import WriteSession
from arap_service.store.people_tables import Account
from tests.browser import test_states
from tests.browser.office import later
from tests.browser.rooms import WHY, Room, open_room
from tests.browser.states import State, pages, seen, stale, wrong
from tests.web.desk import PASSWORD

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]
REQUEST, OWN = "/desk/requests/{task_id}", "/desk/my/{task_id}"


@pytest.fixture(scope="module")
def room(chromium_browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Room]:
    """A desk on which each state makes the requests that it needs."""
    with open_room(chromium_browser, tmp_path_factory.mktemp("room")) as opened:
        yield opened


@pytest.fixture(scope="module")
def empty_room(chromium_browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Room]:
    """A desk on which nothing has happened."""
    with open_room(chromium_browser, tmp_path_factory.mktemp("empty")) as opened:
        yield opened


def press(page: Page, button: str) -> Page:
    """Send a form."""
    page.get_by_role("button", name=button, exact=True).first.click()
    return page


def without_reason(room: Room) -> Page:
    page = room.open(room.commit().path)
    return press(page, "Deny")


def wrong_reason(room: Room) -> Page:
    page = room.open(room.office.ask("pay", amount=3, to="ACME").path)
    page.get_by_label("Reason", exact=True).fill("looks fine")
    return press(page, "Approve")


def proposal_approved(room: Room) -> Page:
    page = room.open(room.office.ask("pay", amount=4, to="ACME").path)
    page.get_by_label("Reason", exact=True).fill("CHG-4")
    page.get_by_text("Propose other values with a denial").click()
    page.get_by_label("amount").fill("2")
    return press(page, "Approve")


def overtaken(room: Room) -> Page:
    asked = room.commit()
    page = room.open(asked.path)
    room.decide(asked, "deny", who="sam", reason="Wrong branch.")
    return press(page, "Approve")


def changed(room: Room) -> Page:
    asked = room.commit()
    page = room.open("/desk")
    page.clock.install()
    page.goto(asked.path)
    room.decide(asked, "deny", who="sam", reason="Wrong branch.")
    page.clock.run_for(6_000)
    link = page.get_by_role("link", name="Show how it stands")
    link.focus()
    page.clock.run_for(11_000)
    expect(link).to_be_focused()
    return page


def too_late(room: Room) -> Page:
    """The page was opened in time, the button is not pressed in time."""
    asked = room.office.ask("sign", name="the lease")
    page = room.open(asked.path, who="linus")
    later(room.office, minutes=25)
    page.request.get("/desk")
    later(room.office, minutes=25)
    page.request.get("/desk")
    later(room.office, minutes=11)
    return press(page, "Approve")


def question_missing(room: Room) -> Page:
    return press(room.open(room.commit().path), "Send the question")


def comment_missing(room: Room) -> Page:
    return press(room.open(room.commit().path), "Add the comment")


def nothing_taken_back(room: Room) -> Page:
    asked = room.commit()
    room.decide(asked, "approve")
    return press(room.open(asked.path), "Take the approval back")


def log_in_once_more(room: Room) -> Page:
    asked = room.office.ask("rotate_keys", service="ledger")
    page = room.open(asked.path)
    later(room.office, minutes=3)
    press(page, "Approve")
    expect(page.get_by_role("heading", name="Log in once more")).to_be_visible()
    page.get_by_label("Password").fill("not the password")
    return press(page, "Log in")


def answer_missing(room: Room) -> Page:
    asked = room.commit()
    room.do(requests.ask, asked.id, message="Which branch is it for?")
    return press(room.open(f"/desk/my/{asked.id}", who="ada"), "Send the answer")


def withdrawn_too_late(room: Room) -> Page:
    asked = room.commit()
    page = room.open(f"/desk/my/{asked.id}", who="ada")
    room.decide(asked, "approve")
    return press(page, "Withdraw the request")


def form_mistakes(room: Room) -> Page:
    asked = room.office.denied("grant_role", role="reader")
    return press(room.open(f"/desk/forms/{asked.id}", who="ada"), "Keep what I filled in")


def form_done(room: Room) -> Page:
    asked = room.office.denied("grant_role", role="clerk")
    page = room.open(f"/desk/forms/{asked.id}", who="ada")
    page.get_by_label("Why it is needed").fill("The books are closed on Friday.")
    page.get_by_label("Application").select_option(index=1)
    press(page, "Show the choices")
    page.get_by_label("Role").select_option(index=1)
    press(page, "Keep what I filled in")
    expect(page.get_by_role("heading", name="Go back to your agent")).to_be_visible()
    return page


def absence_mistakes(room: Room) -> Page:
    return press(room.open("/desk/absence", who="sam"), "Enter it")


def preferences_kept(room: Room) -> Page:
    return press(room.open("/desk/account/notifications", who="grace"), "Keep this")


def password_unlike(room: Room) -> Page:
    page = room.open("/desk/account/password", who="grace")
    page.get_by_label("Password now").fill(PASSWORD)
    page.get_by_label("New password", exact=True).fill("a kite over the harbour")
    page.get_by_label("New password once more").fill("a kite over the city")
    return press(page, "Change the password")


def password_changed(room: Room) -> Page:
    page = room.open("/desk/account/password", who="linus")
    page.get_by_label("Password now").fill(PASSWORD)
    page.get_by_label("New password", exact=True).fill("a kite over the harbour")
    page.get_by_label("New password once more").fill("a kite over the harbour")
    return press(page, "Change the password")


def password_first(room: Room) -> Page:
    def given(session: WriteSession) -> None:
        session.get_one(Account, "olga").first_until = room.office.desk.clock() + timedelta(days=1)

    room.office.desk.context.database.write_now(given)
    return _log_in(room, "olga", PASSWORD)


def review_mistake(room: Room) -> Page:
    asked = room.office.ask("restart", {"emergency": True, **WHY}, service="ledger")
    room.decide(asked, "approve")
    room.office.run(asked)
    return press(room.open("/desk/reviews", who="grace"), "Close the review")


def rule_mistake(room: Room) -> Page:
    asked = room.commit()
    room.decide(asked, "approve")
    page = room.open(asked.path)
    page.get_by_label("For how many days").fill("99")
    return press(page, "Propose it")


def several(room: Room) -> Page:
    """Two of one kind are chosen in the list, and nothing is decided yet."""
    for message in ("Release 3.1", "Release 3.2"):
        room.commit(message)
    page = room.open("/desk?q=git_commit", who="grace")
    for message in ("Release 3.1", "Release 3.2"):
        page.get_by_label(f"Choose: Commits “{message}” to ledger").first.check()
    return press(page, "Decide the chosen ones together")


def several_unlike(room: Room) -> Page:
    room.commit("Release 4")
    room.office.ask("send_mail", to="press@paper.example", subject="Figures")
    page = room.open("/desk", who="sam")
    for choice in ("Choose: Commits “Release 4” to ledger", "Choose: Sends “Figures” to press@paper.example"):
        page.get_by_label(choice).first.check()
    press(page, "Decide the chosen ones together")
    return press(page, "Deny these 2")


def several_none(room: Room) -> Page:
    for message in ("Release 5.1", "Release 5.2"):
        room.commit(message)
    return press(room.open("/desk", who="sam"), "Decide the chosen ones together")


def several_done(room: Room) -> Page:
    """One of two has changed meanwhile."""
    first, second = room.commit("Release 6.1"), room.commit("Release 6.2")
    page = room.open("/desk", who="sam")
    for message in ("Release 6.1", "Release 6.2"):
        page.get_by_label(f"Choose: Commits “{message}” to ledger").check()
    press(page, "Decide the chosen ones together")
    room.decide(first, "deny", who="grace", reason="Wrong branch.")
    press(page, "Approve these 2")
    assert room.office.told(second)["status"] == "approved"
    return page


def unlike_before(room: Room) -> Page:
    """Beside the last call of the same kind that was approved."""
    wire = {"currency": "EUR", "token": "hunter2-hunter2"}
    before = room.office.ask("wire_transfer", amount=1_250, to="acct-100", **wire)
    for who in ("grace", "rita"):
        room.decide(before, "approve", who=who)
    return room.open(room.office.ask("wire_transfer", amount=12_500, to="acct-100", **wire).path, who="grace")


def simulator_mistake(room: Room) -> Page:
    return press(room.open("/desk/simulator"), "Do this next")


def log_in_wrong(room: Room) -> Page:
    return _log_in(room, "grace")


def _log_in(room: Room, name: str, password: str = "a wrong password!") -> Page:
    room.office.context.clear_cookies()
    page = room.office.context.pages[0]
    page.goto("/login")
    page.get_by_label("Account").fill(name)
    page.get_by_label("Password").fill(password)
    return press(page, "Log in")


def log_in_too_often(room: Room) -> Page:
    page = _log_in(room, "nobody")
    for _ in range(10):
        page.get_by_label("Password").fill("a wrong password!")
        press(page, "Log in")
    return page


def form_of_yesterday(room: Room) -> Page:
    """The session has ended since the page was opened."""
    page = room.open(room.commit().path)
    room.office.context.clear_cookies()
    return press(page, "Approve")


def log_in_form(room: Room) -> Page:
    room.office.context.clear_cookies()
    page = room.office.context.pages[0]
    page.goto("/login")
    return page


STATES = (
    State("request-no-reason", REQUEST, without_reason, says="Please say why."),
    State("request-wrong-reason", REQUEST, wrong_reason, says="The reason lacks something."),
    State("request-proposal-approved", REQUEST, proposal_approved, says="You changed a value."),
    State("request-overtaken", REQUEST, overtaken, says="Your decision was not recorded"),
    State("request-changed", REQUEST, changed, says="This request has changed"),
    State("request-too-late", REQUEST, too_late, says="The time to decide had run out"),
    State("request-question-missing", REQUEST, question_missing, says="Please write between 1 and 2,000 characters"),
    State("request-comment-missing", REQUEST, comment_missing, says="Please write between 1 and 2,000 characters"),
    State("request-not-taken-back", "/desk/approvals/{approval_id}", nothing_taken_back, says="Please say why."),
    State("request-unlike-before", REQUEST, unlike_before, in_guide=True),
    State("several", "/desk/several", several, in_guide=True),
    State("several-unlike", "/desk/several/decision", several_unlike, says="Please say why."),
    State("several-none", "/desk/several", several_none, says="Nothing was chosen"),
    State("several-done", "/desk/several/decision", several_done, in_guide=True),
    State("again-wrong", "/desk/again", log_in_once_more, says="Account or password is wrong."),
    State("own-answer-missing", OWN, answer_missing, says="Your answer was not kept yet."),
    State("own-withdrawn-too-late", OWN, withdrawn_too_late, says="Nothing was withdrawn"),
    State("form-mistakes", "/desk/forms/{evaluation_id}", form_mistakes, says="Nothing was kept yet"),
    State("form-done", "/desk/forms/{evaluation_id}", form_done, in_guide=True),
    State("absence-mistakes", "/desk/absence", absence_mistakes, says="Please name who decides for you."),
    State("notifications-kept", "/desk/account/notifications", preferences_kept, says="It holds from now on."),
    State("password-unlike", "/desk/account/password", password_unlike, says="The two new passwords are not the same."),
    State("password-first", "/desk/account/password", password_first, says="Choose your own password"),
    State("password-changed", "/desk/account", password_changed, says="Your password was changed"),
    State("review-mistake", "/desk/reviews", review_mistake, says="Please choose what you found"),
    State("rule-mistake", REQUEST, rule_mistake, says="Please say for how many days"),
    State("simulator-mistake", "/desk/simulator", simulator_mistake, says="There is no behaviour of this name."),
    State("login-wrong", "/login", log_in_wrong, says="Account or password is wrong."),
    State("login-too-often", "/login", log_in_too_often, says="Too many attempts."),
    State("error-form-no-longer-valid", REQUEST, form_of_yesterday, says="This form is no longer valid"),
)
EMPTY = (
    State("login", "/login", log_in_form, in_guide=True),
    seen("queue-empty", "/desk", "/desk", in_guide=True),
    seen("queue-empty-everything", "/desk", "/desk?show=all", says="No requests here"),
    seen("approvals-empty", "/desk/approvals", "/desk/approvals", says="Nothing may run now"),
    seen("approvals-empty-used", "/desk/approvals", "/desk/approvals?show=used", says="Nothing has been used"),
    seen("own-empty", "/desk/my", "/desk/my", says="You have asked for nothing"),
    seen("absence-empty", "/desk/absence", "/desk/absence", says="you decide for nobody"),
    seen("reviews-empty", "/desk/reviews", "/desk/reviews", says="Nothing waits."),
    seen("rules-empty", "/desk/rules", "/desk/rules", says="None."),
    seen("reports-empty", "/desk/reports", "/desk/reports", says="Nothing waits for a decision."),
    seen("audit-empty", "/desk/audit", "/desk/audit", says="No checkpoint was signed yet"),
    seen("deliveries-empty", "/desk/deliveries", "/desk/deliveries", says="Nothing was given up"),
    seen(
        "deliveries-none-switched-off",
        "/desk/deliveries",
        "/desk/deliveries?show=disabled",
        says="Every receiver is switched on",
    ),
    seen("notices-empty", "/desk/notices", "/desk/notices", says="Nothing was given up"),
)


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.name)
def test_answer_to_a_form_is_fit_for_everybody(room: Room, state: State) -> None:
    found = wrong(state, room)
    assert not found, "\n".join(found)


@pytest.mark.parametrize("state", EMPTY, ids=lambda state: state.name)
def test_page_without_anything_on_it_is_fit_for_everybody(empty_room: Room, state: State) -> None:
    found = wrong(state, empty_room)
    assert not found, "\n".join(found)


def test_every_page_that_there_is_has_been_looked_at() -> None:
    every = (*test_states.STATES, *STATES, *EMPTY)
    assert {state.route for state in every} >= pages()
    assert len({state.name for state in every}) == len(every)
    assert [state.name for state in every if not state.in_guide and not state.says] == [], "any page would do"
    assert stale(every) == set()
