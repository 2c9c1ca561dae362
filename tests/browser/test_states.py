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


def request(name: str, which: str, *, who: str = "rita", in_guide: bool = False) -> State:
    """The page of one request."""
    return seen(name, REQUEST, f"/desk/requests/{{{which}}}", who=who, in_guide=in_guide)


def with_help(room: Room) -> Page:
    """The queue under the help for the keyboard."""
    page = room.open("/desk")
    page.keyboard.press("?")
    return page


STATES = (
    seen("queue", "/desk", "/desk", who="grace", in_guide=True),
    seen("queue-of-operator", "/desk", "/desk"),
    State("queue-help", "/desk", with_help),
    seen("queue-everything", "/desk", "/desk?show=all"),
    seen("queue-approved", "/desk", "/desk?show=approved"),
    seen("queue-denied", "/desk", "/desk?show=denied"),
    seen("queue-found-nothing", "/desk", "/desk?q=nothing-like-it"),
    seen("queue-filtered", "/desk", "/desk?risk=high&show=waiting"),
    seen("queue-of-nobody", "/desk", "/desk", who="olga"),
    request("request", "waiting", who="grace", in_guide=True),
    request("request-not-yours", "waiting", who="olga"),
    request("request-two-deciders", "transfer"),
    request("request-voted", "voted"),
    request("request-second-voice", "voted", who="grace", in_guide=True),
    request("request-approved", "approved", who="sam", in_guide=True),
    request("request-used", "used"),
    request("request-taken-back", "taken back"),
    request("request-denied", "denied"),
    request("request-expired", "expired"),
    request("request-withdrawn", "withdrawn"),
    request("request-asked", "asked"),
    request("request-answered", "answered"),
    request("request-step-later", "contract"),
    request("request-step-now", "contract", who="linus"),
    request("request-hidden-values", "hidden"),
    request("request-hostile", "long"),
    request("request-fresh-log-in", "keys"),
    request("request-wide", "bill"),
    request("request-things", "things", who="grace", in_guide=True),
    request("request-emergency", "emergency"),
    request("request-always", "rule", who="grace"),
    seen("approvals", "/desk/approvals", "/desk/approvals", who="grace", in_guide=True),
    seen("approvals-used", "/desk/approvals", "/desk/approvals?show=used"),
    seen("approvals-found-nothing", "/desk/approvals", "/desk/approvals?q=nothing-like-it"),
    seen("own", "/desk/my", "/desk/my", who="ada", in_guide=True),
    seen("own-waiting", OWN, "/desk/my/{waiting}", who="ada"),
    seen("own-asked", OWN, "/desk/my/{asked}", who="ada", in_guide=True),
    seen("own-approved", OWN, "/desk/my/{approved}", who="ada"),
    seen("own-used", OWN, "/desk/my/{used}", who="ada"),
    seen("own-denied", OWN, "/desk/my/{denied}", who="ada"),
    seen("own-expired", OWN, "/desk/my/{expired}", who="ada"),
    seen("own-things", OWN, "/desk/my/{things}", who="ada"),
    seen("form", "/desk/forms/{evaluation_id}", "/desk/forms/{form}", who="ada", in_guide=True),
    seen("absence", "/desk/absence", "/desk/absence", who="linus", in_guide=True),
    seen("absence-of-everybody", "/desk/absence", "/desk/absence"),
    seen("help", "/desk/help", "/desk/help", who="grace", in_guide=True),
    seen("account", "/desk/account", "/desk/account", who="grace", in_guide=True),
    seen("password", "/desk/account/password", "/desk/account/password", who="grace", in_guide=True),
    seen("notifications", "/desk/account/notifications", "/desk/account/notifications", who="grace", in_guide=True),
    seen("notifications-no-address", "/desk/account/notifications", "/desk/account/notifications", who="sam"),
    seen("again", "/desk/again", "/desk/again?next=%2Fdesk", who="grace", in_guide=True),
    seen("reviews", "/desk/reviews", "/desk/reviews", who="grace", in_guide=True),
    seen("reviews-not-yours", "/desk/reviews", "/desk/reviews", who="rita"),
    seen("rules", "/desk/rules", "/desk/rules", in_guide=True),
    seen("rules-of-others", "/desk/rules", "/desk/rules", who="sam"),
    seen("reports", "/desk/reports", "/desk/reports", in_guide=True),
    seen("reports-nothing", "/desk/reports", "/desk/reports?since=2025-01-01&until=2025-01-02"),
    seen("people", "/desk/people", "/desk/people", in_guide=True),
    seen("people-of-group", "/desk/people", "/desk/people?group=maintainers"),
    seen("people-found-nobody", "/desk/people", "/desk/people?q=nobody-like-this"),
    seen("audit", "/desk/audit", "/desk/audit"),
    seen("audit-of-request", "/desk/audit", "/desk/audit?request={used}", in_guide=True),
    seen("audit-found-nothing", "/desk/audit", "/desk/audit?evaluation=none"),
    seen("deliveries", "/desk/deliveries", "/desk/deliveries", in_guide=True),
    seen("deliveries-on-their-way", "/desk/deliveries", "/desk/deliveries?show=pending"),
    seen("deliveries-switched-off", "/desk/deliveries", "/desk/deliveries?show=disabled"),
    seen("deliveries-found-nothing", "/desk/deliveries", "/desk/deliveries?show=all&request=none"),
    seen("delivery", "/desk/deliveries/{delivery_id}", "/desk/deliveries/dlv-dead", in_guide=True),
    seen("notices", "/desk/notices", "/desk/notices", in_guide=True),
    seen("notices-sent", "/desk/notices", "/desk/notices?show=sent"),
    seen("simulator", "/desk/simulator", "/desk/simulator", in_guide=True),
    seen("error-not-for-you", "/desk/audit", "/desk/audit", who="sam"),
    seen("error-nothing-here", "/desk/{_:path}", "/desk/none", who="grace", in_guide=True),
    seen("error-no-such-request", REQUEST, "/desk/requests/none"),
)


@pytest.mark.parametrize("state", STATES, ids=lambda state: state.name)
def test_page_is_fit_for_everybody(room: Room, state: State) -> None:
    found = wrong(state, room)
    assert not found, "\n".join(found)
