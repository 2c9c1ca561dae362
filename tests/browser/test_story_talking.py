"""Stories in which a reviewer says more than yes or no, told in Chromium by keyboard alone."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.browser.office import Office, open_office

pytestmark = [pytest.mark.browser]
RULES = """
version: 1
groups: {treasury: Treasury}
clients: [{client: gate, may: 'true'}]
rules:
  - {id: transfers, when: resource.id == "wire_transfer", request: transfer}
  - {id: bills, when: resource.id == "pay", request: bill}
templates:
  transfer:
    title: Wire transfer
    explanation: Money leaves the company.
    effect: '"Transfers " + string(call.arguments.amount) + " to " + call.arguments.to'
    steps: [{id: treasury, title: A treasurer, groups: [treasury]}]
  bill:
    title: Bill
    explanation: A bill is paid.
    effect: '"Pays " + string(call.arguments.amount) + " to " + call.arguments.to'
    steps: [{id: treasury, title: A treasurer, groups: [treasury]}]
    scope:
      may_vary: [/context/arguments_hash]
      within: 'call.?arguments.?amount.orValue(1.0e9) <= 500'
      words: Any bill up to 500.
"""


@pytest.fixture(scope="module")
def office(chromium_browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    """The office of all stories here."""
    people = {"grace": ("treasury",), "linus": ("treasury",)}
    with open_office(chromium_browser, tmp_path_factory.mktemp("office"), RULES, people) as opened:
        yield opened


def test_a_question_is_answered_before_the_request_is_decided(office: Office) -> None:
    asked = office.ask("wire_transfer", amount=50_000, to="ACME")
    hers = office.become("grace", asked.path)
    hers.write("Ask for more", "Which invoice is this for?")
    hers.follow("Send the question", "Transfers 50000 to ACME", "button")
    hers.sees("Waiting for the answer.")
    theirs = office.become("ada", "/desk/my")
    theirs.follow("Transfers 50000 to ACME", "Transfers 50000 to ACME", "a")
    theirs.sees("Which invoice is this for?")
    theirs.write("Answer", "INV-4711")
    theirs.follow("Send the answer", "Transfers 50000 to ACME", "button")
    theirs.sees("You need not do anything.")
    hers = office.become("grace", asked.path)
    hers.sees("INV-4711")
    hers.follow("Approve", "Approved", "button")
    assert office.run(asked)


def test_an_approval_is_made_narrower_than_the_rules_would_allow(office: Office) -> None:
    wide, narrow = office.ask("pay", amount=120, to="ACME"), office.ask("pay", amount=130, to="ACME")
    for asked, unticks in ((wide, False), (narrow, True)):
        keys = office.become("grace", asked.path)
        keys.sees("Any bill up to 500.")
        keys.choose("An approval lasts", "5 minutes")
        keys.to("the values of the call")
        assert keys.here()["checked"] is True
        if unticks:
            keys.press("Space")
            assert keys.here()["checked"] is False
        keys.follow("Approve", "Approved", "button")
        keys.sees("For 5 minutes")
        keys.sees("Exactly this" if unticks else "More than this one")
    found = [office.allows(asked, amount=90, to="ACME") for asked in (wide, narrow)]
    assert found == [True, False]
    assert not office.allows(wide, amount=900, to="ACME"), "never wider than the rules"
    assert office.run(narrow)


def test_a_denial_proposes_less_and_the_agent_asks_anew(office: Office) -> None:
    asked = office.ask("wire_transfer", amount=900, to="ACME")
    keys = office.become("grace", asked.path)
    keys.to("Propose other values with a denial", "summary")
    keys.press("Enter")
    keys.write("amount", "90")
    keys.back_to("Remark or reason")
    keys.type("Too much.")
    keys.follow("Deny", "Denied", "button")
    keys.sees("Proposed instead:")
    said = office.told(asked)["display"]["urn:x-arap:decision"]
    assert said == {"reason": "Too much.", "proposed_arguments": {"amount": 90, "to": "ACME"}}
    again = office.ask("wire_transfer", **said["proposed_arguments"])
    keys = office.become("linus", again.path)
    keys.follow("Approve", "Approved", "button")
    assert (office.run(asked), office.run(again)) == (False, True)
    assert office.ran[-1] == {"amount": 90, "to": "ACME"}
