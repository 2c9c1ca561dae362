"""Stories in which time passes between asking, deciding and running, told in Chromium by keyboard alone.

The clock is the test's own: an hour passes when the story says so.
"""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.office import Office, later, open_office

pytestmark = [pytest.mark.browser]
RULES = """
version: 1
groups: {{treasury: Treasury, board: The board, on-call: Whoever is on call}}
clients: [{{client: gate, may: 'true'}}]
entities: {{user: {{ada: {{account: {account}}}}}}}
rules:
  - {{id: transfers, when: resource.id == "wire_transfer", request: transfer}}
  - {{id: accounts, when: resource.id == "open_account", request: account}}
  - {{id: contracts, when: resource.id == "sign", request: contract}}
templates:
  transfer:
    title: Wire transfer
    explanation: Money leaves the company.
    effect: '"Transfers " + string(call.arguments.amount) + " to " + call.arguments.to'
    steps: [{{id: treasury, title: A treasurer, groups: [treasury]}}]
    emergency: {{groups: [on-call], owners: [board], approval_seconds: 120, review_seconds: 3600}}
  account:
    title: Use of an account
    explanation: The account is set up after the approval.
    effect: '"Uses the account " + call.arguments.name'
    provisioned: subject_entity.?account.orValue(false) == true
    steps: [{{id: treasury, title: A treasurer, groups: [treasury]}}]
  contract:
    title: Contract
    explanation: The company is bound by it.
    effect: '"Signs " + call.arguments.name'
    steps:
      - {{id: treasury, title: A treasurer, groups: [treasury], escalate: {{after_seconds: 3600, groups: [board]}}}}
"""
PEOPLE = {"grace": ("treasury",), "dora": (), "bea": ("board",), "lea": ("on-call",)}


@pytest.fixture(scope="module")
def office(chromium_browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    """The office of all stories here."""
    rules = RULES.format(account="false")
    with open_office(chromium_browser, tmp_path_factory.mktemp("office"), rules, PEOPLE) as opened:
        yield opened


def test_a_grant_that_provisions_later_runs_once_it_is_there(office: Office) -> None:
    asked = office.ask("open_account", name="petty-cash")
    keys = office.become("grace", asked.path)
    keys.follow("Approve", "Approved", "button")
    assert not office.run(asked), "the account is not there yet"
    keys = office.become("grace", asked.path)
    keys.sees("Waiting for gate to report what becomes of it.")
    office.set_rules(RULES.format(account="true"))
    assert office.run(asked)
    office.become("grace", asked.path).sees("Used: it ran once; nothing more can run with it.")


def test_a_deputy_decides_during_the_holidays_and_has_no_voice_of_his_own(office: Office) -> None:
    asked, other = office.ask("wire_transfer", amount=10, to="ACME"), office.ask("wire_transfer", amount=20, to="ACME")
    office.become("dora", asked.path).sees("You are not among the people who decide requests of this kind.")
    hers = office.become("grace")
    hers.follow("Absence", "Absence", "a")
    hers.write("Who", "dora")
    hers.to("Until")
    hers.type("05/02/2026")
    hers.press("Tab")
    hers.type("08:00AM")
    hers.follow("Enter it", "Absence", "button")
    hers.sees("Dora decides for you")
    deputy = office.become("dora")
    deputy.follow("Transfers 10 to ACME", "Transfers 10 to ACME")
    deputy.follow("Approve", "Approved", "button")
    deputy.sees("for Grace")
    assert office.run(asked)
    hers = office.become("grace", "/desk/absence")
    hers.follow("End it now", "Absence", "button")
    hers.sees("Nothing: nobody decides for you")
    late = office.become("dora", other.path)
    late.sees("You are not among the people who decide requests of this kind.")
    expect(late.page.get_by_role("button", name="Approve")).to_have_count(0)


def test_further_people_are_asked_when_a_step_has_waited_too_long(office: Office) -> None:
    asked = office.ask("sign", name="the lease")
    keys = office.become("bea", asked.path)
    expect(keys.page.get_by_role("button", name="Approve")).to_have_count(0)
    later(office, hours=1, seconds=1)
    keys = office.become("bea")
    keys.follow("Signs the lease", "Signs the lease")
    keys.follow("Approve", "Approved", "button")
    assert office.run(asked)


def test_one_on_call_approves_in_an_emergency_and_the_board_looks_at_it_afterwards(office: Office) -> None:
    why = {"emergency": True, "business_justification": "The payroll bounces at six."}
    asked = office.ask("wire_transfer", why, amount=900, to="payroll")
    keys = office.become("lea", asked.path)
    keys.sees("The payroll bounces at six.")
    keys.follow("Approve", "Approved", "button")
    assert office.run(asked)
    hers = office.become("lea", "/desk/reviews")
    expect(hers.page.get_by_role("button", name="Close the review")).to_have_count(0)
    keys = office.become("bea")
    keys.follow("Emergencies", "Emergencies to look at", "a")
    keys.to("It was an emergency")
    keys.press("Space")
    keys.press("ArrowDown")
    assert keys.here()["name"].startswith("It should not have been approved")
    keys.follow("Close the review", "Emergencies to look at", "button")
    keys.at("Why")
    keys.type("Payroll is on the first.")
    keys.follow("Close the review", "Emergencies to look at", "button")
    keys.sees("Should not have been approved like this")
    keys.sees("Nothing waits.")


def test_an_approval_is_taken_back_before_it_was_used(office: Office) -> None:
    asked = office.ask("wire_transfer", amount=70, to="Fraud Ltd")
    keys = office.become("grace", asked.path)
    keys.follow("Approve", "Approved", "button")
    keys.follow("In force", "Approvals in force", "a")
    keys.to("Take it back: Transfers 70 to Fraud Ltd", "summary")
    keys.press("Enter")
    keys.press("Tab")
    keys.at("Reason for taking it back")
    keys.type("The supplier was a fraud.")
    keys.follow("Take the approval back", "Transfers 70 to Fraud Ltd", "button")
    keys.sees("Nothing can start under it any more.")
    assert not office.run(asked)
    assert {"amount": 70, "to": "Fraud Ltd"} not in office.ran
