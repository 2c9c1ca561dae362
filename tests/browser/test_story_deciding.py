"""Stories of deciding, told in Chromium by keyboard alone; `tests/stories` tells the same with gate and client.

Nobody clicks: whoever decides comes by Tab, arrows, Enter, Space and what he types.
"""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.office import Asked, Office, open_office

pytestmark = [pytest.mark.browser]
RULES = """
version: 1
groups: {treasury: Treasury}
clients: [{client: gate, may: 'true'}]
entities:
  user: {ada: {manager: mia}}
  tool: {grant_access: {owner: [otto]}}
rules:
  - {id: transfers, when: resource.id == "wire_transfer", request: transfer}
  - {id: accesses, when: resource.id == "grant_access", request: access}
  - {id: orders, when: resource.id == "order", request: order}
  - {id: news, when: resource.id == "publish", request: publish}
  - {id: deletions, when: resource.id == "delete_file", request: deletion}
templates:
  transfer:
    title: Wire transfer
    explanation: Money leaves the company.
    effect: '"Transfers " + string(call.arguments.amount) + " to " + call.arguments.to'
    risk: high
    steps: [{id: treasury, title: Two treasurers, groups: [treasury], quorum: 2}]
  access:
    title: Access to the ledger
    explanation: Somebody can read the books.
    effect: '"Lets " + call.arguments.who + " read the books"'
    steps:
      - {id: manager, title: The manager, relations: [{of: subject, is: manager}]}
      - {id: owner, title: The owner of the ledger, after: [manager], relations: [{of: resource, is: owner}]}
  order:
    title: Order
    explanation: Something is bought.
    effect: '"Orders " + call.arguments.what'
    risk: low
    evaluators:
      - {id: small, when: 'call.?arguments.?price.orValue(1000) <= 100', decision: approve, reason: a small amount}
    steps: [{id: treasury, title: A treasurer, groups: [treasury]}]
  deletion:
    title: Deletion
    explanation: What is deleted is gone.
    effect: '"Deletes " + call.arguments.file'
    steps: [{id: treasury, title: A treasurer, groups: [treasury]}]
  publish:
    title: Publish
    explanation: Everybody can read it.
    effect: '"Publishes " + call.arguments.what'
    steps: [{id: treasury, title: Two of the treasury, groups: [treasury], quorum: 2}]
"""
PEOPLE = {"grace": ("treasury",), "linus": ("treasury",), "mia": (), "otto": ()}


@pytest.fixture(scope="module")
def office(chromium_browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    """The office of all stories here."""
    with open_office(chromium_browser, tmp_path_factory.mktemp("office"), RULES, PEOPLE) as opened:
        yield opened


def approve(office: Office, person: str, asked: Asked, heading: str) -> None:
    """Follow the link of the mail, and approve."""
    keys = office.become(person, asked.path)
    keys.follow("Approve", heading, "button")


def test_four_eyes_let_a_transfer_through(office: Office) -> None:
    asked = office.ask("wire_transfer", amount=50_000, to="acct-991")
    hers = office.become("grace")
    hers.follow("Transfers 50000 to acct-991", "Transfers 50000 to acct-991")
    hers.follow("Approve", "Your decision", "button")
    hers.sees("Your decision is recorded below and cannot be changed.")
    hers.sees("1 of 2 approvals")
    assert not office.run(asked)
    his = office.become("linus")
    his.follow("Transfers 50000 to acct-991", "Transfers 50000 to acct-991")
    his.follow("Approve", "Approved", "button")
    his.sees("Grace")
    assert office.run(asked)
    assert office.ran.pop() == {"amount": 50_000, "to": "acct-991"}
    assert max(hers.presses, his.presses) <= 60, "no more than a page needs"


def test_the_manager_decides_and_then_the_owner_of_the_thing(office: Office) -> None:
    asked = office.ask("grant_access", who="Ada")
    his = office.become("otto", asked.path)
    his.sees("It is not your turn yet: others decide first.")
    expect(his.page.get_by_role("button", name="Approve")).to_have_count(0)
    approve(office, "mia", asked, "Your decision")
    assert not office.run(asked)
    his = office.become("otto")
    his.follow("Lets Ada read the books", "Lets Ada read the books")
    his.sees("The manager")
    his.follow("Approve", "Approved", "button")
    assert office.run(asked)


def test_a_small_order_needs_nobody_and_is_on_record(office: Office) -> None:
    asked = office.ask("order", what="pencils", price=12)
    assert office.run(asked)
    keys = office.become("grace")
    expect(keys.page.get_by_role("link", name="Orders pencils")).to_have_count(0)
    keys.follow("Approved", "Requests")
    keys.follow("Orders pencils", "Orders pencils")
    keys.sees("The rule small said: approve")
    keys.sees("Used: it ran once; nothing more can run with it.")


def test_one_veto_outranks_the_other_yes(office: Office) -> None:
    asked = office.ask("publish", what="the figures")
    approve(office, "grace", asked, "Your decision")
    keys = office.become("linus", asked.path)
    keys.follow("Deny", "Your decision", "button")
    keys.at("Remark or reason")
    keys.sees("Please say why.")
    keys.type("Not before Friday.")
    keys.follow("Deny", "Denied", "button")
    keys.sees("Not before Friday.")
    keys.sees("Grace")
    assert not office.run(asked)


def test_many_requests_of_an_agent_that_ran_wild_are_denied(office: Office) -> None:
    wild = [office.ask("delete_file", file=f"{year}.csv") for year in (2023, 2024, 2025)]
    other = office.ask("publish", what="a call for tenders")
    keys = office.become("grace", "/desk?q=delete_file")
    for year in (2023, 2024, 2025):
        keys.to(f"Choose: Deletes {year}.csv", "input")
        keys.press("Space")
    keys.follow("Decide the chosen ones together", "Decide 3 requests together", "button")
    expect(keys.page.get_by_text("Publishes a call for tenders")).to_have_count(0)
    keys.follow("Deny these 3", "Decide 3 requests together", "button")
    keys.at("Remark or reason")
    keys.type("Nobody asked for this.")
    keys.follow("Deny these 3", "Denied together: what became of each", "button")
    keys.sees("3 of 3 decisions recorded")
    assert [office.told(each)["status"] for each in wild] == ["denied"] * 3
    assert office.told(other)["status"] == "pending"
    assert keys.presses <= 120
