"""Every page of the desk in the states in which it can be opened; WCAG 2.2 AA, design.md section 7."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.rooms import Room, furnish, open_room
from tests.browser.states import State, seen, wrong

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]
REQUEST, OWN = "/desk/requests/{task_id}", "/desk/my/{task_id}"


@pytest.fixture(scope="module")
def room(chromium_browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Room]:
    """A desk with everything on it, which nobody changes any more."""
    with open_room(chromium_browser, tmp_path_factory.mktemp("room")) as opened:
        furnish(opened)
        yield opened


def request(name: str, which: str, *, who: str = "rita", in_guide: bool = False, says: str = "") -> State:
    """The page of one request."""
    return seen(name, REQUEST, f"/desk/requests/{{{which}}}", who=who, in_guide=in_guide, says=says)


def with_help(room: Room) -> Page:
    """The queue under the help for the keyboard."""
    page = room.open("/desk")
    page.keyboard.press("?")
    return page


STATES = (
    seen("queue", "/desk", "/desk", who="grace", in_guide=True),
    seen("queue-of-operator", "/desk", "/desk", says="1 message to other systems was given up."),
    State("queue-help", "/desk", with_help, says="show or close this help"),
    seen("queue-everything", "/desk", "/desk?show=all", says="Upgrade the parser"),
    seen("queue-approved", "/desk", "/desk?show=approved", says="Release 2.1"),
    seen("queue-denied", "/desk", "/desk?show=denied", says="Pays 900 EUR to ACME"),
    seen("queue-found-nothing", "/desk", "/desk?q=nothing-like-it", says="No request matches what you searched for."),
    seen("queue-filtered", "/desk", "/desk?risk=high&show=waiting", says="Transfers 1250 EUR to acct-100"),
    seen("queue-of-nobody", "/desk", "/desk", who="olga", says="Nothing waits for you"),
    request("request", "waiting", who="grace", in_guide=True),
    request(
        "request-not-yours",
        "waiting",
        who="olga",
        says="You are not among the people who decide",
    ),
    request("request-two-deciders", "transfer", says="1 more approval is needed"),
    request("request-voted", "voted", says="Your decision is recorded below"),
    request("request-second-voice", "voted", who="grace", in_guide=True),
    request("request-approved", "approved", who="sam", in_guide=True),
    request("request-used", "used", says="Used: it ran once"),
    request("request-taken-back", "taken back", says="The approval was taken back."),
    request("request-denied", "denied", says="Too much for this month."),
    request("request-expired", "expired", says="Nobody decided in time."),
    request("request-withdrawn", "withdrawn", says="It was called off before a decision."),
    request("request-asked", "asked", says="Waiting for the answer."),
    request("request-answered", "answered", says="the answer is not verified"),
    request("request-step-later", "contract", who="grace", says="It is not your turn yet"),
    request("request-step-now", "contract", who="linus", says="Your approval completes The manager."),
    request("request-hidden-values", "hidden", says="1 value not shown to you"),
    request("request-hostile", "long", says="they are written out as"),
    request("request-fresh-log-in", "keys", says="at most 2 minutes old"),
    request("request-wide", "bill", says="Any bill of at most 500 EUR."),
    request("request-things", "things", who="grace", in_guide=True),
    request("request-emergency", "emergency", says="Used in an emergency"),
    request("request-always", "rule", who="grace", says="For how many days"),
    seen("approvals", "/desk/approvals", "/desk/approvals", who="grace", in_guide=True),
    seen("approvals-used", "/desk/approvals", "/desk/approvals?show=used", says="It ran once"),
    seen(
        "approvals-found-nothing",
        "/desk/approvals",
        "/desk/approvals?q=nothing-like-it",
        says="No approval in force matches",
    ),
    seen("own", "/desk/my", "/desk/my", who="ada", in_guide=True),
    seen("own-waiting", OWN, "/desk/my/{waiting}", who="ada", says="Whoever may decide it has been asked."),
    seen("own-asked", OWN, "/desk/my/{asked}", who="ada", in_guide=True),
    seen("own-approved", OWN, "/desk/my/{approved}", who="ada", says="It can be done now"),
    seen("own-used", OWN, "/desk/my/{used}", who="ada", says="It has been done."),
    seen("own-denied", OWN, "/desk/my/{denied}", who="ada", says="Too much for this month."),
    seen("own-expired", OWN, "/desk/my/{expired}", who="ada", says="Nobody decided in time"),
    seen("own-things", OWN, "/desk/my/{things}", who="ada", says="Opens the folder Payroll 2026"),
    seen("form", "/desk/forms/{evaluation_id}", "/desk/forms/{form}", who="ada", in_guide=True),
    seen("absence", "/desk/absence", "/desk/absence", who="linus", in_guide=True),
    seen("absence-of-everybody", "/desk/absence", "/desk/absence", says="Linus Example decides for Sam"),
    seen("help", "/desk/help", "/desk/help", who="grace", in_guide=True),
    seen("account", "/desk/account", "/desk/account", who="grace", in_guide=True),
    seen("password", "/desk/account/password", "/desk/account/password", who="grace", in_guide=True),
    seen("notifications", "/desk/account/notifications", "/desk/account/notifications", who="grace", in_guide=True),
    seen(
        "notifications-no-address",
        "/desk/account/notifications",
        "/desk/account/notifications",
        who="sam",
        says="There is no e-mail address of you here",
    ),
    seen("again", "/desk/again", "/desk/again?next=%2Fdesk", who="grace", in_guide=True),
    seen("reviews", "/desk/reviews", "/desk/reviews", who="grace", in_guide=True),
    seen(
        "reviews-not-yours", "/desk/reviews", "/desk/reviews", who="rita", says="somebody else has to decide this one"
    ),
    seen("rules", "/desk/rules", "/desk/rules", in_guide=True),
    seen("rules-of-others", "/desk/rules", "/desk/rules", who="sam", says="Only an administrator may do this."),
    seen("reports", "/desk/reports", "/desk/reports", in_guide=True),
    seen(
        "reports-nothing",
        "/desk/reports",
        "/desk/reports?since=2025-01-01&until=2025-01-02",
        says="Nobody asked for anything in these days",
    ),
    seen("people", "/desk/people", "/desk/people", in_guide=True),
    seen("people-of-group", "/desk/people", "/desk/people?group=maintainers", says="In the group maintainers"),
    seen("people-found-nobody", "/desk/people", "/desk/people?q=nobody-like-this", says="Nobody found"),
    seen("audit", "/desk/audit", "/desk/audit", says="under signed checkpoint 1"),
    seen("audit-of-request", "/desk/audit", "/desk/audit?request={used}", in_guide=True),
    seen("audit-found-nothing", "/desk/audit", "/desk/audit?evaluation=none", says="Nothing on record fits"),
    seen("deliveries", "/desk/deliveries", "/desk/deliveries", in_guide=True),
    seen("deliveries-on-their-way", "/desk/deliveries", "/desk/deliveries?show=pending", says="On its way"),
    seen(
        "deliveries-switched-off",
        "/desk/deliveries",
        "/desk/deliveries?show=disabled",
        says="Receivers that want nothing more",
    ),
    seen(
        "deliveries-found-nothing",
        "/desk/deliveries",
        "/desk/deliveries?show=all&request=none",
        says="No delivery is about a request with this reference.",
    ),
    seen("delivery", "/desk/deliveries/{delivery_id}", "/desk/deliveries/dlv-dead", in_guide=True),
    seen("notices", "/desk/notices", "/desk/notices", in_guide=True),
    seen("notices-sent", "/desk/notices", "/desk/notices?show=sent", says="Linus Example by mail"),
    seen("simulator", "/desk/simulator", "/desk/simulator", in_guide=True),
    seen("error-not-for-you", "/desk/audit", "/desk/audit", who="sam", says="This page is not for you"),
    seen("error-nothing-here", "/desk/{_:path}", "/desk/none", who="grace", in_guide=True),
    seen("error-no-such-request", REQUEST, "/desk/requests/none", says="There is nothing here"),
)


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.name)
def test_page_is_fit_for_everybody(room: Room, state: State) -> None:
    found = wrong(state, room)
    assert not found, "\n".join(found)
